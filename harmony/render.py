"""Renders a conversation as the token ids of a prompt.

Only the renderer writes control tokens. It encodes every text as ordinary tokens, so that no text
can end a message or start one. Equal conversations give equal ids. A conversation that goes on
begins with the same ids, except for the `<|start|>assistant` at the end, so that the prefix cache
of an engine applies. They differ from where a new answer drops the reasoning before it, and from
the system message on if functions are declared for the first time.

The ids equal those of openai-harmony 0.0.8, except for these differences (and, for JSON Schema,
those in `typescript`):

R1. Reasoning before the *last* answer is dropped. The library drops the reasoning before the first,
    and none while a call has no result yet.
R2. Calls of functions on the analysis channel, and their results, are never dropped. The library
    treats them as reasoning. A call of a built-in tool (python, browser) and its result are dropped
    together or not at all. The library looks at the channel of each.
R3. A message that was sampled is replayed from its own ids. The library has only text, and
    renders it again.
R4. Response formats are part of the developer message, at its end. The library has none.
R5. A freeform tool takes `(input: string)`. The library has only tools with JSON arguments.
R6. Some conversations that the library refuses are rendered: a tool message without a tool name
    comes from `tool`, a message of any role may have any content, lone surrogates are U+FFFD.
R7. Every line end (CR, U+2028 and others) ends a comment line. The library knows only LF.
"""

import sys
from collections.abc import Iterable, Sequence

from harmony import history, tools, vocab
from harmony.literal import comment, json_text
from harmony.messages import (
    Conversation,
    DeveloperContent,
    Message,
    ResponseFormat,
    Role,
    SystemContent,
)
from harmony.tokenizer import count, encode_header_part, encode_within

_CONSTRAIN = "<|constrain|>"
_ENDS_IN_PROMPTS = frozenset({vocab.END, vocab.CALL})


def render(conversation: Conversation, limit: int = sys.maxsize) -> list[int]:
    """The prompt for the next message of the assistant, without the reasoning of answered turns.

    The prompt ends with `<|start|>assistant`. If it has more than `limit` ids, the result may be
    incomplete, but has more than `limit` ids.
    """
    ids: list[int] = []
    functions = _declares_functions(conversation)
    for message in rendered_messages(conversation):
        ids += render_message(message, functions=functions, limit=limit)
        if len(ids) > limit:
            return ids
    ids += (vocab.START, *encode_header_part(Role.ASSISTANT))
    return ids


def length(conversation: Conversation) -> int:
    """The number of ids that `render` gives, without making the list."""
    functions = _declares_functions(conversation)
    frame = 1 + len(encode_header_part(Role.ASSISTANT))
    return frame + sum(_length(message, functions) for message in rendered_messages(conversation))


def render_message(
    message: Message, *, functions: bool = False, limit: int = sys.maxsize
) -> list[int]:
    """The ids of one message, from `<|start|>` to the token that ends it.

    functions: whether the conversation declares functions, which a system message has to mention.
    limit: as for `render`.
    """
    if message.tokens:
        return _replayed(message, message.tokens)
    return [
        vocab.START,
        *_header(message),
        vocab.MESSAGE,
        *encode_within(_text(message.content, functions), limit),
        _end(message),
    ]


def _length(message: Message, functions: bool) -> int:
    if message.tokens:
        return len(_replayed(message, message.tokens))
    return 3 + sum(1 for _ in _header(message)) + count(_text(message.content, functions))


def rendered_messages(conversation: Conversation) -> Sequence[Message]:
    """The messages that the prompt has."""
    messages = conversation.messages
    if conversation.all_reasoning:
        return messages
    return history.without_answered_reasoning(messages)


def system_text(content: SystemContent, *, functions: bool = False) -> str:
    """The text of a system message; `functions` as in `render_message`."""
    identity = [content.identity]
    if content.knowledge_cutoff is not None:
        identity.append(f"Knowledge cutoff: {content.knowledge_cutoff}")
    if content.start_date is not None:
        identity.append(f"Current date: {content.start_date}")
    sections = ["\n".join(identity)]
    if content.effort is not None:
        sections.append(f"Reasoning: {content.effort}")
    if content.tools:
        sections.append(tools.section(content.tools))
    if content.channels:
        channels = ", ".join(content.channels)
        sections.append(
            f"# Valid channels: {channels}. Channel must be included for every message."
            + ("\n" + _FUNCTIONS_CHANNEL if functions else "")
        )
    return "\n\n".join(sections)


_FUNCTIONS_CHANNEL = "Calls to these tools must go to the commentary channel: 'functions'."


def developer_text(content: DeveloperContent) -> str:
    """The text of a developer message."""
    sections = []
    if content.instructions is not None:
        sections += ["# Instructions", content.instructions]
    if content.tools:
        sections.append(tools.section(content.tools))
    if content.response_formats:
        sections += ["# Response Formats", *map(_format_text, content.response_formats)]
    return "\n\n".join(sections)


def _format_text(response_format: ResponseFormat) -> str:
    description = response_format.description
    comments = "" if description is None else comment(description)
    return f"## {response_format.name}\n\n{comments}{json_text(response_format.schema)}"


def _text(content: str | SystemContent | DeveloperContent, functions: bool) -> str:
    match content:
        case SystemContent():
            return system_text(content, functions=functions)
        case DeveloperContent():
            return developer_text(content)
        case _:
            return content


def _declares_functions(conversation: Conversation) -> bool:
    return any(_has_functions(message) for message in conversation.messages)


def _has_functions(message: Message) -> bool:
    content = message.content
    return isinstance(content, DeveloperContent) and any(
        namespace.name == tools.FUNCTIONS and namespace.tools for namespace in content.tools
    )


def _header(message: Message) -> Iterable[int]:
    """The ids between `<|start|>` and `<|message|>`. Each part is encoded separately."""
    author = message.author
    if author.role == Role.TOOL:
        yield from encode_header_part(author.name or Role.TOOL)
    else:
        yield from encode_header_part(author.role)
        if author.name is not None:
            yield from encode_header_part(f":{author.name}")
    if message.recipient not in (None, "all"):
        yield from encode_header_part(f" to={message.recipient}")
    if message.channel is not None:
        yield vocab.CHANNEL
        yield from encode_header_part(message.channel)
    if message.content_type is not None:
        yield from _content_type(message.content_type)


def _content_type(content_type: str) -> Iterable[int]:
    constrained = content_type.removeprefix(_CONSTRAIN)
    if constrained == content_type:
        yield from encode_header_part(f" {content_type}")
    else:
        yield from encode_header_part(" ")
        yield vocab.CONSTRAIN
        yield from encode_header_part(constrained)


def _end(message: Message) -> int:
    is_call = message.author.role == Role.ASSISTANT and message.recipient is not None
    return vocab.CALL if is_call else vocab.END


def _replayed(message: Message, tokens: tuple[int, ...]) -> list[int]:
    """The sampled ids, with the end token of a message in a prompt, which is never `<|return|>`."""
    if tokens[-1] in _ENDS_IN_PROMPTS:
        return list(tokens)
    if tokens[-1] in vocab.STOP_TOKENS:
        tokens = tokens[:-1]
    return [*tokens, _end(message)]
