"""vLLM with speculative decoding; runs where vLLM is installed (`make test-vllm`)."""

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import torch
from safetensors.torch import save_file

from adapters.base import (
    FEATURES,
    BackendConfig,
    GenerationRequest,
    SamplingParams,
)
from adapters.local.backend import LocalBackend
from demo.package import CONFIG
from harmony.tokenizer import decode, encode, encode_with_control
from harmony.vocab import RETURN, STOP_TOKENS
from server.app import create_app
from server.settings import Settings
from tests.adapters.sampling import logprobs, run, tokens

pytest.importorskip("vllm", reason="vLLM is not installed")

import httpx

from adapters.vllm.arguments import engine_arguments
from adapters.vllm.backend import VLLMBackend
from adapters.vllm.cpu_worker import expand

pytestmark = pytest.mark.asyncio(loop_scope="module")

COUNT = " one two three four"
"""Text that the checkpoint repeats at least a few times, so that drafts find the next tokens."""
_ASKED = "<|start|>user<|message|>Count.<|end|>"
PROMPT = f"{_ASKED}<|start|>assistant<|channel|>final<|message|>{COUNT * 40}"
GREEDY = SamplingParams(temperature=0)
ITEMS = ' "," '.join(["item"] * 4)
JSON = f'start: "[" {ITEMS} "]" <[{RETURN}]>' + "\n" + r'item: "{\"key\":" /[1-9][0-9]/ "}"'
DRAFTS = 4
ENGINE = {
    "max_model_len": "2048",
    "max_num_seqs": "8",
    "enforce_eager": "true",
    "enable_prefix_caching": "false",
    # In float32 the engines agree about greedy tokens.
    "dtype": "float32",
}


def write_eagle(folder: Path, words: list[int]) -> Path:
    """Write a drafting model of the EAGLE 3 kind that knows these tokens (sorted ids) only.

    Its weights are random, so that the engine accepts some of the drafts and rejects most.
    """
    hidden = CONFIG["hidden_size"]
    config = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "torch_dtype": "float32",
        "vocab_size": CONFIG["vocab_size"],
        "draft_vocab_size": len(words),
        "hidden_size": hidden,
        "intermediate_size": hidden,
        "num_hidden_layers": 1,
        "num_attention_heads": CONFIG["num_attention_heads"],
        "num_key_value_heads": CONFIG["num_key_value_heads"],
        "head_dim": CONFIG["head_dim"],
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "eagle_config": {
            "use_aux_hidden_state": True,
            "eagle_aux_hidden_state_layer_ids": [1, 2, 3],
        },
    }
    queries = CONFIG["num_attention_heads"] * CONFIG["head_dim"]
    keys = CONFIG["num_key_value_heads"] * CONFIG["head_dim"]
    shapes = {
        "fc": (hidden, 3 * hidden),
        "midlayer.self_attn.q_proj": (queries, 2 * hidden),
        "midlayer.self_attn.k_proj": (keys, 2 * hidden),
        "midlayer.self_attn.v_proj": (keys, 2 * hidden),
        "midlayer.self_attn.o_proj": (hidden, queries),
        "midlayer.mlp.gate_proj": (hidden, hidden),
        "midlayer.mlp.up_proj": (hidden, hidden),
        "midlayer.mlp.down_proj": (hidden, hidden),
        "lm_head": (len(words), hidden),
    }
    norms = ["norm", *(f"midlayer.{name}" for name in ("hidden_norm", "input_layernorm"))]
    source = torch.Generator().manual_seed(0)
    tensors = {
        f"{name}.weight": torch.randn(shape, generator=source) * 0.05
        for name, shape in shapes.items()
    }
    tensors |= {
        f"{name}.weight": torch.ones(hidden)
        for name in [*norms, "midlayer.post_attention_layernorm"]
    }
    tensors["d2t"] = torch.tensor(words) - torch.arange(len(words))
    (folder / "config.json").write_text(json.dumps(config))
    save_file(tensors, folder / "model.safetensors")
    return folder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def exact(local_config: BackendConfig) -> AsyncIterator[LocalBackend]:
    """An engine that samples each token."""
    backend = LocalBackend(local_config)
    await backend.start()
    yield backend
    await backend.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def expected(exact: LocalBackend) -> list[int]:
    """The answer to PROMPT, greedy."""
    return await sample(exact, sampling=GREEDY)


@pytest.fixture(scope="module", params=["ngram", "eagle3"])
def speculation(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    expected: list[int],
) -> dict[str, Any]:
    """A value of `speculative_config`."""
    fields: dict[str, Any] = {"method": request.param, "num_speculative_tokens": DRAFTS}
    if request.param == "ngram":
        return {**fields, "prompt_lookup_max": 4, "prompt_lookup_min": 2}
    # Few, so that drafts are right by chance.
    words = sorted(set(expected[: len(encode(COUNT))]))
    return {**fields, "model": str(write_eagle(tmp_path_factory.mktemp("eagle"), words))}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def backend(
    speculation: dict[str, Any], local_config: BackendConfig
) -> AsyncIterator[VLLMBackend]:
    options = {**ENGINE, "speculative_config": json.dumps(speculation)}
    backend = VLLMBackend(dataclasses.replace(local_config, options=options))
    await backend.start()
    yield backend
    await backend.stop()


def ask(max_tokens: int = 40, **fields: Any) -> GenerationRequest:
    ids = tuple(encode_with_control(PROMPT))
    return GenerationRequest("r", ids, max_tokens, **({"stop_token_ids": frozenset()} | fields))


async def sample(backend: VLLMBackend | LocalBackend, **fields: Any) -> list[int]:
    return tokens(await run(backend, ask(**fields)))


async def test_accepted_drafts_come_in_one_chunk(backend: VLLMBackend) -> None:
    chunks = await run(backend, ask(sampling=GREEDY))
    # A chunk may have the tokens of several steps if the reader was slow.
    assert len(chunks) < len(tokens(chunks)) == 40


async def test_greedy_tokens_are_those_of_an_engine_without_drafts(
    backend: VLLMBackend, expected: list[int]
) -> None:
    assert await sample(backend, sampling=GREEDY) == expected


@pytest.mark.parametrize("most", range(1, 8))
async def test_the_limit_holds_inside_of_accepted_drafts(backend: VLLMBackend, most: int) -> None:
    chunks = await run(backend, ask(most, sampling=GREEDY))
    assert len(tokens(chunks)) == most
    assert chunks[-1].finish_reason == "length"


@pytest.mark.parametrize("place", range(1, DRAFTS + 1))
async def test_a_stop_token_inside_of_accepted_drafts_is_the_last(
    backend: VLLMBackend, expected: list[int], place: int
) -> None:
    stop = expected[place]
    chunks = await run(backend, ask(sampling=GREEDY, stop_token_ids=frozenset({stop})))
    assert tokens(chunks) == expected[: expected.index(stop) + 1]
    assert chunks[-1].finish_reason == "stop"


@pytest.mark.parametrize("temperature", [0.0, 1.0])
async def test_a_grammar_constrains_drafts(backend: VLLMBackend, temperature: float) -> None:
    sampling = SamplingParams(temperature=temperature)
    ids = await sample(backend, sampling=sampling, grammar=JSON, stop_token_ids=STOP_TOKENS, seed=1)
    assert [list(item) for item in json.loads(decode(ids).removesuffix("<|return|>"))] == [
        ["key"]
    ] * 4


async def test_each_token_has_its_logprobs(backend: VLLMBackend, exact: LocalBackend) -> None:
    request = ask(24, sampling=GREEDY, logprobs=2)
    chunks, reference = await run(backend, request), await run(exact, request)
    entries = logprobs(chunks)
    assert [entry.token_id for entry in entries] == tokens(chunks)
    assert [entry.logprob for entry in entries] == pytest.approx(
        [entry.logprob for entry in logprobs(reference)], abs=0.01
    )


async def test_each_token_of_a_grammar_has_its_logprobs(backend: VLLMBackend) -> None:
    """Those of the tokens that the grammar permits, as without drafts."""
    request = ask(sampling=GREEDY, logprobs=2, grammar=JSON, stop_token_ids=STOP_TOKENS)
    chunks = await run(backend, request)
    entries = logprobs(chunks)
    assert [entry.token_id for entry in entries] == tokens(chunks)
    assert all(entry.top[0] == (entry.token_id, entry.logprob) for entry in entries)


@pytest.mark.parametrize("top_p", [1.0, 0.99])
async def test_a_seed_repeats_an_answer(backend: VLLMBackend, top_p: float) -> None:
    # The penalty makes the text less certain than the checkpoint's.
    sampling = SamplingParams(temperature=2.0, top_p=top_p, frequency_penalty=2.0)
    answers = [await sample(backend, sampling=sampling, seed=seed) for seed in (5, 5, 6)]
    assert answers[0] == answers[1] != answers[2]


@pytest.mark.parametrize(
    "sampling",
    [SamplingParams(temperature=0.001), SamplingParams(temperature=1.0, top_p=0.0001)],
    ids=["temperature", "top_p"],
)
async def test_the_parameters_of_sampling_apply_to_drafts(
    backend: VLLMBackend, sampling: SamplingParams
) -> None:
    """Each leaves the likeliest token alone."""
    assert await sample(backend, sampling=sampling) == await sample(backend, sampling=GREEDY)


async def test_penalties_count_drafts(backend: VLLMBackend, exact: LocalBackend) -> None:
    sampling = SamplingParams(temperature=0, frequency_penalty=1.0, presence_penalty=1.0)
    penalised = await sample(backend, sampling=sampling)
    assert penalised == await sample(exact, sampling=sampling)
    assert penalised != await sample(backend, sampling=GREEDY)


async def test_requests_of_one_batch_keep_their_parameters(backend: VLLMBackend) -> None:
    """Rows with and without grammars, greedy and sampled, with and without drafts."""
    alone = await sample(backend, sampling=GREEDY)
    requests = [
        dataclasses.replace(
            ask(
                sampling=GREEDY if number % 2 else SamplingParams(temperature=1.0),
                grammar=JSON if number % 4 < 2 else None,
                logprobs=2 if number % 3 == 0 else None,
                stop_token_ids=STOP_TOKENS,
                seed=number,
            ),
            request_id=f"r{number}",
        )
        for number in range(8)
    ]
    answers = await asyncio.gather(*(run(backend, request) for request in requests))
    for number, chunks in enumerate(answers):
        if number % 4 < 2:
            assert decode(tokens(chunks)).startswith('[{"key":')
        elif number % 2:
            assert tokens(chunks) == alone
        if number % 3 == 0:
            assert [entry.token_id for entry in logprobs(chunks)] == tokens(chunks)


def test_what_vllm_refuses_with_drafts_is_no_feature(backend: VLLMBackend) -> None:
    """On a CPU `top_k` ends vLLM's engine in a step without drafts."""
    assert FEATURES - backend.info.features == {"logit_bias", "min_p", "top_k"}


async def post(backend: VLLMBackend, **fields: Any) -> httpx.Response:
    app = create_app(Settings(served_model_name=("demo",), store="memory"), backend)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://localhost", timeout=120
    ) as client:
        body = {"messages": [{"role": "user", "content": "Count."}], **fields}
        return await client.post("/v1/chat/completions", json=body)


@pytest.mark.parametrize(
    ("option", "value"), [("logit_bias", {"1001": 5}), ("min_p", 0.1), ("top_k", 5)]
)
async def test_what_vllm_cannot_do_with_drafts_is_refused_by_name(
    backend: VLLMBackend, option: str, value: object
) -> None:
    answer = await post(backend, model="demo", **{option: value})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == option


async def test_a_budget_of_reasoning_is_refused(backend: VLLMBackend) -> None:
    """llguidance cannot go back in a grammar with a maximum of tokens."""
    answer = await post(backend, model="demo", reasoning={"max_tokens": 5})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["param"] == "reasoning.max_tokens"
    assert "with speculative decoding" in error["message"]


@pytest.mark.parametrize(
    "rule",
    [
        "a[max_tokens=5]",
        "  a[max_tokens=5]",
        "?a[max_tokens=5]",
        "a [max_tokens = 5]",
    ],
)
async def test_a_limit_in_a_grammar_of_the_client_is_refused(
    backend: VLLMBackend, rule: str
) -> None:
    grammar = {"syntax": "lark", "definition": f'start: "x" a\n{rule}: /[a-z]+/'}
    tool = {"name": "f", "format": {"type": "grammar", "grammar": grammar}}
    answer = await post(
        backend, model="demo", tools=[{"type": "custom", "custom": tool}], tool_choice="required"
    )
    assert answer.status_code == 400
    assert "with speculative decoding" in answer.json()["error"]["message"]


async def test_the_text_of_a_schema_is_no_limit(backend: VLLMBackend) -> None:
    schema = {"type": "object", "properties": {"a": {"enum": ["\nthought[max_tokens=5]: x"]}}}
    form = {"type": "json_schema", "json_schema": {"name": "f", "schema": schema}}
    answer = await post(backend, model="demo", response_format=form, max_tokens=100)
    assert answer.status_code == 200, answer.text


async def test_an_answer_keeps_to_its_schema(backend: VLLMBackend) -> None:
    schema = {
        "type": "object",
        "properties": {"fine": {"type": "boolean"}},
        "required": ["fine"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "f", "strict": True, "schema": schema}}
    fields = {"response_format": form, "logprobs": True, "max_tokens": 200, "seed": 3}
    answer = await post(backend, model="demo", **fields)
    assert answer.status_code == 200, answer.text
    (choice,) = answer.json()["choices"]
    assert choice["finish_reason"] == "stop"
    assert type(json.loads(choice["message"]["content"])["fine"]) is bool
    text = "".join(entry["token"] for entry in choice["logprobs"]["content"])
    assert text == choice["message"]["content"]


# The correction for a CPU


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.int64])
def test_each_value_is_repeated_for_each_draft(dtype: torch.dtype) -> None:
    output = torch.full((6,), -1, dtype=dtype)
    expand(output, torch.tensor([3, 0, 2], dtype=dtype), torch.tensor([2, 5, 6]), 0, 1)
    assert output.tolist() == [3, 3, 1, 1, 1, 2]


def test_fractions_stay_fractions() -> None:
    output = torch.empty(3)
    expand(output, torch.tensor([0.5, 0.25]), torch.tensor([0, 3], dtype=torch.int32), 0, 1)
    assert output.tolist() == [0.25, 0.25, 0.25]


@pytest.mark.parametrize("name", ["speculative_config", "speculative-config"])
def test_workers_that_speculate_on_a_cpu_are_corrected(checkpoint_folder: Path, name: str) -> None:
    options = {name: '{"method": "ngram", "num_speculative_tokens": 2}'}
    arguments = engine_arguments(str(checkpoint_folder), options)
    assert arguments.worker_extension_cls == "adapters.vllm.cpu_worker.Correction"
