"""vLLM with a checkpoint of gpt-oss-20b's files and formats, where vLLM is installed."""

import asyncio
import dataclasses

import pytest
import torch

from adapters.base import BackendConfig, GenerationRequest, SamplingParams
from harmony.tokenizer import encode
from tests.adapters.gpt_oss_layout import Layout

pytest.importorskip("vllm")

from vllm.usage.usage_lib import UsageContext

from adapters.vllm.arguments import engine_arguments
from adapters.vllm.backend import VLLMBackend

SECONDS = 600


def test_vllm_recognises_the_packed_weights(layout: Layout) -> None:
    arguments = engine_arguments(str(layout.folder), {"enforce_eager": "true"})
    model = arguments.create_engine_config(UsageContext.OPENAI_API_SERVER).model_config
    assert "mxfp4" in model.quantization
    assert model.architecture == "GptOssForCausalLM"
    assert (model.max_model_len, model.get_vocab_size()) == (131_072, 201_088)


@pytest.mark.skipif(
    not torch.cpu._is_amx_tile_supported(),
    reason="vLLM computes with packed MXFP4 on CPUs with AMX only",
)
async def test_vllm_samples_with_packed_weights(
    layout: Layout, local_config: BackendConfig
) -> None:
    options = {"enforce_eager": "true", "max_model_len": "512"}
    config = dataclasses.replace(local_config, model=str(layout.folder), options=options)
    backend = VLLMBackend(config)
    async with asyncio.timeout(SECONDS):
        await backend.start()
        try:
            prompt = tuple(encode("The weather in Oslo is"))
            asked = GenerationRequest("r", prompt, 4, frozenset(), SamplingParams(temperature=0))
            chunks = [chunk async for chunk in backend.generate(asked)]
        finally:
            await backend.stop()
    assert sum(len(chunk.token_ids) for chunk in chunks) == 4
