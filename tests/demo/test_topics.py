"""Topics: what words are about, learned by choosing functions."""

import torch

from demo.model import Shape
from demo.routes import Routed, routed
from demo.skills.words import Split
from demo.topics import SIZE, Span, Topics, batch, gathered, learn

KNOWN = torch.arange(1000)


def _right(topics: Topics, cases: list[Routed]) -> float:
    functions, requests, offered, right = batch(cases)
    with torch.no_grad():
        chosen = topics(functions, requests, offered).argmax(-1)
    return float((chosen == right).float().mean())


def test_functions_are_chosen_better_after_learning() -> None:
    cases = list(routed(1, 120, Split.TRAIN, "everyday"))
    before = Topics(KNOWN, Shape())
    assert _right(learn(cases, KNOWN, Shape(), steps=60), cases) > _right(before, cases) + 0.3


def test_learning_gives_the_same_each_time() -> None:
    cases = list(routed(1, 20, Split.TRAIN, "everyday"))
    one, other = (learn(cases, KNOWN, Shape(), steps=3).state_dict() for _ in range(2))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_span_is_gathered_without_its_padding() -> None:
    topics = Topics(KNOWN, Shape())
    alone = topics.pooled(gathered([Span([5, 6])]), topics.near)
    beside = topics.pooled(gathered([Span([5, 6]), Span([7, 8, 9])]), topics.near)
    assert alone.shape == (1, SIZE)
    assert torch.allclose(alone[0], beside[0], atol=1e-6)


def test_near_words_count_more_than_far_ones() -> None:
    topics = Topics(KNOWN, Shape())
    with torch.no_grad():
        topics.deltas.zero_()
        topics.deltas[5, 0], topics.deltas[6, 1] = 1, 1
        pooled = topics.pooled(gathered([Span([5, *[0] * 40, 6])]), topics.near)[0]
    assert pooled[1] > 1.5 * pooled[0] > 0


def test_words_of_others_hardly_count() -> None:
    topics = Topics(KNOWN, Shape())
    with torch.no_grad():
        topics.deltas.zero_()
        topics.deltas[5, 0], topics.deltas[6, 1] = 1, 1
        pooled = topics.pooled(gathered([Span([*[5] * 50, 6], others=50)]), topics.asked)[0]
    assert pooled[1] > 0.99


def test_functions_that_are_not_offered_are_never_chosen() -> None:
    functions, requests, offered, _ = batch(list(routed(1, 10, Split.TRAIN, "everyday")))
    scores = Topics(KNOWN, Shape())(functions, requests, offered)
    assert (offered < 0).any()
    assert (scores[offered < 0] < -1e8).all()


def test_forgotten_words_are_known_by_their_tags_alone() -> None:
    topics = Topics(KNOWN, Shape())
    ids = torch.arange(1000)
    with torch.no_grad():
        whole, lost = topics.rows(ids), topics.rows(ids, forgotten=1.0)
        topics.deltas[:-1] = topics.deltas[-1]
        shared = topics.rows(ids)
    tagged = (lost != whole).any(-1)
    assert tagged.any()
    assert torch.allclose(lost[tagged], shared[tagged])
