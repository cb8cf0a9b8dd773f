"""vLLM's engine arguments; runs where vLLM is installed (`make test-vllm`)."""

import dataclasses
import os
from pathlib import Path
from typing import Any, NoReturn

import pytest

from adapters.base import BackendConfig
from adapters.errors import BackendFailed

pytest.importorskip("vllm")

from vllm.engine import arg_utils
from vllm.platforms.cpu import CpuPlatform
from vllm.usage.usage_lib import UsageContext
from vllm.v1.engine.async_llm import AsyncLLM

from adapters.vllm.arguments import engine_arguments
from adapters.vllm.backend import VLLMBackend

USAGE = UsageContext.OPENAI_API_SERVER


def test_any_argument_is_passed_through_in_vllms_own_types(checkpoint_folder: Path) -> None:
    options = {
        "tensor_parallel_size": "2",
        "enforce_eager": "true",
        "enable_prefix_caching": "false",
        "gpu-memory-utilization": "0.5",
        "compilation_config": '{"mode": 0}',
        "distributed_executor_backend": "ray",
    }
    arguments = engine_arguments(str(checkpoint_folder), options)
    assert arguments.model == str(checkpoint_folder)
    assert (arguments.tensor_parallel_size, arguments.gpu_memory_utilization) == (2, 0.5)
    assert (arguments.enforce_eager, arguments.enable_prefix_caching) == (True, False)
    assert arguments.distributed_executor_backend == "ray"


def test_grammars_are_llguidances_and_priorities_count(checkpoint_folder: Path) -> None:
    arguments = engine_arguments(str(checkpoint_folder), {})
    assert arguments.structured_outputs_config.backend == "guidance"
    assert arguments.scheduling_policy == "priority"


@pytest.mark.parametrize("value", ["true", "false"])
@pytest.mark.parametrize("name", ["disable_log_stats", "disable-log-stats"])
def test_statistics_can_be_turned_on(checkpoint_folder: Path, name: str, value: str) -> None:
    arguments = engine_arguments(str(checkpoint_folder), {name: value})
    assert arguments.disable_log_stats is (value == "true")


@pytest.mark.parametrize("name", ["model", "config", "help"])
def test_what_would_pass_by_the_checks_is_refused(checkpoint_folder: Path, name: str) -> None:
    with pytest.raises(BackendFailed, match=f"{name} cannot be an engine argument"):
        engine_arguments(str(checkpoint_folder), {name: "true"})


def test_a_field_of_an_argument_is_set_by_its_own_name(checkpoint_folder: Path) -> None:
    options = {"structured_outputs_config.backend": "xgrammar"}
    arguments = engine_arguments(str(checkpoint_folder), options)
    assert arguments.structured_outputs_config.backend == "xgrammar"


@pytest.mark.parametrize(
    "options",
    [
        {"speculative-config": '{"method": "ngram", "num_speculative_tokens": 2}'},
        {"speculative_config.method": "ngram", "speculative_config.num_speculative_tokens": "2"},
        {"spec_method": "ngram", "spec_tokens": "2"},
    ],
)
def test_on_a_cpu_speculation_is_corrected(
    checkpoint_folder: Path, options: dict[str, str]
) -> None:
    arguments = engine_arguments(str(checkpoint_folder), options)
    assert arguments.worker_extension_cls.endswith("cpu_worker.Correction")


def test_on_a_cpu_prompts_are_taken_whole(checkpoint_folder: Path) -> None:
    """Else a seed would kill the engine: its CPU generator cannot be set back."""
    assert engine_arguments(str(checkpoint_folder), {}).enable_chunked_prefill is False


def test_an_option_overrides_the_default(checkpoint_folder: Path) -> None:
    options = {"scheduling_policy": "fcfs"}
    assert engine_arguments(str(checkpoint_folder), options).scheduling_policy == "fcfs"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"no_such_argument": "1"}, "no-such-argument"),
        ({"tensor_parallel_size": "many"}, "tensor-parallel-size"),
        ({"enforce_eager": "maybe"}, "maybe"),
    ],
)
def test_a_bad_argument_is_named(
    checkpoint_folder: Path, options: dict[str, str], reason: str
) -> None:
    with pytest.raises(BackendFailed, match=reason):
        engine_arguments(str(checkpoint_folder), options)


class H100(CpuPlatform):  # type: ignore[misc]
    """What vLLM asks of a platform to choose the sizes of its batches."""

    def is_cpu(self) -> bool:
        return False

    @classmethod
    def get_device_total_memory(cls, device_id: int = 0) -> int:
        return 80 << 30

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        return "NVIDIA H100 80GB HBM3"


def test_batches_have_the_sizes_that_vllm_serve_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """On an H100, a device that is only described here."""
    monkeypatch.setattr(arg_utils, "current_platform", H100())
    batched, seqs = arg_utils.EngineArgs.get_batch_defaults(1)
    assert (batched[USAGE], seqs[USAGE]) == (8192, 1024)
    # What a library has is not listed there: it gets the smallest.
    assert UsageContext.ENGINE_CONTEXT not in batched


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The configurations of the engines that are to be started; none is."""
    configs: list[Any] = []

    def start(vllm_config: Any, **_: Any) -> NoReturn:
        configs.append(vllm_config)
        raise RuntimeError("not here")

    monkeypatch.setattr(AsyncLLM, "__init__", lambda self, **options: start(**options))
    monkeypatch.setattr(AsyncLLM, "__del__", lambda self: None)
    return configs


async def test_the_backend_starts_vllm_as_an_api_server(
    local_config: BackendConfig, started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arg_utils, "current_platform", H100())
    monkeypatch.setattr(os, "environ", os.environ.copy())
    os.environ.pop("VLLM_NO_USAGE_STATS", None)
    config = dataclasses.replace(local_config, options={"max_model_len": "4096"})
    with pytest.raises(BackendFailed, match="not here"):
        await VLLMBackend(config).start()
    (made,) = started
    scheduler = made.scheduler_config
    assert (scheduler.max_num_batched_tokens, scheduler.max_num_seqs) == (8192, 1024)
    assert os.environ["VLLM_NO_USAGE_STATS"] == "1"
