"""`/v1/files` and `/v1/containers`: openai's SDK against a real server on a real port."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from openai import (
    APIStatusError,
    AsyncOpenAI,
    RateLimitError,
)

from server.http.connections.config import Config
from server.routes import files as files_routes
from server.store.files.base import StoredFile
from server.store.responses.base import Store
from server.store.responses.sql import SqlStore
from server.tools.python.sandbox import SandboxUnavailable
from server.tools.python.tool import PythonTool
from server.tools.toolbox import Toolbox
from tests.sandboxes import BareSandbox
from tests.waiting import until

OpenApp = Callable[..., AbstractAsyncContextManager[Any]]

LIMITS = {"max_file_bytes": 300_000, "max_owner_file_bytes": 500_000, "max_containers": 3}


class Site:
    """A server on a port, with its parts and clients for its two keys."""

    def __init__(self, app: Any, sandbox: BareSandbox, folder: Path, url: str) -> None:
        self.app = app
        self.sandbox = sandbox
        self.folder = folder
        self.url = url
        self.one, self.two = (
            AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) for key in "ab"
        )
        self.raw = httpx.AsyncClient(base_url=url, headers={"authorization": "Bearer a"})

    @property
    def contents(self) -> list[str]:
        """The names of the contents on the disk, partial ones among them."""
        return sorted(path.name for path in self.folder.iterdir()) if self.folder.exists() else []


@pytest.fixture
async def site(open_app: OpenApp, tmp_path: Path) -> AsyncIterator[Site]:
    folder = tmp_path / "files"
    sandbox = BareSandbox(tmp_path / "sessions")
    store = SqlStore(f"sqlite:///{tmp_path}/store.db")
    await store.start()
    async with open_app(
        "<|channel|>final<|message|>Hi.<|return|>",
        store=store,
        sandbox=sandbox,
        files=str(folder),
        api_key=("a", "b"),
        **LIMITS,
    ) as app:
        settings = app.app.state.context.settings
        config = Config(app.app, settings.limits, log_config=None, log_level="warning")
        server = uvicorn.Server(config)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            task = asyncio.create_task(server.serve(sockets=[listener]))
            await until(lambda: server.started)
            made = Site(app.app, sandbox, folder, f"http://127.0.0.1:{listener.getsockname()[1]}")
            async with made.one, made.two, made.raw:
                yield made
            server.should_exit = True
            await task
    await store.stop()


async def code_of(answer: Any) -> tuple[int, str | None, str | None]:
    """The status, the code and the param of a refused call of the SDK."""
    with pytest.raises(APIStatusError) as caught:
        await answer
    assert isinstance(caught.value.body, dict)
    return caught.value.status_code, caught.value.body["code"], caught.value.body["param"]


# Files


async def test_a_file_is_uploaded_read_and_deleted(site: Site) -> None:
    content = bytes(range(256)) * 1000
    file = await site.one.files.create(file=("é x.bin", content), purpose="user_data")
    assert (file.id[:5], file.object, file.status) == ("file-", "file", "processed")
    assert (file.filename, file.bytes, file.purpose) == ("é x.bin", len(content), "user_data")
    assert file.expires_at is None
    assert await site.one.files.retrieve(file.id) == file
    assert (await site.one.files.content(file.id)).content == content
    deleted = await site.one.files.delete(file.id)
    assert (deleted.id, deleted.object, deleted.deleted) == (file.id, "file", True)
    assert await code_of(site.one.files.retrieve(file.id)) == (404, "not_found", "file_id")
    assert await code_of(site.one.files.content(file.id)) == (404, "not_found", "file_id")
    assert await code_of(site.one.files.delete(file.id)) == (404, "not_found", "file_id")
    assert site.contents == []


async def test_a_range_of_a_file_is_read(site: Site) -> None:
    file = await site.one.files.create(file=("x", b"0123456789"), purpose="user_data")
    path = f"/v1/files/{file.id}/content"
    answer = await site.raw.get(path, headers={"range": "bytes=2-4"})
    assert (answer.status_code, answer.content) == (206, b"234")
    assert answer.headers["content-range"] == "bytes 2-4/10"


async def test_a_range_after_the_end_of_a_file_is_a_416(site: Site) -> None:
    file = await site.one.files.create(file=("x", b"0123456789"), purpose="user_data")
    path = f"/v1/files/{file.id}/content"
    answer = await site.raw.get(path, headers={"range": "bytes=10-"})
    assert answer.status_code == 416
    assert answer.headers["content-range"] == "bytes */10"
    assert answer.json()["error"]["code"] == "range_not_satisfiable"


async def test_many_files_are_shown_beside_the_event_loop(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    to_api = StoredFile.to_api
    done_by: list[int] = []

    def watched(file: StoredFile) -> dict[str, Any]:
        done_by.append(threading.get_ident())
        return to_api(file)

    await site.one.files.create(file=("a", b"x"), purpose="user_data")
    monkeypatch.setattr(files_routes, "_MOST_SMALL", 0)
    monkeypatch.setattr(StoredFile, "to_api", watched)
    assert [file.filename async for file in site.one.files.list()] == ["a"]
    assert done_by
    assert threading.get_ident() not in done_by


async def test_files_are_listed_page_by_page(site: Site) -> None:
    for name, purpose in (("a", "assistants"), ("b", "vision"), ("c", "user_data")):
        await site.one.files.create(file=(name, b"x"), purpose=purpose)  # type: ignore[arg-type]
    listed = [file.filename async for file in site.one.files.list(limit=2)]
    assert listed == ["c", "b", "a"]
    ordered = [file.filename async for file in site.one.files.list(order="asc")]
    assert ordered == ["a", "b", "c"]
    assert [file.filename async for file in site.one.files.list(purpose="vision")] == ["b"]
    assert await code_of(site.one.files.list(limit=10_001)) == (400, "invalid_value", "limit")


async def test_another_key_finds_no_file(site: Site) -> None:
    file = await site.one.files.create(file=b"x", purpose="user_data")
    for answer in (
        site.two.files.retrieve(file.id),
        site.two.files.content(file.id),
        site.two.files.delete(file.id),
    ):
        assert (await code_of(answer))[0] == 404
    assert [each async for each in site.two.files.list()] == []
    box = await site.two.containers.create(name="x")
    assert (await code_of(site.two.containers.files.create(box.id, file_id=file.id)))[0] == 404


async def test_a_file_may_expire(site: Site) -> None:
    expiry: Any = {"anchor": "created_at", "seconds": 3600}
    file = await site.one.files.create(file=b"x", purpose="batch", expires_after=expiry)
    assert file.expires_at == file.created_at + 3600
    site.app.state.context.files._now = lambda: float(file.created_at + 3600)
    assert (await code_of(site.one.files.retrieve(file.id)))[0] == 404


@pytest.mark.parametrize(
    ("expiry", "param"),
    [
        ({"anchor": "now", "seconds": 3600}, "expires_after.anchor"),
        ({"anchor": "created_at", "seconds": 1}, "expires_after.seconds"),
        ({"anchor": "created_at"}, "expires_after.seconds"),
    ],
)
async def test_an_invalid_expiry_is_refused(site: Site, expiry: Any, param: str) -> None:
    answer = site.one.files.create(file=b"x", purpose="batch", expires_after=expiry)
    assert await code_of(answer) == (400, "invalid_value", param)
    assert site.contents == []


async def test_an_unknown_purpose_is_refused(site: Site) -> None:
    answer = site.one.files.create(file=b"x", purpose="other")  # type: ignore[arg-type]
    assert await code_of(answer) == (400, "invalid_value", "purpose")
    assert site.contents == []


async def test_a_file_that_is_too_large_is_refused(site: Site) -> None:
    answer = site.one.files.create(file=b"x" * 300_001, purpose="user_data")
    assert await code_of(answer) == (413, "file_too_large", "file")
    assert site.contents == []


async def test_a_body_of_unknown_length_is_limited_too(site: Site) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
        for _ in range(20):
            yield b"x" * 65_536

    headers = {"content-type": "multipart/form-data; boundary=x"}
    refused = await site.raw.post("/v1/files", content=body(), headers=headers)
    assert (refused.status_code, refused.json()["error"]["code"]) == (413, "file_too_large")
    assert site.contents == []


async def test_the_files_of_a_key_are_limited_together(site: Site) -> None:
    file = await site.one.files.create(file=b"x" * 300_000, purpose="user_data")
    answer = site.one.files.create(file=b"x" * 300_000, purpose="user_data")
    assert await code_of(answer) == (413, "storage_full", "file")
    assert site.contents == [file.id]
    await site.two.files.create(file=b"x" * 300_000, purpose="user_data")


async def test_uploads_may_be_larger_than_other_bodies(open_app: OpenApp) -> None:
    async with open_app(max_body_bytes=100, max_body_memory=300) as app:
        form = {"files": {"file": ("a", b"x" * 10_000)}, "data": {"purpose": "user_data"}}
        uploaded = await app.client.post("/v1/files", **form)
        assert (uploaded.status_code, uploaded.json()["bytes"]) == (200, 10_000)
        assert app.app.state.context.body_budget.used == 0
        other = await app.client.post("/v1/responses", **form)
        assert other.json()["error"]["code"] == "request_too_large"


async def test_what_is_no_form_is_refused(site: Site) -> None:
    refused = await site.raw.post("/v1/files", json={"purpose": "user_data"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_multipart")


async def test_an_upload_needs_a_key(site: Site) -> None:
    form = {"files": {"file": ("a", b"x")}, "headers": {"authorization": "Bearer other"}}
    refused = await site.raw.post("/v1/files", **form)  # type: ignore[arg-type]
    assert refused.status_code == 401


async def test_an_idempotency_key_is_ignored_with_an_upload(site: Site) -> None:
    form = {"files": {"file": ("a", b"x")}, "data": {"purpose": "user_data"}}
    headers = {"idempotency-key": "once"}
    ids = {
        (await site.raw.post("/v1/files", headers=headers, **form)).json()["id"]  # type: ignore[arg-type]
        for _ in range(2)
    }
    assert len(ids) == 2


async def test_a_client_that_leaves_leaves_nothing(site: Site) -> None:
    host, port = site.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = (
        "POST /v1/files HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a\r\n"
        "Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 200000\r\n\r\n"
        '--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
    )
    writer.write(head.encode() + b"x" * 1000)
    await until(lambda: bool(site.contents))
    writer.close()
    await until(lambda: not site.contents)
    assert await reader.read() == b""


async def test_the_content_is_a_download(site: Site) -> None:
    file = await site.one.files.create(file=("x.html", b"<script>"), purpose="user_data")
    answer = await site.raw.get(f"/v1/files/{file.id}/content")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == 'attachment; filename="x.html"'
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_a_name_is_cut_and_holds_no_nul(site: Site) -> None:
    name = "\0" + "é" * 600
    head = f'--b\r\ncontent-disposition: form-data; name="file"; filename="{name}"\r\n\r\nx\r\n'
    purpose = 'content-disposition: form-data; name="purpose"\r\n\r\nvision\r\n'
    answer = await site.raw.post(
        "/v1/files",
        content=f"{head}--b\r\n{purpose}--b--\r\n".encode(),
        headers={"content-type": "multipart/form-data; boundary=b"},
    )
    assert answer.json()["filename"] == "é" * 512


async def test_a_content_that_is_lost_is_not_found(site: Site) -> None:
    file = await site.one.files.create(file=b"x", purpose="user_data")
    (site.folder / file.id).unlink()
    assert (await code_of(site.one.files.content(file.id)))[0] == 404
    assert (await site.one.files.delete(file.id)).deleted


async def test_without_a_folder_files_end_with_the_process(open_app: OpenApp) -> None:
    async with open_app() as app:
        form = {"files": {"file": ("a", b"one")}, "data": {"purpose": "user_data"}}
        name = (await app.client.post("/v1/files", **form)).json()["id"]
        path = app.app.state.context.files._folder.path(name)
        assert (await app.client.get(f"/v1/files/{name}/content")).content == b"one"
        assert path.exists()
    assert not path.parent.exists()


# Containers


async def test_a_container_is_made_shown_listed_and_deleted(site: Site) -> None:
    box = await site.one.containers.create(name="é")
    assert (box.id[:5], box.object, box.status, box.name) == ("cntr_", "container", "running", "é")
    assert box.expires_after is not None
    assert (box.expires_after.anchor, box.expires_after.minutes) == ("last_active_at", 20)
    assert (box.memory_limit, box.network_policy and box.network_policy.type) == ("1g", "disabled")
    shown = await site.one.containers.retrieve(box.id)
    assert shown.model_dump() == box.model_dump() | {"last_active_at": shown.last_active_at}
    assert [each.id async for each in site.one.containers.list(name="é")] == [box.id]
    assert [each.id async for each in site.one.containers.list(name="x")] == []
    await site.one.containers.delete(box.id)
    assert site.sandbox.closed == [box.id]
    assert await code_of(site.one.containers.retrieve(box.id)) == (
        404,
        "not_found",
        "container_id",
    )
    assert (await code_of(site.one.containers.delete(box.id)))[0] == 404


async def test_containers_are_listed_page_by_page(site: Site) -> None:
    for name in "abc":
        await site.one.containers.create(name=name)
    assert [each.name async for each in site.one.containers.list(limit=2)] == ["c", "b", "a"]
    ordered = site.one.containers.list(order="asc")
    assert [each.name async for each in ordered] == ["a", "b", "c"]


async def test_options_of_a_container(site: Site) -> None:
    file = await site.one.files.create(file=("x.csv", b"1,2"), purpose="user_data")
    box = await site.one.containers.create(
        name="x",
        memory_limit="4g",
        file_ids=[file.id],
        expires_after={"anchor": "last_active_at", "minutes": 5},
        network_policy={"type": "disabled"},
    )
    assert (box.memory_limit, box.expires_after and box.expires_after.minutes) == ("4g", 5)
    assert site.sandbox.sessions[box.id].limits.memory == 4 << 30
    (copied,) = [each async for each in site.one.containers.files.list(box.id)]
    assert (copied.path, copied.bytes, copied.source) == ("/mnt/data/x.csv", 3, "user")


async def test_a_container_has_as_much_memory_as_the_server_allows(open_app: OpenApp) -> None:
    async with open_app("unused", max_container_memory="16g") as app:
        for memory, status in (("16g", 200), ("64g", 400)):
            body = {"name": "x", "memory_limit": memory}
            assert (await app.post("/v1/containers", body)).status_code == status


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"memory_limit": "16g"}, "memory_limit"),
        ({"network_policy": {"type": "allowlist", "allowed_domains": ["x"]}}, "network_policy"),
        ({"expires_after": {"anchor": "last_active_at", "minutes": 21}}, "expires_after.minutes"),
        ({"expires_after": {"anchor": "created_at", "minutes": 1}}, "expires_after"),
        ({"skills": [{"type": "skill_reference", "skill_id": "x"}]}, "skills"),
        ({"file_ids": ["file-x"]}, "file_ids.0"),
        ({"name": None}, "name"),
    ],
)
async def test_an_invalid_option_is_refused(site: Site, options: Any, param: str) -> None:
    status, _, named = await code_of(site.one.containers.create(**{"name": "x"} | options))
    assert (status, named) == (404 if param == "file_ids.0" else 400, param)
    assert site.sandbox.sessions == {}


async def test_files_of_a_container(site: Site) -> None:
    box = await site.one.containers.create(name="x")
    files = site.one.containers.files
    content = bytes(range(256)) * 10
    made = await files.create(box.id, file=("../a b.bin", BytesIO(content)))
    assert (made.id[:6], made.object, made.source) == ("cfile_", "container.file", "user")
    assert (made.container_id, made.path, made.bytes) == (box.id, "/mnt/data/a b.bin", 2560)
    assert (await files.retrieve(made.id, container_id=box.id)).model_dump() == made.model_dump()
    assert (await files.content.retrieve(made.id, container_id=box.id)).content == content
    uploaded = await site.one.files.create(file=("y.csv", b"1"), purpose="user_data")
    copied = await files.create(box.id, file_id=uploaded.id)
    assert copied.path == "/mnt/data/y.csv"
    assert [each.id async for each in files.list(box.id, limit=1)] == [copied.id, made.id]
    await files.delete(made.id, container_id=box.id)
    assert [each.id async for each in files.list(box.id)] == [copied.id]
    assert [file.path for file in await site.sandbox.files(box.id)] == ["y.csv"]
    # Only the uploaded file is left in the folder of files.
    assert site.contents == [uploaded.id]


async def test_a_file_replaces_the_one_with_its_name(site: Site) -> None:
    box = await site.one.containers.create(name="x")
    files = site.one.containers.files
    first = await files.create(box.id, file=("a", b"one"))
    second = await files.create(box.id, file=("a", b"three"))
    assert [each.id async for each in files.list(box.id)] == [second.id]
    assert (await code_of(files.retrieve(first.id, container_id=box.id)))[0] == 404
    assert (await files.content.retrieve(second.id, container_id=box.id)).content == b"three"


async def test_an_empty_file_has_an_empty_content(site: Site) -> None:
    box = await site.one.containers.create(name="x")
    made = await site.one.containers.files.create(box.id, file=("a", b""))
    got = await site.one.containers.files.content.retrieve(made.id, container_id=box.id)
    assert got.content == b""


async def test_unknown_files_and_containers_are_not_found(site: Site) -> None:
    box = await site.one.containers.create(name="x")
    files = site.one.containers.files
    answer: Any
    for answer in (
        files.retrieve("cfile_x", container_id=box.id),
        files.content.retrieve("cfile_x", container_id=box.id),
        files.delete("cfile_x", container_id=box.id),
    ):
        assert await code_of(answer) == (404, "not_found", "file_id")
    for answer in (
        files.create("cntr_x", file=("a", b"1")),
        files.create("cntr_x", file_id="file-x"),
        files.list("cntr_x"),
        files.retrieve("cfile_x", container_id="cntr_x"),
        files.delete("cfile_x", container_id="cntr_x"),
    ):
        assert await code_of(answer) == (404, "not_found", "container_id")


async def test_another_key_finds_no_container(site: Site) -> None:
    box = await site.one.containers.create(name="x")
    made = await site.one.containers.files.create(box.id, file=("a", b"1"))
    other = site.two.containers
    for answer in (
        other.retrieve(box.id),
        other.delete(box.id),
        other.files.list(box.id),
        other.files.create(box.id, file=("b", b"2")),
        other.files.content.retrieve(made.id, container_id=box.id),
        other.files.delete(made.id, container_id=box.id),
    ):
        assert (await code_of(answer))[0] == 404
    assert [each async for each in other.list()] == []


async def test_an_idle_container_expires_with_a_code_of_its_own(site: Site) -> None:
    box = await site.one.containers.create(name="x")
    made = await site.one.containers.files.create(box.id, file=("a", b"1"))
    service = site.app.state.context.containers
    end = box.created_at + 21 * 60
    service._now = lambda: float(end)
    expired = (404, "container_expired", "container_id")
    assert await code_of(site.one.containers.retrieve(box.id)) == expired
    await service.sweep()
    assert site.sandbox.closed == [box.id]
    assert await code_of(site.one.containers.retrieve(box.id)) == expired
    content = site.one.containers.files.content.retrieve(made.id, container_id=box.id)
    assert await code_of(content) == expired
    assert [each async for each in site.one.containers.list()] == []
    end += 2 * 86_400
    await service.sweep()
    assert (await code_of(site.one.containers.retrieve(box.id)))[1] == "not_found"


async def test_a_request_names_a_container_of_its_own_key_that_has_not_expired(site: Site) -> None:
    context = site.app.state.context
    python = PythonTool(context.containers)
    site.app.state.context = replace(context, toolbox=Toolbox([python]))
    box = await site.one.containers.create(name="x")

    def answer(client: AsyncOpenAI, container: str) -> Any:
        tool: Any = {"type": "code_interpreter", "container": container}
        return client.responses.create(model="scripted", input="hi", tools=[tool])

    assert (await answer(site.one, box.id)).status == "completed"
    unknown = (404, "not_found", "tools.0.container")
    assert await code_of(answer(site.one, "cntr_none")) == unknown
    assert await code_of(answer(site.two, box.id)) == unknown
    end = box.created_at + 60 * 60
    context.containers._now = lambda: float(end)
    expired = (404, "container_expired", "tools.0.container")
    assert await code_of(answer(site.one, box.id)) == expired
    assert await code_of(answer(site.two, box.id)) == unknown


async def test_any_use_prolongs_the_life_of_a_container(site: Site) -> None:
    box = await site.one.containers.create(name="x")
    service = site.app.state.context.containers
    now = box.created_at
    service._now = lambda: float(now)
    for _ in range(3):
        now += 19 * 60
        await site.one.containers.files.create(box.id, file=("a", b"1"))
    assert (await site.one.containers.retrieve(box.id)).last_active_at == now


async def test_a_key_has_so_many_containers(site: Site) -> None:
    for _ in range(3):
        await site.one.containers.create(name="x")
    with pytest.raises(RateLimitError):
        await site.one.containers.create(name="x")
    await site.two.containers.create(name="x")


async def test_a_file_larger_than_the_disk_of_a_container_is_refused(site: Site) -> None:
    box = await site.one.containers.create(name="x")
    site.sandbox.sessions[box.id].limits = type(site.sandbox.sessions[box.id].limits)(disk=2)
    answer = site.one.containers.files.create(box.id, file=("a", b"123"))
    assert await code_of(answer) == (413, "file_too_large", "file")
    assert site.contents == []


async def test_a_file_that_code_deleted_is_not_found(site: Site) -> None:
    box = await site.one.containers.create(name="x")
    made = await site.one.containers.files.create(box.id, file=("a", b"1"))
    await site.sandbox.delete(box.id, "a")
    content = site.one.containers.files.content.retrieve(made.id, container_id=box.id)
    assert await code_of(content) == (404, "not_found", "file_id")
    await site.one.containers.files.delete(made.id, container_id=box.id)


async def test_a_sandbox_that_cannot_be_reached_is_a_503(site: Site) -> None:
    site.sandbox.failure = SandboxUnavailable("http://inner")
    assert (await code_of(site.one.containers.create(name="x")))[0] == 503
    site.sandbox.failure = None
    box = await site.one.containers.create(name="x")
    site.sandbox.failure = SandboxUnavailable("http://inner")
    await site.one.containers.delete(box.id)
    # The session is ended once the sandbox is back.
    site.sandbox.failure = None
    await site.app.state.context.containers.sweep()
    assert box.id in site.sandbox.closed


async def test_without_a_sandbox_there_are_no_containers(
    open_app: OpenApp, store: Store, tmp_path: Path
) -> None:
    sandbox = BareSandbox(tmp_path, "no layer works here")
    async with open_app(store=store, sandbox=sandbox) as app:
        refused = await app.post("/v1/containers", {"name": "x"})
        error = refused.json()["error"]
        assert (refused.status_code, error["code"]) == (400, "tool_unavailable")
        assert "no layer works here" in error["message"]
        assert (await app.client.get("/v1/containers")).json()["data"] == []
