"""The factories of the HTTP backends."""

import pytest

from adapters.base import Backend, BackendConfig
from adapters.errors import BackendFailed
from adapters.registry import create

URL = "http://127.0.0.1:1"


def opened(name: str, **options: str) -> Backend:
    config = BackendConfig(None, {"url": URL, **options}, lambda _: [], lambda _: "", lambda: None)
    return create(name, config)


def test_the_model_at_engines_of_vllm_can_be_named() -> None:
    opened("vllm-http", model="openai/gpt-oss-20b")


@pytest.mark.parametrize("name", ["sglang", "llama-cpp"])
def test_other_engines_have_one_model(name: str) -> None:
    with pytest.raises(BackendFailed, match=f"{name} has no option model"):
        opened(name, model="openai/gpt-oss-20b")
