"""Run one vLLM engine with two APIs in front of it: this server's and vLLM's own.

    python -m benchmarks.one_engine [arguments of `server`] -- [arguments of `vllm`]

Each API is the process of its command (`serve --backend vllm …`, `serve MODEL …`), except that it
connects to the common engine instead of starting one. The second command's arguments configure the
engine. The mechanism is vLLM's own for API servers in several processes (`--api-server-count`).
"""

import sys
from functools import partial
from typing import Any

from vllm import AsyncEngineArgs
from vllm.entrypoints.cli import main as command_line
from vllm.entrypoints.cli import serve as command
from vllm.usage.usage_lib import UsageContext
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.structured_output import StructuredOutputManager
from vllm.v1.utils import run_api_server_worker_proc

from server.commands.main import main as serve

Client = dict[str, Any]
"""vLLM's description of the engine's sockets and of the index of the API process."""


def run_api(ours: list[str], address: str, listener: Any, theirs: Any, client: Client) -> None:
    """Run one of the engine's APIs: vLLM's is the first, this server's the second."""
    # Used only if several processes accept connections.
    del client["api_server_loads"]
    if client["client_index"] == 0:
        run_api_server_worker_proc(address, listener, theirs, client)
        return
    listener.close()
    AsyncLLM.from_engine_args = partial(_connect, client)
    sys.exit(serve(ours))


def _connect(client: Client, arguments: AsyncEngineArgs, usage_context: UsageContext) -> AsyncLLM:
    sockets = dict(client)
    count, index = sockets.pop("client_count"), sockets.pop("client_index")
    arguments._api_process_count, arguments._api_process_rank = count, index
    return AsyncLLM.from_vllm_config(
        arguments.create_engine_config(usage_context),
        disable_log_stats=arguments.disable_log_stats,
        client_addresses=sockets,
        client_count=count,
        client_index=index,
    )


def _mask_each_with_its_own() -> None:
    """Let the engine use the grammar library of each request.

    vLLM uses the library of the first request for all requests.
    """
    begin = StructuredOutputManager.grammar_init
    backends: dict[str, Any] = {}

    def grammar_init(manager: Any, request: Any) -> None:
        if request.structured_output_request is not None:
            name = request.sampling_params.structured_outputs._backend
            manager.backend = backends.get(name)
            begin(manager, request)
            backends[name] = manager.backend

    StructuredOutputManager.grammar_init = grammar_init


def main() -> None:
    at = sys.argv.index("--")
    ours, theirs = sys.argv[1:at], sys.argv[at + 1 :]
    command.APIServerProcessManager = partial(
        command.APIServerProcessManager, target_server_fn=partial(run_api, ours)
    )
    sys.argv = ["vllm", *theirs, "--api-server-count", "2"]
    command_line.main()


if __name__ == "__mp_main__":  # in the processes that `main` starts, the engine's among them
    _mask_each_with_its_own()

if __name__ == "__main__":
    main()
