"""A real llama.cpp server on this machine, where one is built (`make test-llama-cpp`)."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.adapters.vllm_process import Process
from tests.ports import free_port

BUILT = Path(os.environ["LLAMA_CPP"]) if "LLAMA_CPP" in os.environ else None
"""Where its program and the demo checkpoint as GGUF lie."""
needed = pytest.mark.skipif(BUILT is None, reason="`make test-llama-cpp` builds llama.cpp")


@contextmanager
def serving(folder: Path) -> Iterator[Process]:
    """Four slots of 2,048 tokens, ready when the block begins; its log is written to `folder`."""
    assert BUILT is not None
    port = free_port()
    command = [
        *(str(BUILT / "bin" / "llama-server"), "--model", str(BUILT / "demo.gguf")),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--parallel", "4", "--ctx-size", "8192", "--threads", "1"),
    ]
    process = Process(command, f"http://127.0.0.1:{port}", folder / "llama-cpp.log")
    try:
        process.wait_until_ready()
        yield process
    finally:
        process.kill()
