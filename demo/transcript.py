"""Cases as token ids, through the same renderer that the server uses."""

from dataclasses import dataclass
from functools import cache

from demo.skills.case import Case, Turn, without_thought
from harmony import vocab
from harmony.history import without_answered_reasoning
from harmony.messages import Author, Channel, Conversation, Message, Role
from harmony.render import render, render_message
from harmony.tokenizer import encode_with_control


@dataclass(frozen=True, slots=True)
class Transcript:
    """Ids of a whole transcript, which of them the model learns to say, and which of them are what
    a user says (all of the same length)."""

    ids: list[int]
    learned: list[bool]
    heard: list[bool]


def prompt(case: Case) -> list[int]:
    """The prompt before the first turn of the case; ends in `<|start|>assistant`."""
    return render(Conversation(case.history))


def sampled(turn: Turn) -> list[int]:
    """The ids that the model says in a turn, from after `<|start|>assistant` to the stop token.

    Calls have the guide's header, `<|channel|>commentary to=functions.f <|constrain|>json`; those
    of built-in tools `<|channel|>analysis to=python code`.
    """
    ids: list[int] = []
    for message in turn.messages:
        if ids:
            ids += _control("<|start|>assistant")
        header = f"<|channel|>{message.channel}"
        if message.content_type == "code":
            header += f" to={message.recipient} code"
        elif message.recipient is not None:
            header += f" to={message.recipient} <|constrain|>{message.content_type}"
        ids += _control(f"{header}<|message|>")
        text = Message(Author(Role.USER), message.content)
        ids += render_message(text)[3:-1]
        ids.append(_end(message))
    return ids


@cache
def _control(text: str) -> tuple[int, ...]:
    """A header's ids; there are few of them, and each is needed often."""
    return tuple(encode_with_control(text))


def _end(message: Message) -> int:
    if message.recipient is not None:
        return vocab.CALL
    return vocab.RETURN if message.channel is Channel.FINAL else vocab.END


def between(turn: Turn) -> list[int]:
    """What the server adds after a turn: the tools' results, then the next `<|start|>assistant`."""
    ids = [token for message in turn.results for token in render_message(message)]
    return [*ids, *_control("<|start|>assistant")]


def transcript(case: Case, *, thinking: bool = True) -> Transcript:
    """The whole case. Without `thinking` its turns have no reasoning, and the channel that the
    model takes instead is not learned: it is the server that leaves reasoning out."""
    ids, learned = _history(case)
    for position, turn in enumerate(case.turns):
        if position:
            added = between(case.turns[position - 1])
            ids += added
            learned += [False] * len(added)
        turn_ids = sampled(turn if thinking else without_thought(turn))
        ids += turn_ids
        learned += [thinking or i > 1 for i in range(len(turn_ids))]
    return Transcript(ids, learned, _heard(ids))


def _heard(ids: list[int]) -> list[bool]:
    heard, inside = [False] * len(ids), False
    header = _control("<|start|>user<|message|>")
    for at, token in enumerate(ids):
        inside = inside and token != vocab.END
        heard[at] = inside
        inside = inside or (token == vocab.MESSAGE and ids[at - 2 : at + 1] == [*header])
    return heard


def _history(case: Case) -> tuple[list[int], list[bool]]:
    ids = prompt(case)
    learned = [False] * len(ids)
    if case.teach_history:
        at = len(ids) - len(_control("<|start|>assistant"))
        for message in reversed(without_answered_reasoning(case.history)[1:]):
            size = len(render_message(message))
            at -= size
            if message.channel is Channel.FINAL:
                body = ids.index(vocab.MESSAGE, at) + 1
                learned[body : at + size - 1] = [True] * (at + size - 1 - body)
    return ids, learned
