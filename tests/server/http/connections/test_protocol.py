"""Connections over real sockets: what they may send, for how long, and how many there may be."""

from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT

from server.http.connections.limits import Limits
from server.http.connections.protocol import Pending, Protocol
from tests.server.http.connections.served import (
    AGES,
    KEY,
    SHORT,
    SHORT_BODY,
    UPGRADE,
    head,
    hurry,
    serve,
    until_expired,
)
from tests.waiting import until

# The head


@pytest.mark.parametrize(
    "start", [b"GET /", b"GET / HTTP/1.1\r\nHost: x\r\nA: ", b"GET / HTTP/1.1\r\nHost: x\r\nA"]
)
async def test_a_head_without_end_is_a_431(start: bytes) -> None:
    async with serve(Limits()) as served:
        answer = await served.answer(start + b"a" * 70_000)
        assert answer.status == 431
        assert answer.error["code"] == "headers_too_large"


async def test_a_refusal_without_the_application_is_reported_by_its_code() -> None:
    codes: list[str | None] = []
    async with serve(Limits(), refused=codes.append) as served:
        await served.answer(b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 70_000)
        await served.answer(b"nonsense\r\n\r\n")
    assert codes == ["headers_too_large", "invalid_value"]


async def test_a_refusal_without_the_application_names_the_client_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "server.http.connections.refusal")
    async with serve(Limits()) as served:
        await served.answer(b"nonsense\r\n\r\n")
    assert caplog.messages[0].endswith(" from 127.0.0.1")


def has_read_more(connection: Protocol, size: int) -> bool:
    return connection._head_bytes > size


async def test_a_head_that_comes_in_parts_is_counted_as_a_whole() -> None:
    async with serve(Limits(head_bytes=1000)) as served:
        client = await served.connect(b"GET / HTTP/1.1\r\nHost: x\r\nA: ")
        connection = await served.connection()
        for size in (200, 400, 600):
            client.send(b"a" * 200)
            await until(partial(has_read_more, connection, size))
        client.send(b"a" * 600)
        assert (await client.rest()).status == 431


async def test_a_head_that_is_too_large_is_a_431_though_it_ends() -> None:
    async with serve(Limits(head_bytes=1000)) as served:
        requests = head(b"/unread") + head(b"/unread", b"A: " + b"a" * 1000)
        first, second = (await served.answer(requests)).data.split(b"0 bytes")
        assert b" 431 " in second or first.startswith(b"HTTP/1.1 431 ")


async def test_the_end_of_a_head_does_not_count_to_the_next_one() -> None:
    async with serve(Limits(head_bytes=1000)) as served:
        line = b"A: " + b"a" * 600
        client = await served.connect(head(b"/unread", line)[:-4])
        connection = await served.connection()
        await until(partial(has_read_more, connection, 600))
        client.send(b"\r\n\r\n" + head(b"/unread", line, b"Connection: close"))
        assert (await client.rest()).data.count(b"HTTP/1.1 200") == 2


async def test_the_rest_of_a_piece_is_parsed_too() -> None:
    async with serve(Limits(head_bytes=1000)) as served:
        body = b"b" * 200_000
        data = head(b"/echo", b"Content-Length: 200000") + body
        client = await served.connect(data * 2)
        for _ in range(2):
            assert b"200000 bytes" in (await client.read(b"0\r\n\r\n")).body


async def test_a_head_may_be_as_large_as_the_limit() -> None:
    async with serve(Limits()) as served:
        answer = await served.answer(head(b"/echo", b"A: " + b"a" * 65_000, b"Connection: close"))
        assert answer.status == 200


@pytest.mark.parametrize(("fields", "status"), [(10, 200), (11, 431)])
async def test_the_number_of_fields_is_bounded(fields: int, status: int) -> None:
    async with serve(Limits(head_fields=10)) as served:
        lines = [b"A: b"] * (fields - 2)
        answer = await served.answer(head(b"/unread", *lines, b"Connection: close"))
        assert answer.status == status


async def test_a_slow_head_is_a_408() -> None:
    async with serve(SHORT) as served:
        answer = await served.answer(b"GET / HTTP/1.1\r\nHost: x\r\n")
        assert answer.status == 408
        assert answer.error["code"] == "request_timeout"


async def test_a_slow_head_of_a_later_request_is_a_408() -> None:
    async with serve(Limits()) as served:
        client = await served.connect(head(b"/unread"))
        assert (await client.read(b"0\r\n\r\n")).status == 200
        client.send(b"G")
        hurry(await served.connection())
        assert (await client.rest()).status == 408


async def test_more_of_a_head_does_not_give_it_more_time() -> None:
    async with serve(Limits()) as served:
        client = await served.connect(b"GET / HTTP/1.1\r\nA: ")
        connection = await served.connection()
        await until(partial(has_read_more, connection, 0))
        deadline = connection._deadline
        size = connection._head_bytes
        client.send(b"a")
        await until(partial(has_read_more, connection, size))
        assert connection._deadline is deadline is not None


@pytest.mark.parametrize("data", [b"", b"\r\n" * 100])
async def test_who_asks_nothing_is_not_answered(data: bytes) -> None:
    async with serve(SHORT) as served:
        assert (await served.answer(data)).data == b""


async def test_empty_lines_do_not_keep_a_connection_open() -> None:
    async with serve(Limits()) as served:
        client = await served.connect(head(b"/unread"))
        await client.read(b"0\r\n\r\n")
        client.send(b"\r\n")
        connection = await served.connection()
        hurry(connection)
        deadline = connection._deadline
        client.send(b"\r\n")
        await client.drain()
        assert (await client.rest()).data == b""
        assert connection._deadline is None is not deadline


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /unread HTTP/1.1\r\nConnection: close\r\n\r\n", 400),
        (b"GET /unread HTTP/1.1\r\nHost: a\r\nHost: a\r\nConnection: close\r\n\r\n", 400),
        (b"GET /unread HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET /unread HTTP/1.0\r\n\r\n", 200),
        (b"GET /unread HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n", 200),
    ],
)
async def test_a_request_has_one_host(data: bytes, status: int) -> None:
    async with serve(Limits()) as served:
        answer = await served.answer(data)
        assert answer.status == status
        if status == 400:
            assert answer.error["type"] == "invalid_request_error"
            assert served.app.scopes == []


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET / HTTP/1.1\r\nHost: a\r\nA b\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"CONNECT /echo HTTP/1.1\r\nHost: a\r\n\r\n",
        b"CONNECT http://a/echo HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
)
async def test_what_is_no_request_is_a_400_in_openais_body(data: bytes) -> None:
    async with serve(Limits()) as served:
        answer = await served.answer(data)
        assert answer.status == 400
        assert answer.error["message"] == "Invalid HTTP request received."
        assert served.app.scopes == []


async def test_a_client_may_read_why_while_it_still_sends() -> None:
    async with serve(Limits()) as served:
        client = await served.connect(b"nonsense\r\n\r\n" + b"a" * 1_000_000)
        await client.drain()
        assert (await client.rest()).status == 400
        await client.close()
        await until(lambda: not served.state.connections)


async def test_a_refused_client_that_stays_is_closed() -> None:
    async with serve(Limits(closing_seconds=0.01)) as served:
        await served.connect(b"nonsense\r\n\r\n")
        await until(lambda: not served.state.connections)
        assert served.config.open_connections.open == 0  # type: ignore[attr-defined]


# The body


async def test_a_body_that_does_not_go_on_is_a_408() -> None:
    async with serve(SHORT_BODY) as served:
        answer = await served.answer(head(b"/echo", b"Content-Length: 2") + b"a")
        assert answer.status == 408
        assert answer.error["message"] == "Nothing of the body came for 0.05 s."
        await until(lambda: served.app.left == 1)


async def test_a_body_that_goes_on_has_all_the_time_it_needs() -> None:
    async with serve(Limits()) as served:
        client = await served.connect(head(b"/echo", b"Content-Length: 2"))
        connection = await served.connection(Pending.BODY)
        connection._progress += AGES
        hurry(connection)
        await until_expired(connection, 1)
        client.send(b"aa")
        assert b"2 bytes" in (await client.read(b"0\r\n\r\n")).body


async def test_a_body_that_nobody_reads_is_not_late() -> None:
    async with serve(SHORT_BODY) as served:
        client = await served.connect(head(b"/later", b"Content-Length: 3000000"))
        client.send(b"a" * 3_000_000)
        connection = await served.connection(Pending.BODY)
        await until(lambda: connection.flow.read_paused)
        await until_expired(connection)
        connection._limits = Limits()
        served.app.go_on.set()
        assert b"3000000 bytes" in (await client.read(b"0\r\n\r\n")).body


async def test_a_body_that_was_read_just_now_is_not_late() -> None:
    async with serve(Limits()) as served:
        length = b"Content-Length: %d" % (HIGH_WATER_LIMIT + 2)
        client = await served.connect(head(b"/later", length))
        connection = await served.connection(Pending.BODY)
        client.send(b"a" * HIGH_WATER_LIMIT)
        await until(lambda: len(connection.cycle.body) == HIGH_WATER_LIMIT)
        client.send(b"a")
        await until(lambda: connection.flow.read_paused)
        served.app.go_on.set()
        await until(lambda: not connection.flow.read_paused)
        connection._progress -= AGES
        connection._await(Pending.BODY, 0.0)
        await until_expired(connection, 1)
        assert not connection._was_paused
        client.send(b"a")
        assert b"%d bytes" % (HIGH_WATER_LIMIT + 2) in (await client.read(b"0\r\n\r\n")).body


async def test_a_client_that_is_not_asked_to_continue_is_not_late() -> None:
    async with serve(SHORT_BODY) as served:
        lines = (b"Content-Length: 2", b"Expect: 100-continue")
        client = await served.connect(head(b"/later", *lines))
        connection = await served.connection(Pending.BODY)
        await until_expired(connection)
        connection._limits = Limits()
        served.app.go_on.set()
        assert (await client.read(b"\r\n\r\n")).status == 100
        client.send(b"aa")
        assert b"2 bytes" in (await client.read(b"0\r\n\r\n")).body


@pytest.mark.parametrize("lines", [(), (b"Expect: 100-continue",)])
async def test_the_rest_of_an_answered_body_is_not_awaited_for_ever(
    lines: tuple[bytes, ...],
) -> None:
    limits = Limits(unread_seconds=AGES if lines else 0.01, closing_seconds=0.01)
    async with serve(limits) as served:
        answer = await served.answer(head(b"/unread", b"Content-Length: 9", *lines))
        assert b"0 bytes" in answer.body


async def test_a_connection_goes_on_behind_the_rest_of_an_answered_body() -> None:
    async with serve(Limits(idle_seconds=0)) as served:
        client = await served.connect(head(b"/unread", b"Content-Length: 9") + b"a")
        await client.read(b"0\r\n\r\n")
        client.send(b"a" * 7)
        client.send(b"a" + head(b"/unread"))
        assert (await client.read(b"0\r\n\r\n")).status == 200


CHUNKED = head(b"/echo", b"Transfer-Encoding: chunked")


@pytest.mark.parametrize("method", [b"GET", b"HEAD"])
async def test_http_1_0_gets_no_chunks(method: bytes) -> None:
    async with serve(Limits()) as served:
        served.app.go_on.set()
        answer = await served.answer(method + b" /stream HTTP/1.0\r\n\r\n")
    assert answer.status == 200
    assert "transfer-encoding" not in answer.headers
    assert answer.headers["connection"] == "close"
    assert answer.body == (b"started0 bytes" if method == b"GET" else b"")


@pytest.mark.parametrize(
    "endless",
    [
        pytest.param(b"0\r\nA: " + b"a" * 5000, id="a trailer"),
        pytest.param(b"0\r\n" + b"A: a\r\n" * 1000, id="trailers"),
        pytest.param(b"1;" + b"a" * 5000, id="a chunk's extension"),
    ],
)
async def test_what_is_beside_a_body_is_bounded(endless: bytes) -> None:
    async with serve(Limits(head_bytes=1000)) as served:
        client = await served.connect(CHUNKED)
        await served.connection(Pending.BODY)
        client.send(endless)
        answer = await client.rest()
        assert answer.status == 431
        assert answer.error["code"] == "headers_too_large"


async def test_the_head_does_not_count_as_beside_the_body() -> None:
    async with serve(Limits(head_bytes=1000)) as served:
        lines = (b"Transfer-Encoding: chunked", b"A: " + b"a" * 700)
        client = await served.connect(head(b"/echo", *lines))
        connection = await served.connection(Pending.BODY)
        client.send(b"0\r\nB: " + b"b" * 500)
        await until(lambda: connection._idle_bytes >= 500)
        client.send(b"\r\n\r\n")
        assert (await client.read(b"0\r\n\r\n")).status == 200


async def test_trailers_are_no_headers() -> None:
    async with serve(Limits()) as served:
        client = await served.connect(CHUNKED + b"1\r\na\r\n0\r\nAuthorization: b\r\n\r\n")
        assert b"1 bytes" in (await client.read(b"0\r\n\r\n")).body
        assert b"authorization" not in dict(served.app.scopes[0]["headers"])


# Answers


async def test_no_deadline_cuts_off_an_answer() -> None:
    async with serve(Limits(idle_seconds=0)) as served:
        client = await served.connect(head(b"/stream") + b"POST / HT")
        await client.read(b"started\r\n")
        connection = await served.connection()
        hurry(connection)
        await until_expired(connection)
        served.app.go_on.set()
        assert (await client.read(b"0\r\n\r\n")).data.endswith(b"0 bytes\r\n0\r\n\r\n")
        assert (await client.rest()).status == 408


async def test_no_deadline_cuts_off_an_answer_that_begins_before_the_bodys_end() -> None:
    async with serve(SHORT_BODY) as served:
        client = await served.connect(head(b"/stream", b"Content-Length: 2"))
        await client.read(b"started\r\n")
        connection = await served.connection(Pending.BODY)
        await until_expired(connection)
        connection._limits = Limits()
        served.app.go_on.set()
        client.send(b"aa")
        assert (await client.read(b"0\r\n\r\n")).data.endswith(b"2 bytes\r\n0\r\n\r\n")


@pytest.mark.parametrize("data", [b"nonsense\r\n\r\n", UPGRADE + KEY + b"\r\n"])
async def test_in_the_middle_of_an_answer_stands_no_other(data: bytes) -> None:
    async with serve(Limits()) as served:
        client = await served.connect(head(b"/stream"))
        await client.read(b"started\r\n")
        client.send(data)
        assert (await client.rest()).data == b""


# Requests on one connection


async def test_requests_that_wait_are_answered_in_order() -> None:
    async with serve(Limits()) as served:
        bodies = [head(b"/echo", b"Content-Length: %d" % i) + b"a" * i for i in range(4)]
        client = await served.connect(head(b"/later") + b"".join(bodies[1:]))
        await until(lambda: len(served.app.scopes) == 1)
        served.app.go_on.set()
        for i in range(4):
            assert b"%d bytes" % i in (await client.read(b"0\r\n\r\n")).body


async def test_a_body_of_a_request_that_waits_is_not_late() -> None:
    async with serve(SHORT_BODY) as served:
        waiting = head(b"/echo", b"Content-Length: 2")
        client = await served.connect(head(b"/later") + waiting)
        connection = await served.connection(Pending.BODY)
        await until_expired(connection)
        connection._limits = Limits()
        served.app.go_on.set()
        await client.read(b"0\r\n\r\n")
        client.send(b"aa")
        assert b"2 bytes" in (await client.read(b"0\r\n\r\n")).body


async def test_a_body_has_all_its_time_from_when_its_request_no_longer_waits() -> None:
    async with serve(Limits()) as served:
        waiting = head(b"/echo", b"Content-Length: 2")
        client = await served.connect(head(b"/later") + waiting)
        connection = await served.connection(Pending.BODY)
        connection._progress -= AGES
        served.app.go_on.set()
        await client.read(b"0\r\n\r\n")
        connection._await(Pending.BODY, 0.0)
        await until_expired(connection, 1)
        client.send(b"aa")
        assert b"2 bytes" in (await client.read(b"0\r\n\r\n")).body


async def test_few_requests_wait_on_a_connection() -> None:
    async with serve(Limits(pipelined=2)) as served:
        answer = await served.answer(head(b"/later") * 4)
        assert answer.status == 400
        assert answer.error["message"] == "Too many requests wait on this connection."
        client = await served.connect(head(b"/later") * 2 + head(b"/later", b"Connection: close"))
        await until(lambda: len(served.app.scopes) == 2)
        served.app.go_on.set()
        assert (await client.rest()).data.count(b"HTTP/1.1 200") == 3


async def test_every_request_of_a_connection_learns_that_it_is_lost() -> None:
    async with serve(Limits()) as served:
        client = await served.connect(head(b"/watch") + head(b"/echo") + head(b"/echo"))
        await until(lambda: len(served.app.scopes) == 1)
        await client.close()
        await until(lambda: served.app.left == 1)
        assert len(served.app.scopes) == 1


async def test_a_request_that_waits_does_not_hide_that_the_client_has_left() -> None:
    async with serve(Limits()) as served:
        client = await served.connect()
        connection = await served.connection()
        client.send(head(b"/watch"))
        await until(lambda: len(served.app.scopes) == 1)
        client.send(head(b"/echo"))
        await until(lambda: len(connection.pipeline) == 1)
        await client.close()
        await until(lambda: served.app.left == 1)


# How many


async def test_more_connections_are_a_503_until_one_closes() -> None:
    async with serve(Limits(connections=1, spare=0)) as served:
        first = await served.connect(head(b"/unread"))
        await first.read(b"0\r\n\r\n")
        for _ in range(3):  # those that are refused free no place
            answer = await served.answer(b"")
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            assert answer.error["code"] == "server_overloaded"
        await first.close()
        await until(lambda: not served.state.connections)
        assert (await served.answer(head(b"/unread", b"Connection: close"))).status == 200


async def test_an_address_has_its_share() -> None:
    async with serve(Limits(connections_per_address=1)) as served:
        client = await served.connect(head(b"/unread"))
        await client.read(b"0\r\n\r\n")
        assert (await served.answer(head(b"/unread"))).status == 503


@pytest.mark.parametrize("limits", [Limits(connections=1), Limits(connections_per_address=1)])
async def test_a_spare_connection_answers_one_health_check(limits: Limits) -> None:
    async with serve(limits) as served:
        client = await served.connect(head(b"/unread"))
        await client.read(b"0\r\n\r\n")
        for path in (b"/health", b"/ready", b"/metrics"):
            answer = await served.answer(head(path) * 2)
            assert (answer.status, answer.headers["connection"]) == (200, "close")
            assert answer.data.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("request_", [head(b"/unread"), UPGRADE + KEY + b"\r\n"])
async def test_a_spare_connection_answers_nothing_else(request_: bytes) -> None:
    async with serve(Limits(connections=1)) as served:
        client = await served.connect(head(b"/unread"))
        await client.read(b"0\r\n\r\n")
        answer = await served.answer(request_)
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert answer.error["code"] == "server_overloaded"
        assert len(served.app.scopes) == 1


@pytest.mark.parametrize("data", [b"", head(b"/metrics", b"Content-Length: 9")])
async def test_a_spare_connection_is_soon_given_back(data: bytes) -> None:
    async with serve(Limits(connections=1, spare=1, spare_seconds=0.05)) as served:
        client = await served.connect(head(b"/unread"))
        await client.read(b"0\r\n\r\n")
        idle = await served.connect(data)
        with suppress(ConnectionResetError):
            assert (await idle.rest()).data == b""
        assert (await served.answer(head(b"/health"))).status == 200
        client.send(head(b"/unread"))  # this one is not spare
        assert (await client.read(b"0\r\n\r\n")).status == 200


async def test_a_connection_may_be_idle_for_the_time_that_is_left_to_it() -> None:
    async with serve(Limits(idle_seconds=0, crowded_idle_seconds=3600)) as served:
        client = await served.connect(head(b"/unread"))
        assert (await client.rest()).status == 200
    async with serve(Limits(connections=1, idle_seconds=3600, crowded_idle_seconds=0)) as served:
        client = await served.connect(head(b"/unread"))
        assert (await client.rest()).status == 200


async def test_a_connection_may_be_idle_for_longer_than_a_head_may_take() -> None:
    async with serve(Limits()) as served:
        client = await served.connect()
        connection = await served.connection()
        client.send(head(b"/unread"))
        await client.read(b"0\r\n\r\n")
        assert connection._deadline is None


async def test_an_answer_may_take_longer_than_a_connection_may_be_idle() -> None:
    async with serve(Limits(idle_seconds=3600)) as served:
        client = await served.connect(head(b"/unread"))
        await client.read(b"0\r\n\r\n")
        connection: Any = next(iter(served.state.connections))
        await until(lambda: connection.timeout_keep_alive_task is not None)
        idle = connection.timeout_keep_alive_task
        client.send(head(b"/later"))
        await until(lambda: len(served.app.scopes) == 2)
        assert idle.cancelled()


@pytest.mark.parametrize(
    ("path", "status"),
    [(b"/unread", 503), (b"/health", 200), (b"/ready", 200), (b"/metrics", 200)],
)
async def test_more_requests_are_a_503_but_for_health_checks(path: bytes, status: int) -> None:
    async with serve(Limits(requests=1)) as served:
        await served.connect(head(b"/later"))
        await until(lambda: len(served.app.scopes) == 1)
        answer = await served.answer(head(path, b"Connection: close"))
        assert answer.status == status
        if status == 503:
            assert answer.headers["retry-after"] == "1"
            assert answer.error["code"] == "server_overloaded"
