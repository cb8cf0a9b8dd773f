"""Engines for the tests of the spine."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adapters.base import BackendConfig, BackendInfo, GenerationChunk, GenerationRequest
from adapters.scripted import ScriptedBackend
from harmony.tokenizer import decode, encode_with_control


class Engine(ScriptedBackend):
    """The scripted engine, with its faults and features to be chosen and its requests remembered.

    failure: raised by `check`. breaks: raised after the script's last token. open: the generations
    in progress.
    """

    def __init__(self, script: Path) -> None:
        options = {"script": str(script)}
        config = BackendConfig(None, options, encode_with_control, decode, lambda: None)
        super().__init__(config)
        self.requests: list[GenerationRequest] = []
        self.failure: Exception | None = None
        self.breaks: Exception | None = None
        self.changes: dict[str, Any] = {}
        self.open = 0

    @property
    def info(self) -> BackendInfo:
        return replace(super().info, **self.changes)

    async def check(self) -> None:
        if self.failure is not None:
            raise self.failure
        await super().check()

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[GenerationChunk, None]:
        self.requests.append(request)
        self.open += 1
        try:
            async for chunk in super().generate(request):
                yield replace(chunk, finish_reason=None) if self.breaks else chunk
            if self.breaks is not None:
                raise self.breaks
        finally:
            self.open -= 1


StartEngine = Callable[..., Awaitable[Engine]]


@pytest.fixture
def start_engine(tmp_path: Path) -> StartEngine:
    """Starts an engine: script lines (or one completion) in."""

    async def start(*lines: dict[str, Any] | str) -> Engine:
        script = tmp_path / "script.jsonl"
        whole = [{"completion": line} if isinstance(line, str) else line for line in lines]
        script.write_text("\n".join(map(json.dumps, whole)), encoding="utf-8")
        engine = Engine(script)
        await engine.start()
        return engine

    return start
