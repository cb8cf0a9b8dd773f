"""Which function a request is for, read from transcripts: what the choice is measured on.

A route is a place where the model names the function that it calls, for the first time in the turn
or again, together with the request and the names of all declared functions.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from demo.batches import LENGTHS
from demo.embedding import core
from demo.skills import draw_case
from demo.skills.words import Split
from demo.transcript import transcript
from harmony import vocab
from harmony.tokenizer import encode, encode_with_control

_LONGEST_NAME = 12


@dataclass(frozen=True, slots=True)
class Route:
    """One token of a function's name as the model says it.

    `at` is the position that predicts the token, `request` the positions [start, stop) of what the
    user wrote, `right` the number of the function, `part` the number of the token within its name,
    `first` whether the turn has not named the function before.
    """

    at: int
    request: tuple[int, int]
    right: int
    part: int
    first: bool


@dataclass(frozen=True, slots=True)
class Routed:
    """A transcript, the positions [start, stop) of the names that it declares, its routes."""

    ids: list[int]
    names: list[tuple[int, int]]
    routes: list[Route]


def routed(seed: int, count: int, split: Split, skill: str | None = None) -> Iterator[Routed]:
    """The first `count` cases under `seed`, without those that call no declared function, or that
    are too long for training."""
    for index in range(count):
        ids = transcript(draw_case(seed, index, split, skill)).ids
        found = read(ids) if len(ids) <= LENGTHS[-1] else None
        if found is not None:
            yield found


def read(ids: list[int]) -> Routed | None:
    """What a transcript declares and calls first after each of its requests; None for nothing."""
    names = list(_declared(ids))
    texts = [_text(ids[start:stop]).strip() for start, stop in names]
    routes = [
        route
        for request, turn in _answered(ids)
        if (called := _called(_text(ids[turn[0] : turn[1]]))) in texts
        for route in _named(ids, request, turn, names[texts.index(called)], texts.index(called))
    ]
    return Routed(ids, names, routes) if routes else None


def _declared(ids: list[int]) -> Iterator[tuple[int, int]]:
    tokens = vocab.token_bytes()
    (word,), (equals,) = encode("type"), encode(" =")
    for at in range(1, len(ids) - 2):
        if ids[at] == word and tokens[ids[at - 1]].endswith(b"\n"):
            near = ids[at + 2 : at + 2 + _LONGEST_NAME]
            if equals in near:
                yield at + 1, at + 2 + near.index(equals)


def _answered(ids: list[int]) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Each request with the turn that follows it, as positions [start, stop)."""
    header = encode_with_control("<|start|>user<|message|>")
    turn = encode_with_control("<|start|>assistant")
    for at in range(len(ids)):
        if ids[at : at + len(header)] != header or vocab.END not in ids[at:]:
            continue
        end = ids.index(vocab.END, at)
        start = end + 1 + len(turn)
        if ids[end + 1 : start] != turn:
            continue
        ends = [place for place in range(start, len(ids)) if ids[place] in vocab.STOP_TOKENS]
        if ends:
            yield (at + len(header), end), (start, ends[0])


def _called(turn: bytes) -> bytes:
    _, _, after = turn.rpartition(b" to=functions.")
    return after.split(b" ")[0].split(b"<")[0]


def _named(
    ids: list[int],
    request: tuple[int, int],
    turn: tuple[int, int],
    name: tuple[int, int],
    right: int,
) -> Iterator[Route]:
    tokens = vocab.token_bytes()
    cores = [core(tokens[token]) for token in ids[name[0] : name[1]]]
    first = True
    for at in range(turn[0], turn[1] - len(cores) + 1):
        if [core(tokens[token]) for token in ids[at : at + len(cores)]] == cores:
            for part in range(len(cores)):
                yield Route(at + part - 1, request, right, part, first)
            first = False


def _text(ids: list[int]) -> bytes:
    tokens = vocab.token_bytes()
    return b"".join(tokens[token] for token in ids)
