"""Plays cases turn by turn with a model, many at once."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from demo import transcript
from demo.decode import Decoder
from demo.scoring import SampledTurn, agrees, expected, parse
from demo.skills import draw_case
from demo.skills.case import Case
from demo.skills.words import Split
from demo.strange import LONGEST_PROMPT
from harmony.messages import Message, Role

SEED = 1_000_003
LONGEST_TURN = 400
_ROWS = 64
_TOKENS = 48_000
_ALIKE = 64

Continue = Callable[[list[list[int]]], list[list[int]]]


@dataclass(slots=True)
class Play:
    """A case in progress: the ids so far; of each turn so far its ids, what they parse to, and
    whether that is right."""

    case: Case
    ids: list[int]
    raw: list[list[int]] = field(default_factory=list)
    outputs: list[SampledTurn | None] = field(default_factory=list)
    agreed: list[bool] = field(default_factory=list)

    @property
    def right(self) -> bool:
        """Whether the output of every turn is the expected one."""
        return len(self.agreed) == len(self.case.turns) and all(self.agreed)

    @property
    def going(self) -> bool:
        """Whether a turn is left, and the one before it was right."""
        return len(self.agreed) < len(self.case.turns) and all(self.agreed)

    def add(self, raw: list[int]) -> None:
        """Judge the next turn, and go on behind it."""
        turn = self.case.turns[len(self.raw)]
        self.raw.append(raw)
        self.outputs.append(parse(raw))
        self.agreed.append(agrees(self.outputs[-1], expected(turn), self._displays()))
        self.ids = [*self.ids, *raw, *transcript.between(turn)]

    def _displays(self) -> list[str]:
        shown: list[Message] = list(self.case.history)
        for turn in self.case.turns[: len(self.raw) - 1]:
            shown += turn.results
        return [str(m.content) for m in shown if m.author.role is Role.TOOL]


def cases(skill: str, count: int) -> list[Case]:
    """Unseen cases of a skill, without those whose prompts are very long."""
    drawn = (draw_case(SEED, index, Split.HELD_OUT, skill) for index in range(count))
    return [case for case in drawn if len(transcript.prompt(case)) <= LONGEST_PROMPT]


def play(decoder: Decoder, chosen: Iterable[Case]) -> list[Play]:
    """Play all turns of all cases; a case ends at the first wrong turn."""
    plays = [Play(case, transcript.prompt(case)) for case in chosen]
    while going := [p for p in plays if p.going]:
        lengths = [len(transcript.sampled(p.case.turns[len(p.raw)])) for p in going]
        outputs = greedy(decoder, [p.ids for p in going], lengths)
        for one, raw in zip(going, outputs, strict=True):
            one.add(raw)
    return plays


def greedy(
    decoder: Decoder, prompts: Sequence[list[int]], lengths: Sequence[int] = ()
) -> list[list[int]]:
    """The most likely turn for each prompt; `lengths` of the turns, as far as they are known."""
    return in_batches(lambda chosen: decoder.greedy(chosen, LONGEST_TURN), prompts, lengths)


def in_batches(
    proceed: Continue, prompts: Sequence[list[int]], lengths: Sequence[int] = ()
) -> list[list[int]]:
    """What `proceed` makes of each prompt, in batches of like lengths that fit into memory."""
    known = lengths or [0] * len(prompts)
    order = sorted(range(len(prompts)), key=lambda i: (known[i] // _ALIKE, len(prompts[i])))
    outputs: list[list[int]] = [[] for _ in prompts]
    while order:
        size = 0
        longest = 0
        while size < min(_ROWS, len(order)):
            longest = max(longest, len(prompts[order[size]]))
            if size and (size + 1) * (longest + LONGEST_TURN) > _TOKENS:
                break
            size += 1
        chosen, order = order[:size], order[size:]
        for index, ids in zip(chosen, proceed([prompts[i] for i in chosen]), strict=True):
            outputs[index] = ids
    return outputs
