"""Routing heads: set by hand, they compute what the topics do."""

from dataclasses import replace
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F

from demo.growth import Weights
from demo.model import Shape
from demo.package import packaged
from demo.protect import taken
from demo.routes import Routed, routed
from demo.routing import Channel, embed, hidden_states, isolate, route
from demo.skills.words import Split
from demo.topics import SIZE, Topics, gathered, learn, near_name
from demo.train import Demo, fresh
from demo.weights import unpack


@cache
def _packaged() -> tuple[Weights, Tensor]:
    weights, known = unpack(packaged())
    taken(weights)
    return weights, known


@cache
def _cases() -> list[Routed]:
    return list(routed(1, 12, Split.TRAIN, "everyday"))


@cache
def _topics() -> Topics:
    return learn(_cases(), _packaged()[1], Shape(), steps=40)


@cache
def _routed() -> tuple[Weights, Demo, Channel]:
    weights, known = _packaged()
    made, channel = route(weights, known, _topics(), _cases())
    return made, _model(made, known), channel


def _model(weights: Weights, known: Tensor) -> Demo:
    model = fresh(0, Shape.of(weights), known).model
    model.load_state_dict(weights)
    return model


def test_words_near_a_name_are_gathered_as_topics_do() -> None:
    _, model, channel = _routed()
    case = _cases()[0]
    starts = [start for start, _ in case.names]
    states = hidden_states(model, case.ids)[3][starts] @ channel.near
    spans = [near_name(case.ids, at) for at in starts]
    with torch.no_grad():
        expected = _topics().pooled(gathered(spans), _topics().near)
    assert (F.cosine_similarity(states, expected) > 0.9).all()


def test_the_users_words_are_told_from_others() -> None:
    _, model, channel = _routed()
    flag = channel.others[3]
    for case in _cases()[:4]:
        start, stop = case.routes[0].request
        flags = hidden_states(model, case.ids)[2] @ flag
        assert flags[start:stop].min() > 5
        assert flags[: case.names[0][0]].max() < 5


def test_topics_stand_in_the_channel_after_two_layers() -> None:
    _, model, channel = _routed()
    case = _cases()[0]
    states = hidden_states(model, case.ids)[2] @ channel.topic
    with torch.no_grad():
        expected = _topics().rows(torch.tensor(case.ids))[:, :SIZE]
    counts = expected.norm(dim=1) > 0.3
    assert F.cosine_similarity(states[counts], expected[counts]).mean() > 0.8


def test_nothing_else_reads_or_writes_the_channel() -> None:
    made, _, channel = _routed()
    weights, known = {name: tensor.clone() for name, tensor in made.items()}, _packaged()[1]
    isolate(weights, channel)
    before = hidden_states(_model(weights, known), _cases()[0].ids)
    embed(weights, known, _topics(), channel)
    after = hidden_states(_model(weights, known), _cases()[0].ids)
    for number in range(4):
        assert (before[number] @ channel.basis).abs().max() < 1
        one, other = before[number] @ channel.rest, after[number] @ channel.rest
        assert F.cosine_similarity(one, other).mean() > 0.97


def test_heads_stand_beside_those_of_before() -> None:
    before, (made, _, channel) = Shape.of(_packaged()[0]), _routed()
    assert Shape.of(made) == replace(
        before,
        hidden=len(channel.basis),
        heads=before.heads + 2,
        kv_heads=before.kv_heads + 1,
    )
    assert all(tensor.isfinite().all() for tensor in made.values())


def test_the_channel_is_where_the_model_was_quiet() -> None:
    weights, known = _packaged()
    _, _, channel = _routed()
    size = channel.basis.shape[1]
    torch.testing.assert_close(channel.basis.T @ channel.basis, torch.eye(size), atol=1e-5, rtol=0)
    states = hidden_states(_model(weights, known), _cases()[0].ids)[1]
    written = (states @ channel.basis[: states.shape[1]]).pow(2).sum()
    assert written < 0.05 * states.pow(2).sum()


def test_heads_that_are_there_are_set_anew() -> None:
    made, model, channel = _routed()
    again, same = route(made, _packaged()[1], _topics(), _cases(), channel)
    assert torch.equal(same.basis, channel.basis)
    assert Shape.of(again) == model.body.shape
    name = "body.layers.2.v"
    torch.testing.assert_close(again[name][-64:], made[name][-64:], rtol=0.2, atol=0.01)
