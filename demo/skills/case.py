"""What a training case is: a prompt's messages, then the turns that the model should sample."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TypeVar

from demo.skills.words import Split
from harmony.messages import (
    Author,
    Channel,
    DeveloperContent,
    Effort,
    FunctionTool,
    Message,
    ResponseFormat,
    Role,
    SystemContent,
    ToolNamespace,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Turn:
    """One sampling: its messages, in order, then the results of the tools that it calls."""

    messages: tuple[Message, ...]
    results: tuple[Message, ...] = ()


Exchange = tuple[Message, tuple[Turn, ...]]
"""A request, and the turns that answer it."""


@dataclass(frozen=True, slots=True)
class Case:
    """A prompt (`history`, system message first) and the `turns` that should follow.

    `teach_history` says that the finals in the history are to be learned too (with no reasoning
    before them, and never what ends them: in a history that is `<|end|>`).
    """

    skill: str
    history: tuple[Message, ...]
    turns: tuple[Turn, ...]
    teach_history: bool = False


@dataclass(frozen=True, slots=True)
class Draw:
    """What every skill draws from: its random numbers, the words it may use, the effort."""

    rng: Random
    split: Split
    effort: Effort

    def pick(self, choices: Sequence[T]) -> T:
        """One of `choices`, evenly."""
        return self.rng.choice(choices)

    def weighted(self, choices: Mapping[T, float]) -> T:
        """One of `choices`, as often as its weight says."""
        return self.rng.choices(list(choices), list(choices.values()))[0]

    def chance(self, probability: float) -> bool:
        """True with `probability`."""
        return self.rng.random() < probability


@dataclass(frozen=True, slots=True)
class Thought:
    """The reasoning for one turn at each effort; each at least twice as long as the one before."""

    low: str
    medium: str
    high: str

    def at(self, effort: Effort) -> str:
        """The text for `effort`."""
        return {Effort.LOW: self.low, Effort.MEDIUM: self.medium, Effort.HIGH: self.high}[effort]


def system(draw: Draw, hosted: Sequence[ToolNamespace] = ()) -> Message:
    """The system message as the server makes it, at a random date and the draw's effort.

    hosted: the built-in namespaces, `harmony.tools.BROWSER` and `harmony.tools.PYTHON`.
    """
    rng = draw.rng
    date = f"{rng.randint(2024, 2028)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
    start = None if draw.chance(0.03) else date
    content = SystemContent(start_date=start, effort=draw.effort, tools=tuple(hosted))
    return Message(Author(Role.SYSTEM), content)


def developer(
    instructions: str | None = None,
    tools: Sequence[FunctionTool] = (),
    formats: Sequence[ResponseFormat] = (),
) -> tuple[Message, ...]:
    """A developer message with these parts; no message if there are none."""
    if not (instructions or tools or formats):
        return ()
    namespaces = (ToolNamespace("functions", tools=tuple(tools)),) if tools else ()
    content = DeveloperContent(instructions, namespaces, tuple(formats))
    return (Message(Author(Role.DEVELOPER), content),)


def user(text: str) -> Message:
    """A user's message."""
    return Message(Author(Role.USER), text)


def thinks(text: str) -> Message:
    """Reasoning."""
    return Message(Author(Role.ASSISTANT), text, Channel.ANALYSIS)


def final(text: str) -> Message:
    """An answer."""
    return Message(Author(Role.ASSISTANT), text, Channel.FINAL)


def call(name: str, arguments: str) -> Message:
    """A call of the function `name` with JSON `arguments`."""
    return Message(
        Author(Role.ASSISTANT),
        arguments,
        Channel.COMMENTARY,
        recipient=f"functions.{name}",
        content_type="json",
    )


def hosted_call(recipient: str, text: str) -> Message:
    """A call of a built-in tool: `python` with code, or `browser.search` and the like with JSON."""
    return Message(
        Author(Role.ASSISTANT), text, Channel.ANALYSIS, recipient=recipient, content_type="code"
    )


def hosted_result(recipient: str, text: str) -> Message:
    """What a built-in tool returned."""
    return Message(Author(Role.TOOL, recipient), text, Channel.ANALYSIS, recipient="assistant")


def result(name: str, text: str) -> Message:
    """What the function `name` returned."""
    return Message(
        Author(Role.TOOL, f"functions.{name}"), text, Channel.COMMENTARY, recipient="assistant"
    )


def answer(draw: Draw, thought: Thought, text: str) -> Turn:
    """A turn that thinks and answers."""
    return Turn((thinks(thought.at(draw.effort)), final(text)))


def without_thought(turn: Turn) -> Turn:
    """The same turn without its reasoning."""
    messages = tuple(
        m for m in turn.messages if m.channel is not Channel.ANALYSIS or m.recipient is not None
    )
    return replace(turn, messages=messages)
