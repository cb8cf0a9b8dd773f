"""The whole application with the scripted engine, and the requests that the engine received."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from adapters.base import BackendConfig, GenerationChunk, GenerationRequest
from adapters.scripted import ScriptedBackend
from harmony.messages import Author, Channel, Message, Role
from harmony.tokenizer import decode, encode_with_control
from server.app import create_app
from server.context import Context
from server.settings import Settings
from server.store.responses.base import Store
from server.store.responses.memory import MemoryStore
from server.store.responses.sql import SqlStore
from server.tools.toolbox import Toolbox
from tests.sandboxes import BareSandbox
from tests.server.tools.sample_tools import SampleTool


class RecordingBackend(ScriptedBackend):
    """Records its requests, and how many of them run."""

    def __init__(self, config: BackendConfig) -> None:
        super().__init__(config)
        self.requests: list[GenerationRequest] = []
        self.running = 0
        self._changed = asyncio.Event()

    async def until_running(self, count: int) -> None:
        """Wait until `count` generations run."""
        while self.running != count:
            self._changed.clear()
            await self._changed.wait()

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[GenerationChunk, None]:
        self.requests.append(request)
        self._ran(1)
        try:
            async for chunk in super().generate(request):
                yield chunk
        finally:
            self._ran(-1)

    def _ran(self, more: int) -> None:
        self.running += more
        self._changed.set()


class App:
    """A running application and a client for it."""

    def __init__(self, app: FastAPI, backend: RecordingBackend) -> None:
        self.app = app
        self.backend = backend
        transport = httpx.ASGITransport(app)
        self.client = httpx.AsyncClient(transport=transport, base_url="http://test")

    async def until_idle(self) -> None:
        """Wait for all runs, and check that they have released their slots."""
        gateway = self.app.state.context.gateway
        await gateway.runs.wait()
        await asyncio.sleep(0)
        assert gateway.admission.admitted == 0

    def use(self, *tools: SampleTool) -> None:
        """Give the application these hosted tools."""
        context = self.app.state.context
        self.app.state.context = replace(context, toolbox=Toolbox(tools))

    @property
    def prompts(self) -> list[str]:
        return [decode(request.prompt_token_ids) for request in self.backend.requests]

    async def post(self, path: str, body: Any, **options: Any) -> httpx.Response:
        return await self.client.post(path, json=body, **options)


OpenApp = Callable[..., AbstractAsyncContextManager[App]]


def expanding_seal(app: App) -> str:
    """A small seal that holds more than the model's context."""
    context: Context = app.app.state.context
    message = Message(Author(Role.ASSISTANT), "x" * context.context_length * 129, Channel.ANALYSIS)
    return context.sealer.seal("anyone", message)


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """Each kind of store, for tests of stored objects."""
    opened_store: Store = MemoryStore()
    if request.param == "sqlite":
        opened_store = SqlStore(f"sqlite:///{tmp_path}/store.db")
    await opened_store.start()
    yield opened_store
    await opened_store.stop()


@pytest.fixture
def open_app(tmp_path: Path) -> OpenApp:
    """Opens an application, from completions or whole script lines, and settings."""

    @asynccontextmanager
    async def start(
        *lines: str | dict[str, Any],
        store: Store | None = None,
        sandbox: BareSandbox | None = None,
        **settings: Any,
    ) -> AsyncIterator[App]:
        script = tmp_path / "script.jsonl"
        script_lines = [{"completion": line} if isinstance(line, str) else line for line in lines]
        script.write_text(
            "".join(json.dumps(line) + "\n" for line in script_lines), encoding="utf-8"
        )
        config = BackendConfig(None, {"script": str(script)}, encode_with_control, decode, list)
        backend = RecordingBackend(config)
        await backend.start()
        options = Settings(backend="scripted", script=str(script), **settings)
        sandbox = sandbox or BareSandbox(tmp_path / "sandbox")
        app = create_app(options, backend, store, sandbox=sandbox)
        opened = App(app, backend)
        async with opened.client:
            yield opened
        await app.state.context.gateway.runs.close()
        app.state.context.files.close()
        await backend.stop()

    return start
