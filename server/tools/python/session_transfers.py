"""Moves files of sessions: to and from clients, and between the folders of two sessions."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

from adapters.completion import completed
from server.tools.python import session_files
from server.tools.python.sandbox import FileTooLarge, SandboxFile, unavailable_on_oserror
from server.tools.python.session import Session


def open_file(folder: Path, path: str, opened: ExitStack) -> int:
    """A descriptor of a file. opened: closes it, also if the caller was cancelled meanwhile."""
    file = session_files.open_file(folder, path)
    opened.callback(os.close, file)
    return file


def begin_upload(record: Session, path: str, opened: ExitStack) -> tuple[session_files.Upload, int]:
    """An upload into the session's folder, and the bytes that the limit leaves to all uploads.

    opened: closes it, as `open_file` describes.
    """
    left = record.limits.disk - session_files.usage(record.folder, record.limits.disk)
    upload = session_files.Upload(record.data, path, record.user)
    opened.callback(upload.close)
    return upload, left


async def receive(
    record: Session, upload: session_files.Upload, content: AsyncIterator[bytes], most: int
) -> SandboxFile:
    """Write an upload. Raises FileTooLarge once the session's uploads have more than `most` bytes,
    and SandboxUnavailable where the disk is full.

    Those that are received at once share what the limit leaves, and a failed one gives back its
    part.
    """
    size = 0
    try:
        async for chunk in content:
            size += len(chunk)
            record.uploaded += len(chunk)
            if record.uploaded > most:
                raise FileTooLarge(upload.path)
            with unavailable_on_oserror():
                await completed(asyncio.to_thread(upload.write, chunk))
        with unavailable_on_oserror():
            return await completed(asyncio.to_thread(upload.finish))
    except BaseException:
        record.uploaded -= size
        raise


def move(record: Session, warm: Session) -> None:
    """Move a session's uploaded files to the folder of the process that it gets, or none."""
    try:
        take(record, warm)
    except OSError:
        take(warm, record)
        raise


def take(giver: Session, taker: Session) -> None:
    """Move all files, those that are there already included, to the folder and user of `taker`."""
    for each in os.listdir(giver.data):
        os.rename(giver.data / each, taker.data / each)
    if taker.user is not None:
        for folder, below, files in os.walk(taker.data):
            for each in (*below, *files):
                os.chown(Path(folder, each), taker.user, taker.user, follow_symlinks=False)
