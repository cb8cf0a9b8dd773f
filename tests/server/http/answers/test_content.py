"""Downloads: the whole file, a range of it, and requests for ranges that are not read."""

from pathlib import Path
from typing import Any

import pytest
from starlette.datastructures import Headers
from starlette.responses import Response

from server.errors import RangeNotSatisfiable
from server.http.answers.content import file_response
from server.threads import CHUNK

ETAG = '"file-1"'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return written(tmp_path, b"0123456789")


def written(folder: Path, content: bytes) -> Path:
    path = folder / "file-1"
    path.write_bytes(content)
    return path


async def response(path: Path, filename: str = "x.csv", **headers: str) -> Response:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return await file_response(path.open("rb"), filename, ETAG, Headers(names))


async def body(answer: Any) -> bytes:
    return b"".join([piece async for piece in answer.body_iterator])


async def test_a_file_is_a_download(path: Path) -> None:
    answer = await response(path)
    assert await body(answer) == b"0123456789"
    assert answer.status_code == 200
    assert answer.headers["content-length"] == "10"
    assert answer.headers["accept-ranges"] == "bytes"
    assert answer.headers["etag"] == ETAG


@pytest.mark.parametrize(
    ("filename", "parameter"),
    [
        ("x.csv", 'filename="x.csv"'),
        ("é x.bin", "filename*=UTF-8''%C3%A9%20x.bin"),
        ('a"; b="c', "filename*=UTF-8''a%22%3B%20b%3D%22c"),
        ("a\r\nX-B: c", "filename*=UTF-8''a%0D%0AX-B%3A%20c"),
        ("../x", "filename*=UTF-8''..%2Fx"),
    ],
)
async def test_a_download_has_the_name_of_its_file(
    path: Path, filename: str, parameter: str
) -> None:
    answer = await response(path, filename)
    assert await body(answer) == b"0123456789"
    assert answer.headers["content-disposition"] == f"attachment; {parameter}"


async def test_a_file_of_several_pieces_is_read_whole(tmp_path: Path) -> None:
    path = written(tmp_path, bytes(2 * CHUNK + 1))
    assert await body(await response(path)) == bytes(2 * CHUNK + 1)


async def test_an_empty_file_is_read(tmp_path: Path) -> None:
    answer = await response(written(tmp_path, b""))
    assert (await body(answer), answer.headers["content-length"]) == (b"", "0")


@pytest.mark.parametrize(
    ("requested", "read", "where"),
    [
        ("bytes=0-0", b"0", "bytes 0-0/10"),
        ("bytes=7-", b"789", "bytes 7-9/10"),
        ("bytes=-2", b"89", "bytes 8-9/10"),
        ("bytes=-99", b"0123456789", "bytes 0-9/10"),
        ("Bytes=5-99", b"56789", "bytes 5-9/10"),
    ],
)
async def test_a_range_is_a_206(path: Path, requested: str, read: bytes, where: str) -> None:
    answer = await response(path, range=requested)
    assert await body(answer) == read
    assert answer.status_code == 206
    assert answer.headers["content-range"] == where
    assert answer.headers["content-length"] == str(len(read))


@pytest.mark.parametrize(
    "requested",
    ["items=0-1", "bytes=", "bytes=-", "bytes=3-2", "bytes=0-0,2-2", "bytes=a-b", "0-1"],
)
async def test_what_is_no_single_range_gets_the_whole_file(path: Path, requested: str) -> None:
    answer = await response(path, range=requested)
    assert (answer.status_code, await body(answer)) == (200, b"0123456789")


@pytest.mark.parametrize("requested", ["bytes=10-", "bytes=10-12", "bytes=-0"])
async def test_a_range_after_the_end_is_refused(path: Path, requested: str) -> None:
    with pytest.raises(RangeNotSatisfiable) as caught:
        await response(path, range=requested)
    assert caught.value.headers == {"Content-Range": "bytes */10"}


async def test_a_range_of_the_same_content_is_read(path: Path) -> None:
    answer = await response(path, range="bytes=0-0", if_range=ETAG)
    assert (answer.status_code, await body(answer)) == (206, b"0")


async def test_a_range_of_another_content_gets_the_whole_file(path: Path) -> None:
    answer = await response(path, range="bytes=0-0", if_range='"file-2"')
    assert (answer.status_code, await body(answer)) == (200, b"0123456789")
