"""vLLM's engine arguments from `--engine-arg NAME=VALUE`, parsed by vLLM's own parser."""

from argparse import ArgumentParser, BooleanOptionalAction
from collections.abc import Mapping
from typing import NoReturn

from vllm import AsyncEngineArgs
from vllm.platforms import current_platform
from vllm.utils.argparse_utils import FlexibleArgumentParser

from adapters.errors import BackendFailed
from adapters.vllm.flags import flags, python_names

# Grammars are for llguidance. Priorities order waiting requests, without effect if all are equal.
# Statistics take time in each step. Users may override each of these.
_DEFAULTS = {
    "structured_outputs_config": '{"backend": "guidance"}',
    "scheduling_policy": "priority",
    "disable_log_stats": "true",
}
# vLLM 0.32 on a CPU dies if a request with a seed has a prompt that takes several steps. The
# extension matters to speculative decoding only, which several arguments turn on.
_CPU_DEFAULTS = {
    "enable_chunked_prefill": "false",
    "worker_extension_cls": "adapters.vllm.cpu_worker.Correction",
}
# The model is an option of the server. A file could set anything, after the checks of the
# arguments. Help would end the process.
_REFUSED = frozenset({"model", "config", "help"})


def engine_arguments(model: str, options: Mapping[str, str]) -> AsyncEngineArgs:
    """The engine arguments to serve `model`. The value of a flag is `true` or `false`.

    Raises BackendFailed for a name that is unknown or not allowed here, or an invalid value.
    """
    defaults = dict(_DEFAULTS)
    given = python_names(options)
    if refused := sorted(_REFUSED & given.keys()):
        raise BackendFailed(f"{', '.join(refused)} cannot be an engine argument")
    if current_platform.is_cpu():
        defaults |= _CPU_DEFAULTS
    parser = AsyncEngineArgs.add_cli_args(FlexibleArgumentParser(allow_abbrev=False))
    parser.error = _refuse
    command = ["--model", model, *flags(_without_absent({**defaults, **given}, parser))]
    arguments: AsyncEngineArgs = AsyncEngineArgs.from_cli_args(parser.parse_args(command))
    return arguments


def _without_absent(arguments: Mapping[str, str], parser: ArgumentParser) -> dict[str, str]:
    """The arguments without those switches that can only be left out to be false."""
    switches = {
        each.dest
        for each in parser._actions
        if each.nargs == 0 and not isinstance(each, BooleanOptionalAction)
    }
    return {
        name: value
        for name, value in arguments.items()
        if value.lower() != "false" or name not in switches
    }


def _refuse(message: str) -> NoReturn:
    raise BackendFailed(f"vLLM's engine arguments: {message}")
