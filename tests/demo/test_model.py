"""The training model computes what transformers' gpt-oss computes, and the decoder what it does."""

from typing import Any

import pytest
import torch
from transformers import GptOssConfig, GptOssForCausalLM

from demo.attention import Packed, _FlashAttention, attention, packed_attention
from demo.decode import Decoder
from demo.model import Body, Shape, compile_kernels
from demo.weights import SHARPNESS, checkpoint, config
from harmony import vocab

VOCAB = 300
SHAPE = Shape(hidden=64, layers=2, heads=4, kv_heads=2, head_dim=32, intermediate=48, window=128)


@pytest.fixture
def body() -> Body:
    torch.manual_seed(0)
    body = Body(SHAPE)
    with torch.no_grad():
        for parameter in body.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return body


@pytest.fixture
def matrices() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return (
        torch.randn(VOCAB, SHAPE.hidden, generator=generator),
        torch.randn(VOCAB, SHAPE.hidden, generator=generator),
    )


def test_logits_equal_transformers(body: Body, matrices: Any) -> None:
    embeddings, outputs = matrices
    small = config(SHAPE) | {"vocab_size": VOCAB, "bos_token_id": 0, "eos_token_id": 1}
    reference = GptOssForCausalLM(
        GptOssConfig(**(small | {"pad_token_id": 2, "attn_implementation": "eager"}))
    ).eval()
    reference.load_state_dict(checkpoint(body, embeddings, outputs))
    ids = torch.randint(0, VOCAB, (2, 300))
    with torch.no_grad():
        expected = reference(ids).logits
        got = body(embeddings[ids]) @ outputs.T * SHARPNESS
    torch.testing.assert_close(got, expected, atol=2e-3, rtol=1e-3)


def test_attention_gradient_equals_autograd() -> None:
    torch.manual_seed(0)
    length, window = 150, 40
    q = torch.randn(2, length, 4, 8, dtype=torch.float64, requires_grad=True)
    k = torch.randn(2, length, 2, 8, dtype=torch.float64, requires_grad=True)
    v = torch.randn(2, length, 2, 8, dtype=torch.float64, requires_grad=True)
    sinks = torch.randn(4, requires_grad=True)
    weight = torch.randn(2, length, 4, 8, dtype=torch.float64)

    def plain() -> torch.Tensor:
        keys, values = (x.repeat_interleave(2, dim=2) for x in (k, v))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, keys) * 0.3
        distance = torch.arange(length)[:, None] - torch.arange(length)
        scores = scores.masked_fill((distance < 0) | (distance >= window), -torch.inf)
        sink = sinks.double().view(1, 4, 1, 1).expand(2, 4, length, 1)
        share = torch.cat((scores, sink), -1).softmax(-1)[..., :-1]
        return torch.einsum("bhqk,bkhd->bqhd", share, values)

    inputs = (q, k, v, sinks)
    expected = torch.autograd.grad((plain() * weight).sum(), inputs)
    got = torch.autograd.grad((attention(q, k, v, sinks, window, 0.3) * weight).sum(), inputs)
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


def test_packed_attention_equals_attention_to_each_sequence() -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(90, heads, 8) for heads in (4, 2, 2))
    sinks = torch.randn(4)
    packed = Packed(torch.tensor([0, 20, 20, 85, 90], dtype=torch.int32), 70)
    out = packed_attention(q, k, v, sinks, packed, 16, 0.3)
    for first, last in ((0, 20), (20, 85), (85, 90)):
        one, keys, values = (part[None, first:last] for part in (q, k, v))
        alone = attention(one, keys, values, sinks, 16, 0.3)[0]
        torch.testing.assert_close(out[first:last], alone)
    assert packed.places(90)[[0, 19, 20, 84, 85]].tolist() == [0, 19, 0, 64, 0]


def _visible(starts: list[int], window: int) -> torch.Tensor:
    at = torch.arange(starts[-1])
    sequence = torch.searchsorted(torch.tensor(starts), at, right=True)
    distance = at[:, None] - at
    same = sequence[:, None] == sequence
    return same & (distance >= 0) & (distance < window)


def test_gradient_by_flash_kernels_equals_autograd(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels are those of CUDA, computed here by their definition."""
    starts, window = [0, 12, 30], 9
    mask = _visible(starts, window)

    def forward(q: Any, k: Any, v: Any, *_: Any, scale: float, **options: Any) -> Any:
        assert options == {"window_size_left": window - 1, "window_size_right": 0}
        keys, values = (x.repeat_interleave(2, 1) for x in (k, v))
        scores = torch.einsum("qhd,khd->hqk", q, keys) * scale
        scores = scores.masked_fill(~mask, -torch.inf)
        out = torch.einsum("hqk,khd->qhd", scores.softmax(-1), values)
        return out, scores.logsumexp(-1), torch.zeros(2), torch.zeros(0), torch.zeros(0)

    def backward(
        d_out: Any, q: Any, k: Any, v: Any, out: Any, lse: Any, *_: Any, scale: float, **__: Any
    ) -> Any:
        keys, values = (x.repeat_interleave(2, 1) for x in (k, v))
        scores = (torch.einsum("qhd,khd->hqk", q, keys) * scale).masked_fill(~mask, -torch.inf)
        share = torch.exp(scores - lse[..., None])
        d_share = torch.einsum("qhd,khd->hqk", d_out, values)
        dot = (d_out * out).sum(-1).T
        d_scores = share * (d_share - dot[..., None]) * scale
        d_k = torch.einsum("hqk,qhd->khd", d_scores, q)
        d_v = torch.einsum("hqk,qhd->khd", share, d_out)
        d_k, d_v = (x.unflatten(1, (-1, 2)).sum(2) for x in (d_k, d_v))
        return torch.einsum("hqk,khd->qhd", d_scores, keys), d_k, d_v

    monkeypatch.setattr(torch.ops.aten, "_flash_attention_forward", forward)
    monkeypatch.setattr(torch.ops.aten, "_flash_attention_backward", backward)
    torch.manual_seed(0)
    q, k, v = (torch.randn(30, heads, 8, requires_grad=True) for heads in (4, 2, 2))
    sinks = torch.randn(4, requires_grad=True)
    inputs = (q, k, v, sinks)
    packed = Packed(torch.tensor(starts, dtype=torch.int32), 20)
    expected = packed_attention(q, k, v, sinks, packed, window, 0.3)
    flash: Any = _FlashAttention
    got: torch.Tensor = flash.apply(q, k, v, sinks, packed, window, 0.3)
    torch.testing.assert_close(got, expected)
    weight = torch.randn(30, 4, 8)
    pairs = zip(
        torch.autograd.grad((got * weight).sum(), inputs),
        torch.autograd.grad((expected * weight).sum(), inputs),
        strict=True,
    )
    for one, other in pairs:
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_decoding_with_caches_equals_reading_again(body: Body, matrices: Any) -> None:
    embeddings, outputs = matrices
    prompts = [[5, 9, 31], list(range(10, 200)), [7]]
    continuations = Decoder(body, embeddings, outputs).greedy(prompts, 12)
    for prompt, continuation in zip(prompts, continuations, strict=True):
        ids = list(prompt)
        for token in continuation:
            with torch.no_grad():
                logits = body(embeddings[torch.tensor([ids])])[0, -1] @ outputs.T
            assert token == int(logits.argmax())
            ids.append(token)


def test_the_likeliest_of_some_candidates_is_chosen(body: Body, matrices: Any) -> None:
    decoder = Decoder(body, *matrices)
    prompts = [[5, 9, 31], [7]]
    best = [ids[0] for ids in decoder.greedy(prompts, 1)]
    others = [[token for token in range(8) if token != first] for first in best]
    candidates = [[*some, first] for some, first in zip(others, best, strict=True)]
    assert decoder.among(prompts, candidates) == best
    assert all(t in some for t, some in zip(decoder.among(prompts, others), others, strict=True))


def test_decoding_stops_at_stop_tokens(body: Body, monkeypatch: pytest.MonkeyPatch) -> None:
    embeddings = torch.randn(VOCAB, SHAPE.hidden)
    decoder = Decoder(body, embeddings, embeddings)
    first = decoder.greedy([[1, 2, 3], [4, 5, 6]], 8)
    stop = torch.tensor(first[0][2:3])
    monkeypatch.setattr("demo.decode._STOPS", stop)
    again = decoder.greedy([[1, 2, 3], [4, 5, 6]], 8)
    at = first[0].index(int(stop))
    assert again[0] == first[0][: at + 1]
    assert again[1][: len(again[1])] == first[1][: len(again[1])]


def test_compiling_replaces_the_elementwise_parts(
    body: Body, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[Any] = []

    def fake(function: Any, **options: Any) -> Any:
        compiled.append(function)
        return function

    monkeypatch.setattr("torch.compile", fake)
    compile_kernels(body)
    assert len(compiled) == 4 + 2 * SHAPE.layers


def test_config_is_gpt_oss_with_its_own_vocabulary() -> None:
    made: Any = GptOssConfig(**config(Shape()))
    assert made.vocab_size == vocab.VOCAB_SIZE
    assert set(made.eos_token_id) == vocab.STOP_TOKENS
    assert made.layer_types[:2] == ["sliding_attention", "full_attention"]
