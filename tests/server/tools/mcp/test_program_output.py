"""What of a program's output the server gets."""

import json
from io import BytesIO

import pytest

from server.tools.mcp.message_size import MAX_RESPONSE, MAX_VALUES, TOO_LARGE
from server.tools.mcp.program_output import pass_on

ERROR = {"jsonrpc": "2.0", "id": 7, "error": {"code": -32603, "message": TOO_LARGE}}
VERSION = b'"jsonrpc":"2.0"'
ID = b'"id":7'
LONG = b'"result":{"text":"' + b"x" * MAX_RESPONSE + b'"}'
MANY = b'"result":{"rows":[' + b"1," * MAX_VALUES + b"1]}"
NEXT = b'{"jsonrpc":"2.0","id":8,"result":{}}\n'


def passed(output: bytes) -> bytes:
    server = BytesIO()
    pass_on(BytesIO(output), server)
    return server.getvalue()


@pytest.mark.parametrize("output", [b"", b"a line\nand\r\n", b"no end", "caf\xe9\n".encode()])
def test_lines_are_passed_on(output: bytes) -> None:
    assert passed(output) == output


def test_what_is_not_utf8_is_replaced() -> None:
    assert passed(b"caf\xe9\n" + NEXT) == "caf\ufffd\n".encode() + NEXT


def test_halves_of_characters_are_replaced() -> None:
    assert passed(rb'"cut \ud83d"' + b"\n") == rb'"cut \ufffd"' + b"\n"


@pytest.mark.parametrize("result", [LONG, MANY], ids=["long", "many"])
@pytest.mark.parametrize(
    ("first", "last"),
    [((VERSION, ID), ()), ((ID, VERSION), ()), ((), (VERSION, ID)), ((), (ID, VERSION))],
)
def test_a_request_gets_an_error_in_place_of_a_message_that_is_too_large(
    result: bytes, first: tuple[bytes, ...], last: tuple[bytes, ...]
) -> None:
    message = b"{" + b",".join([*first, result, *last]) + b"}\n"
    error, rest = passed(message + NEXT).split(b"\n", 1)
    assert json.loads(error) == ERROR
    assert rest == NEXT


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_the_id_is_found_with_and_without_spaces(separators: tuple[str, str]) -> None:
    message = {"jsonrpc": "2.0", "id": 7, "result": [0] * (MAX_VALUES + 1)}
    text = json.dumps(message, separators=separators).encode()
    assert json.loads(passed(text)) == ERROR


@pytest.mark.parametrize("inner", [b'{"id":7}', b'"\\"id\\":7"', b"7"])
def test_a_notification_that_is_too_large_is_left_out(inner: bytes) -> None:
    message = (
        b'{"jsonrpc":"2.0","method":"m","params":{"a":' + LONG[9:] + b',"b":' + inner + b"}}\n"
    )
    assert passed(message + NEXT) == NEXT


@pytest.mark.parametrize(
    ("first", "last"), [((VERSION, ID), ()), ((ID, VERSION), ()), ((VERSION,), (ID,))]
)
def test_a_request_of_the_program_that_is_too_large_is_left_out(
    first: tuple[bytes, ...], last: tuple[bytes, ...]
) -> None:
    """Its id is not that of a request of the server."""
    parts = [*first, b'"method":"m"', b'"params":{' + LONG + b"}", *last]
    assert passed(b"{" + b",".join(parts) + b"}\n" + NEXT) == NEXT


def test_a_message_may_be_as_large_as_its_limits() -> None:
    message = b'{"result":[' + b'"",' * (MAX_VALUES - 2) + b'""]}\n'
    assert passed(message) == message
    message = b"x" * (MAX_RESPONSE - 1) + b"\n"
    assert passed(message) == message
