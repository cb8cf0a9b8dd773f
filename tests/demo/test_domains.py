"""The values that people name in requests."""

import pytest

from demo.skills.catalogue.domains import domains, values
from demo.skills.catalogue.values import copyable
from demo.skills.words import Split


def test_each_domain_has_many_values_that_can_be_copied_or_spelt() -> None:
    for name in domains():
        found = {split: [v for v in values(name, split) if copyable(v)] for split in Split}
        assert len(found[Split.TRAIN]) >= 30, name
        assert len(found[Split.HELD_OUT]) >= 2, name
        assert not set(found[Split.TRAIN]) & set(found[Split.HELD_OUT])


@pytest.mark.parametrize(
    ("domain", "type_"), [("message", "text"), ("song", "title"), ("room", "word")]
)
def test_other_words_may_stand_in_a_values_place(domain: str, type_: str) -> None:
    assert domains()[domain].stand_in == type_


@pytest.mark.parametrize(
    ("value", "can"),
    [("Paris", True), ("kitchen", True), ("2026-11-24", True), ("_lantern", False)],
)
def test_what_can_be_copied_or_spelt(value: str, can: bool) -> None:
    assert copyable(value) is can
