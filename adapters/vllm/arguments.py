"""vLLM's engine arguments from `--engine-arg NAME=VALUE`, read as vLLM's own command line does."""

from collections.abc import Mapping
from typing import NoReturn

from vllm import AsyncEngineArgs
from vllm.platforms import current_platform
from vllm.utils.argparse_utils import FlexibleArgumentParser

from adapters.errors import BackendFailed
from adapters.vllm.flags import flags

# Grammars are llguidance's; priorities order what waits, and without them nothing changes; nobody
# reads the engine's own statistics. Each can be set otherwise.
_DEFAULTS = {
    "structured_outputs_config": '{"backend": "guidance"}',
    "scheduling_policy": "priority",
    "disable_log_stats": "true",
}
# vLLM 0.32 on a CPU dies of a request with a seed whose prompt takes several steps.
_CPU_DEFAULTS = {"enable_chunked_prefill": "false"}


def engine_arguments(model: str, options: Mapping[str, str]) -> AsyncEngineArgs:
    """The arguments to serve `model`; a flag's value is `true` or `false`.

    Raises BackendFailed for a name that vLLM does not know, or a value that it does not take.
    """
    defaults = _DEFAULTS | (_CPU_DEFAULTS if current_platform.is_cpu() else {})
    words = ["--model", model, *flags({**defaults, **options})]
    parser = AsyncEngineArgs.add_cli_args(FlexibleArgumentParser(allow_abbrev=False))
    parser.error = _refuse
    arguments: AsyncEngineArgs = AsyncEngineArgs.from_cli_args(parser.parse_args(words))
    return arguments


def _refuse(message: str) -> NoReturn:
    raise BackendFailed(f"vLLM's engine arguments: {message}")
