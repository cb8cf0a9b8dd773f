"""Checks of what the server reaches and is reached by: the hub, engines, its port, the store."""

import asyncio
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import httpx

from adapters.download import offline_variable
from adapters.errors import BackendFailed
from adapters.http.engine import HTTPEngine
from adapters.registry import REMOTE
from adapters.requirements import MXFP4_KERNELS
from server.commands.backends import open_engines
from server.commands.doctor.check import Check
from server.commands.doctor.machine import check_disk, nearest
from server.commands.listening import CannotListen, bind, listen, reachable_by_others
from server.settings import Settings

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

SECONDS = 5.0
"""How long the hub or a database may take to answer."""
_REVISIONS = "SELECT version_num FROM alembic_version"


def hub_cache() -> Path:
    """Where the hub's library keeps checkpoints."""
    from huggingface_hub import constants  # which takes a while to load

    return Path(constants.HF_HUB_CACHE)


def is_on_hub(settings: Settings) -> bool:
    """Whether the model is a name on the hub, which an engine of this machine downloads."""
    here = settings.backend in ("transformers", "vllm") and not settings.is_demo
    return here and settings.model is not None and not os.path.exists(settings.model)


def is_cached(model: str) -> bool:
    """Whether the hub's cache holds weights of the model."""
    folder = hub_cache() / f"models--{model.replace('/', '--')}" / "snapshots"
    return any(folder.glob("*/*.safetensors"))


def check_kernels() -> Check:
    """Whether the kernels for packed weights are in the cache, or may be downloaded."""
    cache = Path(os.environ.get("KERNELS_CACHE") or hub_cache())
    if any(cache.glob(f"*--{MXFP4_KERNELS.replace('/', '--')}/snapshots/*")):
        return Check("compiled kernels", "ok", f"{MXFP4_KERNELS} is in {cache}")
    if variable := offline_variable():
        fact = f"offline by {variable}, and {MXFP4_KERNELS} is not in {cache}"
        advice = f"unset {variable} once, and run python -m adapters.local.model.kernels"
        return Check("compiled kernels", "failed", fact, advice)
    disk = check_disk("compiled kernels", cache, "set KERNELS_CACHE to another folder")
    if disk.status == "failed":
        return disk
    return Check("compiled kernels", "ok", f"{MXFP4_KERNELS} will be downloaded to {cache}")


def check_hub(settings: Settings) -> Check:
    """Whether the model can be downloaded, where it has to be."""
    if not is_on_hub(settings):
        return Check("hub", "ok", "not needed: the model is on this machine, or elsewhere")
    model = settings.model or ""
    cached = is_cached(model)
    if variable := offline_variable():
        if cached:
            return Check("hub", "ok", f"offline by {variable}; {model} is in {hub_cache()}")
        fact = f"offline by {variable}, and {model} is not in {hub_cache()}"
        return Check("hub", "failed", fact, f"unset {variable}, or name a folder as --model")
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    try:
        token = _hub_token()
    except ValueError as error:
        advice = "correct HF_TOKEN, or save another token (hf auth login)"
        return Check("hub", "warning" if cached else "failed", str(error), advice)
    headers = {"authorization": f"Bearer {token}"} if token else {}
    try:
        url = f"{endpoint}/api/models/{quote(model)}"
        answer = httpx.get(url, headers=headers, timeout=SECONDS, follow_redirects=True)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        fact = f"{endpoint} does not answer: {str(error) or type(error).__name__}"
        advice = "check the network, a proxy (HTTPS_PROXY) and HF_ENDPOINT"
        return Check("hub", "warning" if cached else "failed", fact, advice)
    if answer.is_success:
        return Check("hub", "ok", f"{endpoint} has {model}" + (", cached here" if cached else ""))
    fact = f"{endpoint} answers {answer.status_code} for {model}"
    advice = "check the name; a repository that is gated or private needs HF_TOKEN"
    return Check("hub", "warning" if cached else "failed", fact, advice)


def _hub_token() -> str:
    """The token that a download sends, which may be a saved one; empty if there is none.

    Raises ValueError for one that cannot be read, or sent.
    """
    # Here, because it takes a while to load.
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    try:
        token = build_hf_headers().get("authorization", "").removeprefix("Bearer ")
    except (OSError, UnicodeError) as error:
        raise ValueError(f"the saved token cannot be read: {type(error).__name__}") from error
    if not (token.isascii() and token.isprintable()):
        raise ValueError("the token has control characters, or characters outside of ASCII")
    return token


def check_engines(settings: Settings) -> list[Check]:
    """Whether the engines behind URLs answer; one that does is enough."""
    try:
        engines = open_engines(settings) if settings.backend in REMOTE else []
    except BackendFailed:
        return []  # the check of the backend reports it
    answers = asyncio.run(_ask(engines))
    serves = any(error is None for error in answers.values())
    return [
        Check(f"engine {name}", "ok", "it answers")
        if error is None
        else Check(
            f"engine {name}",
            "warning" if serves else "failed",
            error,
            "start it, or correct --backend-url",
        )
        for name, error in answers.items()
    ]


async def _ask(engines: list[HTTPEngine]) -> dict[str, str | None]:
    """Why each engine cannot serve, by its name; None where it can."""
    answers = await asyncio.gather(*map(_fault, engines))
    return {engine.name: answer for engine, answer in zip(engines, answers, strict=True)}


async def _fault(engine: HTTPEngine) -> str | None:
    try:
        await engine.start()
        await engine.check()
    except BackendFailed as error:
        return str(error)
    finally:
        await engine.stop()
    return None


def check_port(settings: Settings) -> Check:
    """Whether `serve` could listen, and would."""
    where = f"{settings.host}:{settings.port}"
    try:
        with bind(settings.host, settings.port) as listener:
            listen(listener)
            reached = reachable_by_others(listener)
    except CannotListen as error:
        advice = "end what listens there, or choose another --port or --host"
        return Check("port", "failed", str(error), advice)
    if reached and not (settings.api_keys or settings.allow_anonymous):
        advice = (
            "set GPT_OSS_API_KEY or --api-key-file, or --host 127.0.0.1, or --allow-anonymous true"
        )
        return Check("port", "failed", f"{where} is reached by others, without a key", advice)
    return Check("port", "ok", f"{where} is free")


def check_store(settings: Settings, default: Path) -> Check:
    """Whether the store can be opened; nothing is written. default: the file without --store."""
    if settings.has_memory_store:
        return Check("store", "ok", "memory: what is stored ends with the process")
    from server.store.sqlalchemy_engine import parse_url

    url = parse_url(settings.store) if settings.store else None
    if url is not None and url.get_backend_name() != "sqlite":
        return _check_server(url)
    file = default if url is None else Path(url.database or "")
    if url is not None and "uri" in url.query:
        return Check("store", "ok", f"{file} is left to SQLite")
    try:
        return _check_file(file, nearest(file.parent) if url is None else file.parent)
    except OSError as error:
        advice = "name another file with --store"
        return Check("store", "failed", f"{file}: {error.strerror}", advice)


def _check_server(url: "URL") -> Check:
    from server.store.sqlalchemy_engine import POSTGRES_ERRORS

    shown = (
        url.set(drivername="postgresql")
        .difference_update_query(["password", "sslpassword"])
        .render_as_string()  # without the password
    )
    try:
        revisions = asyncio.run(_revisions_of_server(url))
    except POSTGRES_ERRORS as error:
        advice = "start the database, or correct --store"
        fact = f"{shown}: {str(error) or type(error).__name__}"  # a timeout has no text
        return Check("store", "failed", fact, advice)
    return _check_revisions(shown, revisions)


async def _revisions_of_server(url: "URL") -> list[str]:
    import asyncpg

    from server.store.postgres_url import dsn_of

    connection = await asyncpg.connect(dsn_of(url), timeout=SECONDS, command_timeout=SECONDS)
    try:
        if await connection.fetchval("SELECT to_regclass('alembic_version')") is None:
            return []
        return [name for (name,) in await connection.fetch(_REVISIONS)]
    finally:
        connection.terminate()


def _check_revisions(store: str, revisions: list[str]) -> Check:
    from server.store.errors import StoreTooNew
    from server.store.sqlalchemy_engine import check_revisions

    try:
        check_revisions(revisions)
    except StoreTooNew:
        advice = "install that version, or name another --store"
        return Check("store", "failed", f"{store} was made by a newer version", advice)
    return Check("store", "ok", store)


def _check_file(file: Path, folder: Path) -> Check:
    """folder: the one that has to be there, and in which `serve` makes what is missing."""
    if not folder.is_dir():
        advice = "make the folder, or name another file with --store"
        return Check("store", "failed", f"there is no folder {folder}", advice)
    if not os.access(folder, os.W_OK):
        advice = "give this user the folder, or name another file with --store"
        return Check("store", "failed", f"{folder} cannot be written", advice)
    if not file.exists():
        return Check("store", "ok", f"{file} will be made")
    if not os.access(file, os.W_OK):
        advice = "give this user the file, or name another file with --store"
        return Check("store", "failed", f"{file} cannot be written", advice)
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as database:
            tables = database.execute("SELECT name FROM sqlite_schema").fetchall()
            known = ("alembic_version",) in tables
            revisions = database.execute(_REVISIONS).fetchall() if known else []
    except sqlite3.Error as error:
        advice = "restore the file from a copy, or move it away and start anew"
        return Check("store", "failed", f"{file}: {error}", advice)
    return _check_revisions(str(file), [name for (name,) in revisions])
