import json
import threading

import pytest
from pydantic import BaseModel, field_validator
from starlette.requests import Request
from starlette.types import Message

from server.errors import InvalidRequest
from server.http.bodies.json_body import parse, read_json
from server.threads import LARGE


class Inner(BaseModel):
    size: int


class Outer(BaseModel):
    name: str
    inner: list[Inner] = []


def request(body: bytes) -> Request:
    async def receive() -> Message:
        return {"type": "http.request", "body": body}

    return Request({"type": "http", "headers": []}, receive)


async def test_a_body_that_fits_becomes_its_schema() -> None:
    body = json.dumps({"name": "n", "inner": [{"size": 1}]}).encode()
    assert await parse(request(body), Outer) == Outer(name="n", inner=[Inner(size=1)])


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"{'a': 1}", b'{"a": 1} x', b'{"a": NaN}', b"\xff", b'"\\ud800'],
)
async def test_a_body_that_is_no_json_is_a_400(body: bytes) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        await read_json(body)
    assert refusal.value.code == "invalid_json"
    assert refusal.value.message.startswith("We could not parse the JSON body of your request: ")


@pytest.mark.parametrize(
    ("size", "beside"), [(LARGE, False), (LARGE + 1, True)], ids=["small", "large"]
)
async def test_only_a_large_body_is_read_beside_the_event_loop(size: int, beside: bool) -> None:
    seen: set[int] = set()

    class Noted(BaseModel):
        name: str

        @field_validator("name")
        @classmethod
        def note(cls, name: str) -> str:
            seen.add(threading.get_ident())
            return name

    text = b'{"name":"' + b"x" * (size - 11) + b'"}'
    await parse(request(text), Noted)
    assert len(text) == size
    assert (seen != {threading.get_ident()}) is beside
    assert await read_json(text) == json.loads(text)
