import pytest
import torch
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssRMSNorm

from adapters.local.model.norm import Norm


@pytest.fixture
def original() -> GptOssRMSNorm:
    torch.manual_seed(0)
    norm = GptOssRMSNorm(256, eps=1e-5).requires_grad_(False).bfloat16()
    norm.weight.normal_(1, 0.3)
    return norm


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 1e4])
def test_it_computes_what_the_original_does(original: GptOssRMSNorm, scale: float) -> None:
    """Small states are dominated by epsilon."""
    states = torch.randn(1, 5, 256) * scale
    expected = original.float()(states)
    torch.testing.assert_close(Norm(original)(states), expected, atol=0, rtol=1e-5)


def test_states_of_bfloat16_are_rounded_once(original: GptOssRMSNorm) -> None:
    states = torch.randn(1, 5, 256).bfloat16()
    found = Norm(original)(states)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found, original(states), atol=0, rtol=2**-7)


def test_states_of_zero_stay_zero(original: GptOssRMSNorm) -> None:
    assert not Norm(original)(torch.zeros(1, 2, 256)).any()


def test_states_are_left_as_they_are(original: GptOssRMSNorm) -> None:
    states = torch.randn(1, 2, 256)
    before = states.clone()
    Norm(original)(states)
    assert torch.equal(states, before)
