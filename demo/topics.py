"""What words are about, in a few numbers, learned by choosing functions for requests.

A token has a topic and a weight, both sums over its tags in the lexicon, with a part of its own for
frequent tokens. Attention with these weights, and with a kernel of the distance, gathers the words
before a function's name and the words of a request; the function whose words match is called. The
arithmetic is what attention heads do, so that `demo.routing` can set heads to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from demo.embedding import tagged
from demo.lexicon import lexicon
from demo.model import Shape, rope_tables
from demo.routes import Route, Routed
from harmony import vocab

SIZE = 20
"""How many numbers a topic has."""

PAIRS = slice(6, 16)
"""The rotary pairs whose turning makes the kernels; slower ones tell no distance in a request."""

NEAR, ASKED = 64, 100
"""How many tokens before a name, and at the end of a request, are gathered."""

# By how much less the words before a request count, as the logarithm of an attention weight.
_GATE = 10.0
_BATCH = 64
_OTHERS = 6
_FORGOTTEN = 0.4


def speeds(shape: Shape) -> Tensor:
    """By how much each rotary pair turns from one position to the next, in radians."""
    cos, sin = rope_tables(shape, 2)
    return torch.atan2(sin[1], cos[1])


@dataclass(frozen=True, slots=True)
class Span:
    """Token ids, the distance of the last from where they are gathered, and how many at the front
    are not meant."""

    ids: Sequence[int]
    last: int = 0
    others: int = 0


@dataclass(frozen=True, slots=True)
class Gathered:
    """Padded token ids (n, l), their distances from where they are gathered, and how much less than
    what is meant each one counts (0 to 1e9)."""

    ids: Tensor
    distances: Tensor
    gates: Tensor


def gathered(spans: Sequence[Span]) -> Gathered:
    """Spans of ids side by side."""
    longest = max(len(span.ids) for span in spans)
    ids = torch.full((len(spans), longest), vocab.ENDOFTEXT)
    distances, gates = torch.zeros_like(ids), torch.full(ids.shape, 1e9)
    for row, span in enumerate(spans):
        length = len(span.ids)
        ids[row, :length] = torch.tensor(span.ids, dtype=torch.long)
        distances[row, :length] = torch.arange(length - 1, -1, -1) + span.last
        gates[row, :length] = 0
        gates[row, : span.others] = _GATE
    return Gathered(ids, distances, gates)


def near_name(ids: Sequence[int], at: int) -> Span:
    """What is gathered for a function whose name's first token is at `at`."""
    return Span(ids[max(0, at - NEAR + 1) : at + 1])


def request(ids: Sequence[int], route: Route) -> Span:
    """What is gathered where a function is named: the request, and what stands before it."""
    start, stop = route.request
    first = max(0, stop - ASKED)
    return Span(ids[first:stop], min(route.at - stop + 1, ASKED), max(0, start - first))


class Topics(nn.Module):
    """Topics and weights of all tokens, the two kernels, and how both sides are compared.

    Each row of `tags` and `deltas` is a topic, then a weight. A kernel (pairs, 2) has the factors
    of the cosine and the sine of each rotary pair's turn.
    """

    def __init__(self, known: Tensor, shape: Shape) -> None:
        """`known` are the ids with a part of their own."""
        super().__init__()
        pairs = shape.head_dim // 2
        self.tags = nn.Parameter(torch.randn(len(lexicon()[1]) + 1, SIZE + 1) * 0.05)
        self.deltas = nn.Parameter(torch.randn(len(known) + 1, SIZE + 1) * 0.02)
        self.near = nn.Parameter(torch.zeros(pairs, 2))
        self.asked = nn.Parameter(torch.zeros(pairs, 2))
        self.of_request = nn.Parameter(torch.eye(SIZE))
        self.of_function = nn.Parameter(torch.eye(SIZE))
        self.sharpness = nn.Parameter(torch.tensor(4.0))
        place = torch.full((vocab.VOCAB_SIZE,), len(known))
        place[known] = torch.arange(len(known))
        kept = torch.zeros(pairs, 1)
        kept[PAIRS] = 1
        with torch.no_grad():
            self.near[11, 0] = 5
            self.asked[14, 0] = 4
        self.register_buffer("place", place)
        self.register_buffer("speeds", speeds(shape))
        self.register_buffer("kept", kept)

    def rows(self, ids: Tensor, forgotten: float = 0.0) -> Tensor:
        """ids (...) -> topics and weights (..., SIZE + 1); a share of the ids is `forgotten`: they
        go without their own part, if they have tags."""
        tags, place = tagged()[ids], self.get_buffer("place")[ids]
        empty = len(self.tags) - 1
        if forgotten:
            lost = (torch.rand(ids.shape) < forgotten) & (tags[..., 0] != empty)
            place = place.masked_fill(lost, len(self.deltas) - 1)
        meant = F.embedding_bag(tags.flatten(0, -2), self.tags, mode="sum", padding_idx=empty)
        return meant.view(*ids.shape, -1) + self.deltas[place]

    def pooled(self, spans: Gathered, kernel: Tensor, forgotten: float = 0.0) -> Tensor:
        """The mean topic of each span (n, SIZE), weighted as attention weights."""
        kernel = kernel * self.get_buffer("kept")
        angles = spans.distances[..., None] * self.get_buffer("speeds")
        rows = self.rows(spans.ids, forgotten)
        scores = rows[..., -1] + angles.cos() @ kernel[:, 0] + angles.sin() @ kernel[:, 1]
        shares = (scores - spans.gates).softmax(-1)
        return (shares[..., None] * rows[..., :-1]).sum(-2)

    def forward(
        self, functions: Gathered, requests: Gathered, offered: Tensor, forgotten: float = 0.0
    ) -> Tensor:
        """Scores (requests, k) of the functions whose numbers `offered` (requests, k) has; -1 is
        none."""
        theirs = self.pooled(functions, self.near, forgotten) @ self.of_function
        mine = self.pooled(requests, self.asked, forgotten) @ self.of_request
        scores = (mine[:, None] * theirs[offered.clamp(min=0)]).sum(-1) * self.sharpness
        return scores.masked_fill(offered < 0, -1e9)


def batch(members: Sequence[Routed]) -> tuple[Gathered, Gathered, Tensor, Tensor]:
    """The functions and first routes of transcripts: functions, requests, offered, right."""
    functions: list[Span] = []
    requests: list[Span] = []
    offered: list[list[int]] = []
    right: list[int] = []
    for member in members:
        mine = list(range(len(functions), len(functions) + len(member.names)))
        functions += [near_name(member.ids, at) for at, _ in member.names]
        for route in member.routes:
            if route.first and route.part == 0:
                requests.append(request(member.ids, route))
                offered.append(mine)
                right.append(route.right)
    table = torch.full((len(offered), max(map(len, offered))), -1)
    for row, mine in enumerate(offered):
        table[row, : len(mine)] = torch.tensor(mine)
    return gathered(functions), gathered(requests), table, torch.tensor(right)


def learn(cases: Sequence[Routed], known: Tensor, shape: Shape, steps: int = 5000) -> Topics:
    """Topics learned from `cases`, in some minutes; always the same for the same arguments.

    Beside the functions of its own transcript each request meets some of others.
    """
    torch.manual_seed(0)
    rng, topics = Random(0), Topics(known, shape)
    compared = [topics.of_request, topics.of_function]
    kernels = [topics.near, topics.asked, topics.sharpness]
    groups = [
        {"params": [topics.tags], "peak": 4e-3, "weight_decay": 0.02},
        {"params": [topics.deltas], "peak": 2e-3, "weight_decay": 0.3},
        {"params": kernels, "peak": 1e-2, "weight_decay": 0.0},
        {"params": compared, "peak": 2e-3, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.98))
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * min(1.0, step / 50, (steps - step) / (steps * 0.4))
        functions, requests, offered, right = batch(rng.sample(cases, min(_BATCH, len(cases))))
        others = torch.randint(0, len(functions.ids), (len(offered), _OTHERS))
        own = (others[:, :, None] == offered[:, None]).any(-1)
        offered = torch.cat((offered, others.masked_fill(own, -1)), 1)
        loss = F.cross_entropy(topics(functions, requests, offered, _FORGOTTEN), right)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return topics
