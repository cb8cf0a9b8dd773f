"""Which function a request is for, read from transcripts: what the choice is measured on."""

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

Span = tuple[int, int]
"""Positions in a transcript: from the first one up to, without, the second one."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The place in a transcript where the model first names the function that it calls.

    ids: the transcript. names: where it declares the names of its functions. at: the position whose
    logits predict the first token of the name. right: the index in `names` of the called function.
    """

    ids: list[int]
    names: list[Span]
    at: int
    right: int


def choices(seed: int, count: int, split: Split, skill: str) -> Iterator[Choice]:
    """The choices in the first `count` cases of a skill under `seed`, one in each case.

    Cases that call no declared function, or that are too long for training, have none.
    """
    for index in range(count):
        ids = transcript(draw_case(seed, index, split, skill)).ids
        found = read(ids) if len(ids) <= LENGTHS[-1] else None
        if found is not None:
            yield found


def read(ids: list[int]) -> Choice | None:
    """The first choice in a transcript, None if it calls no function that it declares."""
    names = list(_declared(ids))
    texts = [_text(ids[start:stop]).strip() for start, stop in names]
    for start, stop in _answers(ids):
        called = _called(_text(ids[start:stop]))
        if called not in texts:
            continue
        right = texts.index(called)
        first = _first_naming(ids, (start, stop), names[right])
        if first is not None:
            return Choice(ids, names, first - 1, right)
    return None


def _declared(ids: list[int]) -> Iterator[Span]:
    tokens = vocab.token_bytes()
    (word,), (equals,) = encode("type"), encode(" =")
    for at in range(1, len(ids) - 2):
        if ids[at] == word and tokens[ids[at - 1]].endswith(b"\n"):
            near = ids[at + 2 : at + 2 + _LONGEST_NAME]
            if equals in near:
                yield at + 1, at + 2 + near.index(equals)


def _answers(ids: list[int]) -> Iterator[Span]:
    """The turns that follow the user's messages."""
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
            yield start, ends[0]


def _called(turn: bytes) -> bytes:
    _, _, after = turn.rpartition(b" to=functions.")
    return after.split(b" ")[0].split(b"<")[0]


def _first_naming(ids: list[int], turn: Span, name: Span) -> int | None:
    """Where the turn first has the tokens of the name, whatever stands before each of them."""
    tokens = vocab.token_bytes()
    cores = [core(tokens[token]) for token in ids[name[0] : name[1]]]
    for at in range(turn[0], turn[1] - len(cores) + 1):
        if [core(tokens[token]) for token in ids[at : at + len(cores)]] == cores:
            return at
    return None


def _text(ids: list[int]) -> bytes:
    tokens = vocab.token_bytes()
    return b"".join(tokens[token] for token in ids)
