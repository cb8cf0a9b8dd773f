"""Sets environment variables that vLLM reads."""

from collections.abc import MutableMapping

_START_METHOD = "VLLM_WORKER_MULTIPROC_METHOD"
_NO_STATISTICS = "VLLM_NO_USAGE_STATS"
_TRACKING = (_NO_STATISTICS, "VLLM_DO_NOT_TRACK", "DO_NOT_TRACK")


def prepare_environment(environment: MutableMapping[str, str]) -> None:
    """Make vLLM spawn its workers, and send no usage statistics, unless the user has set this.

    `vllm serve` also spawns its workers. Forked workers would copy the locks of the threads of this
    process. Any of the variables about statistics counts as a decision of the user.
    """
    environment.setdefault(_START_METHOD, "spawn")
    if not any(name in environment for name in _TRACKING):
        environment[_NO_STATISTICS] = "1"
