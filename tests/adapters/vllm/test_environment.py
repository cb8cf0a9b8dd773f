import pytest

from adapters.vllm.environment import prepare_environment


def test_workers_are_spawned_and_no_statistics_are_sent() -> None:
    environment: dict[str, str] = {}
    prepare_environment(environment)
    assert environment == {
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
        "VLLM_NO_USAGE_STATS": "1",
    }


@pytest.mark.parametrize("name", ["VLLM_NO_USAGE_STATS", "VLLM_DO_NOT_TRACK", "DO_NOT_TRACK"])
def test_what_a_user_decided_about_statistics_holds(name: str) -> None:
    environment = {name: "0"}
    prepare_environment(environment)
    assert environment == {name: "0", "VLLM_WORKER_MULTIPROC_METHOD": "spawn"}


def test_a_start_method_that_is_set_holds() -> None:
    environment = {"VLLM_WORKER_MULTIPROC_METHOD": "fork"}
    prepare_environment(environment)
    assert environment["VLLM_WORKER_MULTIPROC_METHOD"] == "fork"
