"""The items of Responses' `input` and of conversations, as clients send them.

Source: https://platform.openai.com/docs/api-reference/responses/create#responses-create-input
"""

from typing import Literal, NotRequired

from typing_extensions import TypeAliasType, TypedDict

from server.schemas.content import Content
from server.schemas.descriptions import described

ItemStatus = Literal["in_progress", "completed", "incomplete"]


@described
class MessageParam(TypedDict):
    """A message. `type` may be left out."""

    type: NotRequired[Literal["message"] | None]
    id: NotRequired[str | None]
    status: NotRequired[ItemStatus | None]
    role: Literal["user", "assistant", "system", "developer"]
    content: Content
    phase: NotRequired[Literal["commentary", "final_answer"] | None]
    """Of the assistant's messages: text before a call, or the answer.

    Without it, a message is commentary if a call or a result follows before the next user message.
    """


@described
class ReasoningParam(TypedDict):
    """Reasoning that an answer had, sent back.

    Its text, its id (of a stored answer) or its seal is enough.
    """

    type: Literal["reasoning"]
    id: NotRequired[str | None]
    status: NotRequired[ItemStatus | None]
    content: NotRequired[Content | None]
    encrypted_content: NotRequired[str | None]
    """The seal that the answer had, unchanged."""


@described
class FunctionCallParam(TypedDict):
    """A call that the model made."""

    type: Literal["function_call"]
    id: NotRequired[str | None]
    status: NotRequired[ItemStatus | None]
    call_id: str
    name: str
    namespace: NotRequired[str | None]
    arguments: str
    """JSON, as the model wrote it."""


@described
class FunctionCallOutputParam(TypedDict):
    """What a call gave. The call comes before it, in `input` or in what is continued."""

    type: Literal["function_call_output"]
    id: NotRequired[str | None]
    status: NotRequired[ItemStatus | None]
    call_id: str
    output: Content


@described
class CustomToolCallParam(TypedDict):
    """A call of a custom tool that the model made."""

    type: Literal["custom_tool_call"]
    id: NotRequired[str | None]
    status: NotRequired[ItemStatus | None]
    call_id: str
    name: str
    namespace: NotRequired[str | None]
    input: str


@described
class CustomToolCallOutputParam(TypedDict):
    """What a call of a custom tool gave."""

    type: Literal["custom_tool_call_output"]
    id: NotRequired[str | None]
    status: NotRequired[ItemStatus | None]
    call_id: str
    output: Content


@described
class CompactionParam(TypedDict):
    """The encrypted summary that `POST /v1/responses/compact` made, sent back."""

    type: Literal["compaction"]
    id: NotRequired[str | None]
    status: NotRequired[ItemStatus | None]
    encrypted_content: str


@described
class ItemReference(TypedDict):
    """A stored item, by its id. `type` may be left out."""

    type: NotRequired[Literal["item_reference"] | None]
    id: str


@described
class OtherItemParam(TypedDict):
    """An item of a hosted tool, or of a kind that this server does not make.

    Calls of hosted tools that this server ran are read with their results, if they come back
    unchanged. Code that another server ran is read with its logs, where the request names
    `code_interpreter`. Calls that a client ran are read as calls of a function that is named for
    their kind, with their outputs. Of all others the model reads a note, or the request is refused:
    `--unsupported-input` decides.
    """

    type: Literal[
        "apply_patch_call",
        "apply_patch_call_output",
        "code_interpreter_call",
        "computer_call",
        "computer_call_output",
        "file_search_call",
        "image_generation_call",
        "local_shell_call",
        "local_shell_call_output",
        "mcp_approval_request",
        "mcp_approval_response",
        "mcp_call",
        "mcp_list_tools",
        "shell_call",
        "shell_call_output",
        "tool_search_call",
        "tool_search_output",
        "web_search_call",
    ]


InputItem = TypeAliasType(
    "InputItem",
    (
        MessageParam
        | ReasoningParam
        | FunctionCallParam
        | FunctionCallOutputParam
        | CustomToolCallParam
        | CustomToolCallOutputParam
        | CompactionParam
        | ItemReference
        | OtherItemParam
    ),
)
