"""The operations of the API: what each takes and answers. A test compares them with the routes."""

from server.openapi import chat, common, events, responses
from server.openapi.file_operations import CONTAINERS, FILES
from server.openapi.operation import PAGING, Operation, Query, Socket, order
from server.schemas.chat import CreateChatCompletion, UpdateChatCompletion
from server.schemas.conversations import CreateConversation, CreateItems, UpdateConversation
from server.schemas.legacy_completions import CreateCompletion
from server.schemas.responses import CompactResponse, CreateResponse
from server.schemas.tokens import Detokenize, Tokenize

STREAMED = "With `stream: true` the answer is a stream of server-sent events."
BYTES = (Query("return_token_bytes", "True: the bytes of each token, too.", {"type": "boolean"}),)
FOLLOWING = (
    Query("stream", "True: the response's events, as a stream.", {"type": "boolean"}),
    Query(
        "starting_after",
        "With `stream`: the number of the last event that the client has.",
        {"type": "integer", "minimum": 0},
    ),
    Query(
        "include[]",
        "`gpt_oss:record`: with the record of the tokens, even if it was not asked for before.",
        {"type": "array", "items": {"type": "string"}},
    ),
)
STORED_CHAT = (
    Query("model", "Only completions of this model.", {"type": "string"}),
    Query(
        "metadata",
        "Only completions with these labels: `metadata[KEY]=VALUE`.",
        {"type": "object", "additionalProperties": {"type": "string"}},
    ),
)

_RESPONSES, _CONVERSATIONS, _CHAT = "Responses", "Conversations", "Chat Completions"
_RAW, _SERVER = "Raw prompts", "Server"
_RESPONSE = "/v1/responses/{response_id}"
_CONVERSATION = "/v1/conversations/{conversation_id}"
_COMPLETIONS = "/v1/chat/completions"
_COMPLETION = f"{_COMPLETIONS}/{{completion_id}}"

RESPONSES = (
    Operation(
        "createResponse",
        _RESPONSES,
        "post",
        "/v1/responses",
        "Makes a response.",
        responses.Response,
        STREAMED,
        body=CreateResponse,
        stream=events.ResponseStreamEvent,
        errors=(404, 429),
    ),
    Operation(
        "countInputTokens",
        _RESPONSES,
        "post",
        "/v1/responses/input_tokens",
        "Counts the tokens of a request's prompt.",
        responses.InputTokens,
        body=CreateResponse,
        errors=(404,),
    ),
    Operation(
        "compactResponse",
        _RESPONSES,
        "post",
        "/v1/responses/compact",
        "Replaces a conversation by the user's messages and a sealed summary.",
        responses.Compaction,
        body=CompactResponse,
        errors=(404, 429, 502),
    ),
    Operation(
        "renderResponse",
        _RESPONSES,
        "post",
        "/v1/responses/render",
        "Returns the prompt of a request, as text and as token ids.",
        common.Rendered,
        "Refused where reasoning is hidden.",
        body=CreateResponse,
        query=BYTES,
        errors=(404,),
    ),
    Operation(
        "listResponses",
        _RESPONSES,
        "get",
        "/v1/responses",
        "Lists the responses that no other response continues.",
        responses.ResponsePage,
        "An extension of this server. Responses of conversations are not listed.",
        query=(*PAGING, order("desc")),
    ),
    Operation(
        "retrieveResponse",
        _RESPONSES,
        "get",
        _RESPONSE,
        "Returns a stored response.",
        responses.Response,
        "With `stream=true` the answer is a stream of its events.",
        stream=events.ResponseStreamEvent,
        query=FOLLOWING,
        errors=(404,),
    ),
    Operation(
        "deleteResponse",
        _RESPONSES,
        "delete",
        _RESPONSE,
        "Deletes a stored response, and cancels it if it still runs.",
        common.DeletedResponse,
        errors=(404,),
    ),
    Operation(
        "cancelResponse",
        _RESPONSES,
        "post",
        f"{_RESPONSE}/cancel",
        "Cancels a background response. One that has ended stays as it is.",
        responses.Response,
        errors=(400, 404),
    ),
    Operation(
        "listInputItems",
        _RESPONSES,
        "get",
        f"{_RESPONSE}/input_items",
        "Lists the items that a response was made from.",
        responses.ItemPage,
        query=(*PAGING, order("desc")),
        errors=(404,),
    ),
)

CONVERSATIONS = (
    Operation(
        "createConversation",
        _CONVERSATIONS,
        "post",
        "/v1/conversations",
        "Creates a conversation.",
        common.Conversation,
        body=CreateConversation,
        body_required=False,
        errors=(404,),
    ),
    Operation(
        "listConversations",
        _CONVERSATIONS,
        "get",
        "/v1/conversations",
        "Lists the conversations.",
        common.ConversationPage,
        "An extension of this server.",
        query=(*PAGING, order("desc")),
    ),
    Operation(
        "retrieveConversation",
        _CONVERSATIONS,
        "get",
        _CONVERSATION,
        "Returns a conversation.",
        common.Conversation,
        errors=(404,),
    ),
    Operation(
        "updateConversation",
        _CONVERSATIONS,
        "post",
        _CONVERSATION,
        "Changes the metadata of a conversation.",
        common.Conversation,
        body=UpdateConversation,
        errors=(404,),
    ),
    Operation(
        "deleteConversation",
        _CONVERSATIONS,
        "delete",
        _CONVERSATION,
        "Deletes a conversation and its items.",
        common.DeletedConversation,
        errors=(404,),
    ),
    Operation(
        "createItems",
        _CONVERSATIONS,
        "post",
        f"{_CONVERSATION}/items",
        "Adds items to a conversation.",
        responses.ItemPage,
        body=CreateItems,
        errors=(404,),
    ),
    Operation(
        "listItems",
        _CONVERSATIONS,
        "get",
        f"{_CONVERSATION}/items",
        "Lists the items of a conversation.",
        responses.ItemPage,
        query=(*PAGING, order("desc")),
        errors=(404,),
    ),
    Operation(
        "retrieveItem",
        _CONVERSATIONS,
        "get",
        f"{_CONVERSATION}/items/{{item_id}}",
        "Returns an item of a conversation.",
        responses.StoredItem,
        errors=(404,),
    ),
    Operation(
        "deleteItem",
        _CONVERSATIONS,
        "delete",
        f"{_CONVERSATION}/items/{{item_id}}",
        "Removes an item, and returns the conversation.",
        common.Conversation,
        errors=(404,),
    ),
)

CHAT = (
    Operation(
        "createChatCompletion",
        _CHAT,
        "post",
        _COMPLETIONS,
        "Makes a chat completion.",
        chat.ChatCompletion,
        STREAMED,
        body=CreateChatCompletion,
        stream=chat.ChatChunk | common.Error,
        errors=(404, 429),
    ),
    Operation(
        "renderChatCompletion",
        _CHAT,
        "post",
        f"{_COMPLETIONS}/render",
        "Returns the prompt of a request, as text and as token ids.",
        common.Rendered,
        "Refused where reasoning is hidden.",
        body=CreateChatCompletion,
        query=BYTES,
        errors=(404,),
    ),
    Operation(
        "listChatCompletions",
        _CHAT,
        "get",
        _COMPLETIONS,
        "Lists the stored completions.",
        chat.ChatCompletionPage,
        query=(*PAGING, order("asc"), *STORED_CHAT),
    ),
    Operation(
        "retrieveChatCompletion",
        _CHAT,
        "get",
        _COMPLETION,
        "Returns a stored completion.",
        chat.StoredChatCompletion,
        errors=(404,),
    ),
    Operation(
        "updateChatCompletion",
        _CHAT,
        "post",
        _COMPLETION,
        "Changes the metadata of a stored completion.",
        chat.StoredChatCompletion,
        body=UpdateChatCompletion,
        errors=(404,),
    ),
    Operation(
        "deleteChatCompletion",
        _CHAT,
        "delete",
        _COMPLETION,
        "Deletes a stored completion.",
        common.DeletedChatCompletion,
        errors=(404,),
    ),
    Operation(
        "listChatCompletionMessages",
        _CHAT,
        "get",
        f"{_COMPLETION}/messages",
        "Lists the messages of a stored completion's request.",
        chat.MessagePage,
        query=(*PAGING, order("asc")),
        errors=(404,),
    ),
)

RAW_PROMPTS = (
    Operation(
        "createCompletion",
        _RAW,
        "post",
        "/v1/completions",
        "Samples from raw prompts, to which no harmony is added.",
        chat.Completion,
        f"{STREAMED} Refused where reasoning is hidden.",
        body=CreateCompletion,
        stream=chat.CompletionChunk | common.Error,
        errors=(404, 429),
    ),
    Operation(
        "tokenize",
        _RAW,
        "post",
        "/tokenize",
        "Converts text to tokens.",
        common.Tokenized,
        body=Tokenize,
        errors=(404,),
    ),
    Operation(
        "detokenize",
        _RAW,
        "post",
        "/detokenize",
        "Converts tokens to text.",
        common.Detokenized,
        body=Detokenize,
        errors=(404,),
    ),
)

SERVER = (
    Operation(
        "listModels",
        _SERVER,
        "get",
        "/v1/models",
        "Lists the served names.",
        common.ModelList,
        has_head=True,
    ),
    Operation(
        "retrieveModel",
        _SERVER,
        "get",
        "/v1/models/{name}",
        "Returns a served name.",
        common.Model,
        errors=(404,),
        has_head=True,
    ),
    Operation(
        "retrieveHealth",
        _SERVER,
        "get",
        "/health",
        "Says whether the engine can serve.",
        common.Health,
        is_open=True,
        has_head=True,
    ),
    Operation(
        "retrieveReadiness",
        _SERVER,
        "get",
        "/ready",
        "Says whether the server takes requests.",
        common.Readiness,
        is_open=True,
        has_head=True,
        unready=common.Readiness,
    ),
    Operation(
        "retrieveVersion",
        _SERVER,
        "get",
        "/version",
        "Returns the versions.",
        common.Version,
        is_open=True,
        has_head=True,
    ),
    Operation(
        "retrieveDocument",
        _SERVER,
        "get",
        "/openapi.json",
        "Returns this document.",
        None,
        is_open=True,
        has_head=True,
    ),
    Operation(
        "retrievePage",
        _SERVER,
        "get",
        "/docs",
        "Shows this document.",
        None,
        is_open=True,
        has_head=True,
        media_type="text/html",
    ),
)

OPERATIONS = (*RESPONSES, *CONVERSATIONS, *CHAT, *FILES, *CONTAINERS, *RAW_PROMPTS, *SERVER)
SOCKETS = (
    Socket(
        "/v1/responses",
        "Opens a WebSocket that makes responses one after another.",
        "Each message of the client is a `response.create`. The server answers with the events of "
        "a stream, one to a message. With `store: false` the connection remembers the last "
        "response, and only this connection can continue it.",
        receives=events.ResponseCreate,
        sends=events.SocketEvent,
    ),
)
