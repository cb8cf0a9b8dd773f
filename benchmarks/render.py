"""Measure how fast prompts are rendered: `python -m benchmarks.render [--turns 200] [--tools 20]`.

The output has the tokens per second for a long conversation, with and without the replay of sampled
tokens; the time that tiktoken takes to encode the same texts; and the time of openai-harmony for
the same prompt, if it is installed.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from benchmarks.library.reference import load_reference
from benchmarks.library.timing import shortest
from harmony.messages import (
    Author,
    Channel,
    Conversation,
    DeveloperContent,
    FunctionTool,
    Message,
    Role,
    SystemContent,
    ToolNamespace,
)
from harmony.render import developer_text, render, render_message, system_text
from harmony.tokenizer import encode

RUNS = 5
PROSE = (
    "The harbour master keeps a log of every vessel that enters, with its draught, its last port "
    "and the hour of its arrival; at spring tide the bar is passable for two hours on either side "
    "of high water, and masters are warned not to rely on the buoys alone. "
)
PARAMETERS = {
    "type": "object",
    "properties": {
        "harbour": {"type": "string", "description": "Its name, as charts have it"},
        "datum": {"type": "string", "enum": ["LAT", "MSL"], "default": "LAT"},
        "days": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["harbour"],
}


def conversation(turns: int, tools: int) -> tuple[Message, ...]:
    functions = tuple(FunctionTool(f"tides_{n}", PROSE, PARAMETERS) for n in range(tools))
    developer = DeveloperContent(PROSE, (ToolNamespace("functions", tools=functions),))
    assistant, tool = Author(Role.ASSISTANT), Author(Role.TOOL, "functions.tides_0")
    turn = (
        Message(Author(Role.USER), PROSE),
        Message(assistant, '{"harbour": "Dover"}', Channel.COMMENTARY, tool.name, "json"),
        Message(tool, PROSE * 3, Channel.COMMENTARY, "assistant"),
        Message(assistant, PROSE * 2, Channel.FINAL),
    )
    start = (
        Message(Author(Role.SYSTEM), SystemContent(start_date="2026-11-20")),
        Message(Author(Role.DEVELOPER), developer),
    )
    return start + turn * turns


def replayed(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages with the sampled tokens of every assistant message."""
    return tuple(
        replace(m, tokens=tuple(render_message(m))) if m.author.role is Role.ASSISTANT else m
        for m in messages
    )


def texts(messages: Sequence[Message]) -> list[str]:
    encoded_texts = []
    for content in (message.content for message in messages):
        match content:
            case SystemContent():
                encoded_texts.append(system_text(content, functions=True))
            case DeveloperContent():
                encoded_texts.append(developer_text(content))
            case _:
                encoded_texts.append(content)
    return encoded_texts


def library_render(messages: Sequence[Message]) -> Callable[[], list[int]]:
    """openai-harmony's rendering of the same prompt. Raises ImportError if it is not installed."""
    library, encoding = load_reference()
    conversation = library.Conversation.from_messages(
        [_library_message(library, m) for m in messages]
    )
    return lambda: list(
        encoding.render_conversation_for_completion(conversation, library.Role.ASSISTANT)
    )


def _library_message(library: Any, message: Message) -> Any:
    content: Any = message.content
    if isinstance(content, SystemContent):
        content = library.SystemContent.new().with_conversation_start_date(content.start_date)
    elif isinstance(content, DeveloperContent):
        tools = [
            library.ToolDescription.new(tool.name, tool.description, tool.parameters)
            for tool in content.tools[0].tools
        ]
        developer = library.DeveloperContent.new().with_instructions(content.instructions)
        content = developer.with_function_tools(tools)
    author = library.Author(role=library.Role(message.author.role), name=message.author.name)
    converted = library.Message.from_author_and_content(author, content)
    converted.channel, converted.recipient = message.channel, message.recipient
    converted.content_type = message.content_type
    return converted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--tools", type=int, default=20)
    options = parser.parse_args()

    messages = conversation(options.turns, options.tools)
    stored = replayed(messages)
    contents = texts(messages)
    prompt = render(Conversation(messages))
    took = shortest(lambda: render(Conversation(messages)), RUNS)
    took_stored = shortest(lambda: render(Conversation(stored)), RUNS)
    took_tiktoken = shortest(lambda: [encode(text) for text in contents], RUNS)

    print(f"{len(messages)} messages, {len(prompt)} tokens")
    print(f"rendered    {_speed(took, len(prompt))}")
    print(f"replayed    {_speed(took_stored, len(prompt))}")
    print(f"tiktoken    {_speed(took_tiktoken, len(prompt))}  {took_tiktoken / took:.0%} of ours")
    try:
        theirs = library_render(messages)
    except ImportError:
        print("openai-harmony is not installed")
        return
    if theirs() != prompt:
        raise SystemExit("openai-harmony renders other tokens")
    took_theirs = shortest(theirs, RUNS)
    print(f"the library {_speed(took_theirs, len(prompt))}  {took_theirs / took:.1f} times ours")


def _speed(took: float, tokens: int) -> str:
    return f"{took * 1e3:8.2f} ms {tokens / took / 1e6:6.2f} M tokens/s"


if __name__ == "__main__":
    main()
