"""Variables that vLLM reads from the environment of the process that starts it."""

from collections.abc import MutableMapping

_START_METHOD = "VLLM_WORKER_MULTIPROC_METHOD"
_NO_STATISTICS = "VLLM_NO_USAGE_STATS"
_TRACKING = (_NO_STATISTICS, "VLLM_DO_NOT_TRACK", "DO_NOT_TRACK")


def prepare_environment(environment: MutableMapping[str, str]) -> None:
    """Set what is not set yet: worker processes are spawned, and no usage statistics are sent.

    `vllm serve` spawns its workers, too. Forked ones would copy the locks of this process's
    threads. A user who has set one of the variables on statistics has decided about them.
    """
    environment.setdefault(_START_METHOD, "spawn")
    if not any(name in environment for name in _TRACKING):
        environment[_NO_STATISTICS] = "1"
