"""vLLM's engine arguments; runs where vLLM is installed (`make test-vllm`)."""

from pathlib import Path

import pytest

from adapters.errors import BackendFailed

pytest.importorskip("vllm")

from adapters.vllm.arguments import engine_arguments


def test_any_argument_is_passed_through_in_vllms_own_types(checkpoint_folder: Path) -> None:
    given = {
        "tensor_parallel_size": "2",
        "enforce_eager": "true",
        "enable_prefix_caching": "false",
        "gpu-memory-utilization": "0.5",
        "compilation_config": '{"mode": 0}',
        "distributed_executor_backend": "ray",
    }
    arguments = engine_arguments(str(checkpoint_folder), given)
    assert arguments.model == str(checkpoint_folder)
    assert (arguments.tensor_parallel_size, arguments.gpu_memory_utilization) == (2, 0.5)
    assert (arguments.enforce_eager, arguments.enable_prefix_caching) == (True, False)
    assert arguments.distributed_executor_backend == "ray"


def test_grammars_are_llguidances_and_priorities_count(checkpoint_folder: Path) -> None:
    arguments = engine_arguments(str(checkpoint_folder), {})
    assert arguments.structured_outputs_config.backend == "guidance"
    assert arguments.scheduling_policy == "priority"


def test_on_a_cpu_prompts_are_taken_whole(checkpoint_folder: Path) -> None:
    """Else a seed would kill the engine: its CPU generator cannot be set back."""
    assert engine_arguments(str(checkpoint_folder), {}).enable_chunked_prefill is False


def test_what_is_given_wins(checkpoint_folder: Path) -> None:
    given = {"scheduling_policy": "fcfs"}
    assert engine_arguments(str(checkpoint_folder), given).scheduling_policy == "fcfs"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"no_such_argument": "1"}, "no-such-argument"),
        ({"tensor_parallel_size": "many"}, "tensor-parallel-size"),
        ({"enforce_eager": "maybe"}, "maybe"),
    ],
)
def test_a_bad_argument_is_named(checkpoint_folder: Path, given: dict[str, str], told: str) -> None:
    with pytest.raises(BackendFailed, match=told):
        engine_arguments(str(checkpoint_folder), given)
