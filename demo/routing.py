"""Heads set by hand that find the function for a request: `python -m demo.routing`.

Training alone does not find it: what words are about is nowhere in the packaged weights' hidden
states. So topics are learned apart (`demo.topics`), and written into a part of the residual stream
that is new, or that the layers used least. Heads of three layers, new too, then do what choosing a
function takes:

- Layer 1 finds who speaks: the nearest role or channel, on the user's side or not.
- Layer 2 gathers the topics of the words before each position, and those of the user's words.
- Layer 3 compares both at the names of functions, and copies the name of the one that matches.

The result is a training state, `state.pt`, from which `demo.train` goes on, and protects the heads.
The same is in `routed.pt`, for `demo.average`.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from demo import protect, train
from demo.embedding import OUTPUT_AT, structure
from demo.growth import Weights, with_heads, with_width
from demo.model import PRODUCTS, Layer, Shape, rope_tables
from demo.package import packaged
from demo.protect import COMPARED, GATHERING, MATCHING, SPEAKING, outside
from demo.routes import Routed, routed
from demo.skills.words import Split
from demo.topics import PAIRS, SIZE, Topics, learn
from demo.weights import unpack
from harmony import vocab
from harmony.tokenizer import encode

# The width of the residual stream with routing heads.
_HIDDEN = 288
_DIM = Shape().head_dim
_HALF = _DIM // 2
_GROUP = Shape().heads // Shape().kv_heads

# Sizes in the residual stream: what each layer has to find beside states of rms 1.5 to 20.
_TOPIC, _WEIGHT, _ROLE_SIZE, _FLAG_SIZE = 4.0, 1.5, 8.0, 15.0
_GATHERED = 30.0
# Natural logarithms of attention weights: what is not gathered, what is not the user's or no name.
_UNIMPORTANT = -8.0
_USER_GATE, _NAME_GATE = 14.0, 3.0
# The logit of a copied name. With more, functions are chosen better, and all else is copied worse.
_VOTE = 7.0
_COPIED = 64
_NO_SINK = -60.0

# Lanes of a head whose rotary pairs hardly turn, so that content counts at any distance.
_WEIGHT_LANE, _GATE_LANE, _SAYING_LANE, _FIRST_LANE, _LATER_LANE = 28, 29, 18, 19, 17
_RECENT = (12, 14, 15)


@dataclass(frozen=True, slots=True)
class Channel:
    """The directions (hidden, n) of the residual stream that are the routing heads' own."""

    basis: Tensor

    @property
    def topic(self) -> Tensor:
        """A token's topic."""
        return self.basis[:, :SIZE]

    @property
    def near(self) -> Tensor:
        """The topic of the words before."""
        return self.basis[:, SIZE : 2 * SIZE]

    @property
    def request(self) -> Tensor:
        """The topic of what the user asks."""
        return self.basis[:, 2 * SIZE : 3 * SIZE]

    @property
    def others(self) -> tuple[Tensor, ...]:
        """A token's weight, whether it is a role, which one, and whether the user speaks."""
        return self.basis[:, 3 * SIZE :].unbind(1)

    @property
    def rest(self) -> Tensor:
        """The projection (hidden, hidden) onto all other directions."""
        return outside(self.basis)


class Heads:
    """The two query heads of a layer's last key-value group, silent until they are set."""

    def __init__(self, layer: int) -> None:
        self.layer = layer
        self.q, self.q_bias = torch.zeros(_GROUP, _DIM, _HIDDEN), torch.zeros(_GROUP, _DIM)
        self.k, self.k_bias = torch.zeros(_DIM, _HIDDEN), torch.zeros(_DIM)
        self.v, self.o = torch.zeros(_DIM, _HIDDEN), torch.zeros(_HIDDEN, _GROUP, _DIM)
        self.sinks = torch.zeros(_GROUP)

    def write(self, weights: Weights) -> None:
        """Set the group in `weights`. The heads read what stands before the norm's gains."""
        prefix = f"body.layers.{self.layer}."
        gains = weights[prefix + "input_norm"]
        kv, heads, rows = slice(-_DIM, None), slice(-_GROUP, None), slice(-_GROUP * _DIM, None)
        weights[prefix + "q"][rows] = (self.q / gains).flatten(0, 1)
        weights[prefix + "q_bias"][rows] = self.q_bias.flatten()
        weights[prefix + "k"][kv] = self.k / gains
        weights[prefix + "k_bias"][kv] = self.k_bias
        weights[prefix + "v"][kv] = self.v / gains
        weights[prefix + "v_bias"][kv] = 0
        weights[prefix + "o"][:, rows] = self.o.flatten(1)
        weights[prefix + "sinks"][heads] = self.sinks


def _unit() -> float:
    """What a query's lane has to be for a score of 1 with a key of 1."""
    gain = rope_tables(Shape(), 1)[0][0, 0].item()
    return float(_DIM**0.5 / gain**2)


@torch.no_grad()
def hidden_states(model: train.Demo, ids: Sequence[int]) -> list[Tensor]:
    """The residual stream before each layer and after the last, each (l, hidden)."""
    cos, sin = (table.to(PRODUCTS)[:, None] for table in rope_tables(model.body.shape, len(ids)))
    states = [model.input(torch.tensor(ids)).to(PRODUCTS)]
    for layer in model.body.layers:
        assert isinstance(layer, Layer)
        states.append(layer(states[-1], cos, sin, 1))
    return [state.float() for state in states]


def quiet(model: train.Demo, cases: Sequence[Routed]) -> Channel:
    """The directions with the least variance before the layers, apart from the tokens' signs."""
    total = torch.zeros(_HIDDEN - OUTPUT_AT, _HIDDEN - OUTPUT_AT)
    for case in cases:
        for state in hidden_states(model, case.ids)[:-1]:
            normed = (state / _size(state)[:, None])[:, OUTPUT_AT:]
            total += normed.T @ normed / len(normed)
    basis = torch.zeros(_HIDDEN, 3 * SIZE + 4)
    basis[OUTPUT_AT:] = torch.linalg.eigh(total)[1][:, : basis.shape[1]]
    return Channel(basis)


def isolate(weights: Weights, channel: Channel) -> None:
    """Keep all else from reading the channel, and from writing to it before the last layer."""
    rest = channel.rest
    for name in ("tags", "deltas", "features", "spelling"):
        weights[f"input.{name}"] = weights[f"input.{name}"] @ rest
    layers = sum(name.endswith("input_norm") for name in weights)
    for number in range(layers):
        prefix = f"body.layers.{number}."
        if number < layers - 1:
            weights[prefix + "o"] = rest @ weights[prefix + "o"]
            for name in ("o_bias", "down", "down_bias"):
                weights[prefix + name] = weights[prefix + name] @ rest
        for name, norm in (("q", "input"), ("k", "input"), ("v", "input"), ("router", "post")):
            gains = weights[f"{prefix}{norm}_norm"]
            weights[prefix + name] = (weights[prefix + name] * gains) @ rest / gains
        gains = weights[prefix + "post_norm"][:, None]
        for name in ("gate", "up"):
            weights[prefix + name] = rest @ (weights[prefix + name] * gains) / gains
    gains = weights["body.norm"]
    for name in ("tags", "deltas", "features"):
        weights[f"output.{name}"] = (weights[f"output.{name}"] * gains) @ rest / gains


def _roles() -> Iterator[tuple[int, float, float]]:
    """Tokens that tell who speaks: id, how much it stands out, 1 for the user and -1 for others."""
    yield encode("user")[0], 1.2, 1.0
    for name in ("assistant", "developer", "system"):
        yield encode(name)[0], 1.0, -1.0
    for token in (vocab.END, vocab.CALL, vocab.RETURN, vocab.CHANNEL):
        yield token, 1.0, -1.0


def embed(weights: Weights, known: Tensor, topics: Topics, channel: Channel) -> None:
    """Write topics, weights and roles into the rows of the tokens."""
    weight, is_role, role, _ = channel.others
    for name in ("tags", "deltas"):
        learned = getattr(topics, name).detach()
        weights[f"input.{name}"] += _TOPIC * learned[:, :SIZE] @ channel.topic.T
        weights[f"input.{name}"] += _WEIGHT * learned[:, SIZE:] * weight
    deltas = weights["input.deltas"]
    for token, strength, side in _roles():
        deltas[torch.searchsorted(known, token)] += _ROLE_SIZE * (strength * is_role + side * role)
    for token in (*(token for token, _, _ in _roles()), vocab.MESSAGE, vocab.START):
        deltas[torch.searchsorted(known, token)] += _UNIMPORTANT * _WEIGHT * weight


def _size(states: Tensor) -> Tensor:
    return states.pow(2).mean(-1).sqrt()


@dataclass(frozen=True, slots=True)
class Measured:
    """What is measured before a layer: normed states (n, hidden), and marks for its positions."""

    states: Tensor
    sizes: Tensor
    ids: Tensor
    first: Tensor
    later: Tensor
    says_first: Tensor
    says_later: Tensor


def measure(weights: Weights, known: Tensor, cases: Sequence[Routed], layer: int) -> Measured:
    """The states of `cases` before a layer, and where names stand and are about to be said."""
    model = _model(weights, known)
    states = torch.cat([hidden_states(model, case.ids)[layer] for case in cases])
    marks = torch.cat([_marks(case) for case in cases])
    sizes = _size(states)
    ids = torch.cat([torch.tensor(case.ids) for case in cases])
    return Measured(states / sizes[:, None], sizes, ids, *marks.unbind(1))


def _model(weights: Weights, known: Tensor) -> train.Demo:
    model = train.fresh(0, Shape.of(weights), known).model
    model.load_state_dict(weights)
    return model


def _marks(case: Routed) -> Tensor:
    marks = torch.zeros(len(case.ids), 4, dtype=torch.bool)
    for start, stop in case.names:
        marks[start, 0] = True
        marks[start + 1 : stop, 1] = True
    for route in case.routes:
        marks[route.at, 2 + (route.part > 0)] = True
    return marks


def _probe(states: Tensor, marked: Tensor, rest: Tensor) -> tuple[Tensor, Tensor]:
    """A direction and an offset whose sum tells by its sign which states are `marked`.

    The offset is 2 higher than learned: a place that is missed costs more than one too many, which
    matches nothing.
    """
    direction = torch.zeros(states.shape[1], requires_grad=True)
    offset = torch.zeros((), requires_grad=True)
    optimizer = torch.optim.Adam([direction, offset], lr=0.05)
    states = states @ rest
    for _ in range(250):
        logits = states @ direction + offset
        loss = F.binary_cross_entropy_with_logits(logits, marked.float())
        optimizer.zero_grad()
        (loss + 1e-4 * direction.pow(2).sum()).backward()
        optimizer.step()
    return rest @ direction.detach(), offset.detach() + 2


def speaker(before: Measured, channel: Channel) -> Heads:
    """The head of layer 1 that looks for the nearest role and tells whether it is the user's."""
    _, is_role, role, flag = channel.others
    tokens = torch.tensor([token for token, _, _ in _roles()])
    size = before.sizes[torch.isin(before.ids, tokens)].mean()
    heads = Heads(SPEAKING)
    heads.k[_GATE_LANE] = is_role * size / _ROLE_SIZE
    heads.q_bias[0, _GATE_LANE] = 20 * _unit()
    for pair in _RECENT:
        heads.k_bias[pair] = 5
        heads.q_bias[0, pair + _HALF] = 8 * _unit()
    heads.v[0] = role * size / _ROLE_SIZE
    heads.o[:, 0, 0] = _FLAG_SIZE * flag
    return heads


def gatherers(before: Measured, topics: Topics, channel: Channel) -> Heads:
    """The heads of layer 2 that gather the topics of near words, and those of the request."""
    weight, _, _, flag = channel.others
    size = before.sizes.mean()
    heads = Heads(GATHERING)
    heads.k[_WEIGHT_LANE] = weight * size / _WEIGHT
    heads.k[_GATE_LANE] = flag * size / _FLAG_SIZE
    heads.k_bias[PAIRS] = 2
    heads.v[:SIZE] = channel.topic.T * size / _TOPIC
    for head, kernel in enumerate((topics.near.detach(), topics.asked.detach())):
        heads.q_bias[head, PAIRS] = kernel[PAIRS, 0] * _unit() / 2
        heads.q_bias[head, _HALF:][PAIRS] = -kernel[PAIRS, 1] * _unit() / 2
        heads.q_bias[head, _WEIGHT_LANE] = _unit()
    heads.q_bias[1, _GATE_LANE] = _USER_GATE * _unit()
    heads.o[:, 0, :SIZE] = _GATHERED * channel.near
    heads.o[:, 1, :SIZE] = _GATHERED * channel.request
    heads.sinks[:] = _NO_SINK
    return heads


def matchers(before: Measured, topics: Topics, channel: Channel, gain: float) -> Heads:
    """The heads of layer 3 that look for the name of the function that matches, and say it.

    One looks at first tokens of names, where one is to be said, the other at further ones. gain:
    by how much a copied sign counts.
    """
    heads = Heads(MATCHING)
    named, saying = before.first | before.later, before.says_first | before.says_later
    scale = (topics.sharpness.item() * _unit()) ** 0.5 / _GATHERED
    mine = topics.of_request.detach().T @ channel.request.T
    theirs = topics.of_function.detach().T @ channel.near.T
    heads.k[COMPARED] = scale * before.sizes[named].mean() * theirs
    heads.k_bias[_SAYING_LANE] = 3
    sides = (
        (_FIRST_LANE, before.first, before.says_first),
        (_LATER_LANE, before.later, before.says_later),
    )
    for head, (lane, names, says) in enumerate(sides):
        heads.q[head, COMPARED] = scale * before.sizes[saying].mean() * mine
        direction, offset = _probe(before.states, says, channel.rest)
        heads.q[head, _SAYING_LANE] = direction * _NAME_GATE * _unit() / 3
        heads.q_bias[head, _SAYING_LANE] = offset * _NAME_GATE * _unit() / 3
        heads.k[lane], heads.k_bias[lane] = _probe(before.states, names, channel.rest)
        heads.q_bias[head, lane] = _NAME_GATE * _unit()
        heads.o[OUTPUT_AT : OUTPUT_AT + _COPIED, head, :_COPIED] = torch.eye(_COPIED) * gain
    heads.v[:_COPIED] = _signs(before.states[named] @ channel.rest, before.ids[named])
    return heads


def _signs(states: Tensor, ids: Tensor) -> Tensor:
    """The matrix (64, hidden) that reads the first signs of tokens from their states."""
    signs = structure()[0][ids, :_COPIED].float()
    square = states.T @ states + 2 * torch.eye(states.shape[1])
    read: Tensor = torch.linalg.solve(square, states.T @ signs)
    scaled: Tensor = (read / ((states @ read) * signs).mean()).T
    return scaled


def route(
    weights: Weights,
    known: Tensor,
    topics: Topics,
    cases: Sequence[Routed],
    channel: Channel | None = None,
) -> tuple[Weights, Channel]:
    """The four-layer model `weights` with routing heads, measured on `cases`, and their channel.

    channel: of the routing heads that the model has already, and that are set anew. Otherwise the
    residual stream gets wider, if it has not the width yet, and each layer gets a further group of
    heads.
    """
    weights = {name: tensor.clone() for name, tensor in weights.items()}
    if channel is None:
        weights = _wider(weights, known)
        channel = quiet(_model(weights, known), cases)
    isolate(weights, channel)
    embed(weights, known, topics, channel)
    speaker(measure(weights, known, cases, 1), channel).write(weights)
    gatherers(measure(weights, known, cases, 2), topics, channel).write(weights)
    last = measure(weights, known, cases, 4)
    gains = weights["body.norm"][OUTPUT_AT : OUTPUT_AT + _COPIED].abs().mean()
    size = last.sizes[last.says_first | last.says_later].mean()
    gain = _VOTE * size / (_COPIED * weights["output.scale"] * gains)
    matchers(measure(weights, known, cases, 3), topics, channel, gain.item()).write(weights)
    return weights, channel


def _wider(weights: Weights, known: Tensor) -> Weights:
    shape = Shape.of(weights)
    wider = replace(shape, hidden=_HIDDEN, heads=shape.heads + _GROUP, kv_heads=shape.kv_heads + 1)
    start = train.fresh(0, wider, known).model.state_dict()
    return with_heads(with_width(weights, _HIDDEN), start)


def main() -> None:
    """The command line: see the module's first line."""
    parser = argparse.ArgumentParser(prog="python -m demo.routing", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/demo"))
    parser.add_argument("--cases", type=int, default=40_000, help="cases to learn topics from")
    parser.add_argument("--measured", type=int, default=160, help="cases to set heads by")
    parser.add_argument("--steps", type=int, default=5000, help="steps of learning topics")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    weights, known = unpack(packaged())
    before = protect.taken(weights)
    cases = list(routed(options.seed, options.cases, Split.TRAIN))
    topics = learn(cases, known, Shape(), options.steps)
    old = None if before is None else Channel(before)
    made, channel = route(weights, known, topics, cases[: options.measured], old)
    state = train.fresh(options.seed, Shape.of(made), known)
    state.model.load_state_dict(made)
    state.channel = channel.basis
    options.out.mkdir(parents=True, exist_ok=True)
    for name in ("routed.pt", "state.pt"):
        train.save(state, options.out / name)
    sys.stdout.write(f"{options.out / 'state.pt'}\n")


if __name__ == "__main__":
    main()
