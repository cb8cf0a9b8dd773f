"""A conversation as the token ids of a prompt.

Control tokens come from the renderer alone: every text is encoded as ordinary tokens, so that no
text can end a message or open one. The same conversation always gives the same ids, and a longer
one repeats a shorter one's, so that an engine's prefix cache hits.

The ids equal those of openai-harmony 0.0.8 except here (and, for JSON Schema, in `typescript`):

R1. Reasoning before the *last* answer is dropped. The library drops what came before the first,
    and nothing at all while a call awaits its result.
R2. Calls and tool results on the analysis channel (python, browser) are never dropped. The
    library takes them for reasoning.
R3. A message that was sampled is replayed from its own ids. The library has only text, and
    renders anew.
R4. Response formats are part of the developer message, at its end. The library has none.
R5. A freeform tool takes `(input: string)`. The library has only tools that take JSON.
R6. What the library refuses is rendered: a tool message whose tool is not named comes from `tool`,
    contents may stand in a message of any role, lone surrogates are U+FFFD.
R7. Whatever ends a line (CR, U+2028 and others) ends one of a comment. The library knows LF alone.
"""

import sys
from collections.abc import Iterable
from functools import lru_cache

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
from harmony.tokenizer import count, encode, encode_within

_CONSTRAIN = "<|constrain|>"
_ENDS = frozenset({vocab.END, vocab.CALL})


def render(conversation: Conversation, most: int = sys.maxsize) -> list[int]:
    """The prompt for the assistant's next message, its history rules applied.

    It ends with `<|start|>assistant`; what is sampled goes on from there. Of a prompt that has more
    than `most` ids, the first `most` + 1 or more are given.
    """
    ids: list[int] = []
    functions = _declares_functions(conversation)
    for message in _kept(conversation):
        ids += render_message(message, functions=functions, most=most)
        if len(ids) > most:
            return ids
    ids += (vocab.START, *_words(Role.ASSISTANT))
    return ids


def length(conversation: Conversation) -> int:
    """How many ids `render` gives, of which no list is made."""
    functions = _declares_functions(conversation)
    frame = 1 + len(_words(Role.ASSISTANT))
    return frame + sum(_length(message, functions) for message in _kept(conversation))


def render_message(
    message: Message, *, functions: bool = False, most: int = sys.maxsize
) -> list[int]:
    """One message from `<|start|>` to the token that ends it.

    functions: the conversation declares functions, which a system message has to mention. most: as
    for `render`.
    """
    if message.tokens:
        return _replayed(message, message.tokens)
    return [
        vocab.START,
        *_header(message),
        vocab.MESSAGE,
        *encode_within(_text(message.content, functions), most),
        _end(message),
    ]


def _length(message: Message, functions: bool) -> int:
    if message.tokens:
        return len(_replayed(message, message.tokens))
    return 3 + sum(1 for _ in _header(message)) + count(_text(message.content, functions))


def _kept(conversation: Conversation) -> Iterable[Message]:
    messages = conversation.messages
    return messages if conversation.all_reasoning else history.kept(messages)


def system_text(content: SystemContent, *, functions: bool = False) -> str:
    """What a system message says; `functions` as in `render_message`."""
    about = [content.identity]
    if content.knowledge_cutoff is not None:
        about.append(f"Knowledge cutoff: {content.knowledge_cutoff}")
    if content.start_date is not None:
        about.append(f"Current date: {content.start_date}")
    sections = ["\n".join(about)]
    if content.effort is not None:
        sections.append(f"Reasoning: {content.effort}")
    if content.tools:
        sections.append(tools.section(content.tools))
    if content.channels:
        named = ", ".join(content.channels)
        sections.append(
            f"# Valid channels: {named}. Channel must be included for every message."
            + ("\n" + _FUNCTIONS_GO_TO if functions else "")
        )
    return "\n\n".join(sections)


_FUNCTIONS_GO_TO = "Calls to these tools must go to the commentary channel: 'functions'."


def developer_text(content: DeveloperContent) -> str:
    """What a developer message says."""
    sections = []
    if content.instructions is not None:
        sections += ["# Instructions", content.instructions]
    if content.tools:
        sections.append(tools.section(content.tools))
    if content.response_formats:
        sections += ["# Response Formats", *map(_format_text, content.response_formats)]
    return "\n\n".join(sections)


def _format_text(form: ResponseFormat) -> str:
    about = "" if form.description is None else comment(form.description)
    return f"## {form.name}\n\n{about}{json_text(form.schema)}"


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
    """The ids between `<|start|>` and `<|message|>`; its parts are encoded one by one."""
    author = message.author
    if author.role == Role.TOOL:
        yield from _words(author.name or Role.TOOL)
    else:
        yield from _words(author.role)
        if author.name is not None:
            yield from _words(f":{author.name}")
    if message.recipient not in (None, "all"):
        yield from _words(f" to={message.recipient}")
    if message.channel is not None:
        yield vocab.CHANNEL
        yield from _words(message.channel)
    if message.content_type is not None:
        yield from _content_type(message.content_type)


def _content_type(content_type: str) -> Iterable[int]:
    constrained = content_type.removeprefix(_CONSTRAIN)
    if constrained == content_type:
        yield from _words(f" {content_type}")
    else:
        yield from _words(" ")
        yield vocab.CONSTRAIN
        yield from _words(constrained)


@lru_cache(maxsize=4096)
def _words(text: str) -> tuple[int, ...]:
    # Headers repeat: of all that is rendered they alone are worth remembering.
    return tuple(encode(text))


def _end(message: Message) -> int:
    is_call = message.author.role == Role.ASSISTANT and message.recipient is not None
    return vocab.CALL if is_call else vocab.END


def _replayed(message: Message, tokens: tuple[int, ...]) -> list[int]:
    """The sampled ids, ended as a prompt's message is: `<|return|>` only ever ends a sampling."""
    if tokens[-1] in _ENDS:
        return list(tokens)
    if tokens[-1] in vocab.STOP_TOKENS:
        tokens = tokens[:-1]
    return [*tokens, _end(message)]
