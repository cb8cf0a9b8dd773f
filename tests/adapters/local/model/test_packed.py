import pytest
import torch
from torch.nn.functional import linear

from adapters.local.model.packed import (
    Float16Linear,
    PackedLayer,
    ReorderedLinear,
    float16_serves,
    works,
)


@pytest.mark.parametrize("rows", [1, 2, 7, 16, 64])
def test_float16_weights_are_as_exact_as_those_of_float32(rows: int) -> None:
    weight, bias = torch.randn(3000, 64).bfloat16().float(), torch.randn(3000)
    states = torch.randn(1, rows, 64)
    exact = states.double() @ weight.double().t() + bias.double()
    error = (Float16Linear(weight, bias)(states) - exact).abs().max()
    # CPUs differ in the order in which they add. Rounded products would have 1,000 times the error.
    assert error <= 4 * (linear(states, weight, bias) - exact).abs().max()


@pytest.mark.parametrize("rows", [1, 16, 64])
def test_a_bias_is_added(rows: int) -> None:
    weight, bias, states = torch.randn(300, 64), torch.randn(300), torch.randn(1, rows, 64)
    found = ReorderedLinear(weight.clone(), bias)(states)
    torch.testing.assert_close(found, linear(states, weight, bias), atol=1e-4, rtol=1e-4)


def test_weights_on_huge_pages_are_the_same() -> None:
    packed, states = ReorderedLinear(torch.randn(20_000, 64)), torch.randn(1, 3, 64)
    before = packed(states)
    packed.use_huge_pages()
    assert torch.equal(packed(states), before)


@pytest.mark.parametrize("kind", [ReorderedLinear, Float16Linear])
def test_no_rows_give_no_rows(kind: type[PackedLayer]) -> None:
    packed = kind(torch.randn(100, 64))
    assert packed(torch.empty(1, 0, 64)).shape == (1, 0, 100)


@pytest.mark.parametrize(
    ("factor", "serves"), [(1, True), (0, True), (1e-3, True), (1e-6, False), (1e6, False)]
)
def test_float16_serves_if_it_has_all_weights(factor: float, serves: bool) -> None:
    weights = [torch.randn(4, 30, 64).bfloat16(), (torch.randn(30, 64) * factor).bfloat16()]
    assert float16_serves(weights) is serves


def test_float16_serves_not_for_float32() -> None:
    assert not float16_serves([torch.randn(30, 64)])


@pytest.mark.parametrize("kind", [Float16Linear, ReorderedLinear])
def test_what_an_operator_raises_is_logged(
    kind: type[PackedLayer], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def missing(*_: object) -> None:
        raise RuntimeError("not on this CPU")

    monkeypatch.setattr(kind, "_pack", missing)
    with caplog.at_level("INFO"):
        assert not works(kind, torch.randn(30, 64), torch.float32)
    assert "not on this CPU" in caplog.text
