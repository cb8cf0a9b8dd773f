"""Which pages may open a WebSocket."""

from types import SimpleNamespace

import pytest
from starlette.requests import HTTPConnection

from server.errors import Forbidden
from server.origin import refuse_foreign_pages

HOST = "localhost:8000"
CHAT = "https://chat.example"


def asked(origin: str | None, *allowed: str, host: str | None = HOST) -> HTTPConnection:
    headers = {"origin": origin, "host": host}
    context = SimpleNamespace(settings=SimpleNamespace(cors_origin=allowed))
    return HTTPConnection(
        {
            "type": "websocket",
            "headers": [(k.encode(), v.encode()) for k, v in headers.items() if v is not None],
            "app": SimpleNamespace(state=SimpleNamespace(context=context)),
        }
    )


@pytest.mark.parametrize(
    "connection",
    [
        pytest.param(asked(None), id="no browser"),
        pytest.param(asked(f"http://{HOST}"), id="its own"),
        pytest.param(asked(f"https://{HOST}"), id="its own behind TLS"),
        pytest.param(asked(CHAT, "https://other.example", CHAT), id="named"),
        pytest.param(asked(CHAT, "*"), id="any"),
    ],
)
def test_who_may_connect(connection: HTTPConnection) -> None:
    refuse_foreign_pages(connection)


@pytest.mark.parametrize(
    "connection",
    [
        pytest.param(asked(CHAT), id="unnamed"),
        pytest.param(asked(CHAT, "https://other.example"), id="another is named"),
        pytest.param(asked("http://localhost:3000"), id="another port"),
        pytest.param(asked("null"), id="a page without origin"),
        pytest.param(asked("null", host=None), id="no host"),
    ],
)
def test_who_may_not(connection: HTTPConnection) -> None:
    with pytest.raises(Forbidden) as caught:
        refuse_foreign_pages(connection)
    assert (caught.value.status, caught.value.code) == (403, "origin_not_allowed")
