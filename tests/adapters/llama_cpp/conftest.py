from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest

from adapters.base import Backend, BackendConfig
from adapters.registry import create
from tests.adapters.llama_cpp_process import serving
from tests.adapters.vllm_process import Process


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with serving(tmp_path_factory.mktemp("engine")) as process:
        yield process


@pytest.fixture
async def backend(engine: Process, local_config: BackendConfig) -> AsyncIterator[Backend]:
    backend = create("llama-cpp", replace(local_config, model=None, options={"url": engine.url}))
    await backend.start()
    yield backend
    await backend.stop()
