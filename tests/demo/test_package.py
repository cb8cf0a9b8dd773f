import pytest

from demo import package, weights


def test_the_packaged_file_is_the_published_one() -> None:
    state, known = weights.unpack(package.packaged())
    assert len(known) > 1000
    assert all(tensor.isfinite().all() for tensor in state.values())


def test_a_damaged_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "SHA256", "0" * 64)
    with pytest.raises(package.WeightsCorrupt, match="published"):
        package.packaged()


def test_a_missing_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "FILE", "nowhere.xz")
    with pytest.raises(package.WeightsCorrupt, match="not in the package"):
        package.packaged()


def test_a_lexicon_that_the_weights_do_not_know_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "LEXICON", "0" * 64)
    with pytest.raises(package.WeightsCorrupt, match="lexicon"):
        package.packaged()
