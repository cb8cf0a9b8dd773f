"""A real `vllm serve` on this machine, where vLLM is installed (`make test-vllm`)."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from tests.ports import free_port

ENGINE_ARGUMENTS = {"max_model_len": "2048", "enforce_eager": "true"}
_START_SECONDS = 600
_LOG_SECONDS = 60


class Process:
    """A server process and its children; `url` is where it listens."""

    def __init__(self, command: list[str], url: str, log: Path) -> None:
        self.url = url
        self._log = log
        with log.open("w") as output:
            self.process = subprocess.Popen(
                command, stdout=output, stderr=output, start_new_session=True
            )

    def wait_until_ready(self) -> None:
        """Raises RuntimeError with the log's end when the server does not come up."""
        limit = time.monotonic() + _START_SECONDS
        while self.process.poll() is None and time.monotonic() < limit:
            with suppress(httpx.TransportError):
                if httpx.get(f"{self.url}/health").is_success:
                    return
            time.sleep(0.2)
        raise RuntimeError(f"{self.url} did not come up: {self._log.read_text()[-2000:]}")

    def wait_until_logged(self, *texts: str) -> str:
        """What it has printed, once all of the texts are in it. Raises TimeoutError."""
        limit = time.monotonic() + _LOG_SECONDS
        while time.monotonic() < limit:
            printed = self._log.read_text()
            if all(text in printed for text in texts):
                return printed
            time.sleep(0.01)
        raise TimeoutError(f"not all of {texts} in {printed[-2000:]}")

    def kill(self) -> None:
        """Kill the process, as in a crash, without a shutdown."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def vllm_serve(checkpoint: Path, log: Path, *arguments: str) -> Process:
    """Start `vllm serve`; it is not ready yet."""
    port = free_port()
    command = [
        *(sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", str(checkpoint)),
        *("--host", "127.0.0.1", "--port", str(port), "--max-model-len", "2048"),
        *("--enforce-eager", "--enable-scale-out", "--enable-prompt-tokens-details"),
        *("--structured-outputs-config", '{"backend": "guidance"}', *arguments),
    ]
    return Process(command, f"http://127.0.0.1:{port}", log)


@contextmanager
def serving(
    checkpoint: Path, folder: Path, count: int = 1, *arguments: str
) -> Iterator[list[Process]]:
    """Start `count` servers at once; all are ready when the block begins, gone after it."""
    servers = [
        vllm_serve(checkpoint, folder / f"vllm-{number}.log", *arguments) for number in range(count)
    ]
    try:
        for server in servers:
            server.wait_until_ready()
        yield servers
    finally:
        for server in servers:
            server.kill()
