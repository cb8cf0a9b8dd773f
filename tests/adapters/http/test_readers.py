import pytest

from adapters.base import GenerationChunk, GenerationRequest
from adapters.errors import BackendError, BackendFailed, EngineFault, NotReady, Overloaded, Rejected
from adapters.http.readers import EventReader
from adapters.http.wire import JSON

FIRST = {"ids": [5]}
LAST = {"ids": [6], "end": "stop"}


class Reader(EventReader):
    engine = "test"

    def _chunk(self, event: JSON) -> GenerationChunk:
        return GenerationChunk(tuple(event["ids"]), finish_reason=event.get("end"))


def reader() -> Reader:
    return Reader(GenerationRequest("r", (1,), 4, frozenset()))


def test_the_last_chunk_is_kept_until_the_end() -> None:
    events = reader()
    assert events.push(FIRST) == GenerationChunk((5,))
    assert events.push(LAST) is None
    assert events.finish() == GenerationChunk((6,), finish_reason="stop")


def test_a_stream_that_ends_before_the_last_chunk_was_cut_off() -> None:
    events = reader()
    events.push(FIRST)
    with pytest.raises(BackendFailed, match="the test engine's answer was cut off"):
        events.finish()


def test_an_event_after_the_last_chunk_is_a_fault() -> None:
    events = reader()
    events.push(LAST)
    with pytest.raises(EngineFault, match="the test engine sent more after the end"):
        events.push(FIRST)


@pytest.mark.parametrize(
    ("code", "kind"),
    [(400, Rejected), (429, Overloaded), (500, EngineFault), (503, NotReady), (None, EngineFault)],
)
def test_an_error_event_has_the_error_of_its_status(
    code: int | None, kind: type[BackendError]
) -> None:
    with pytest.raises(kind) as raised:
        reader().push({"error": {"message": "prompt", "code": code}})
    assert type(raised.value) is kind
    assert "prompt" not in str(raised.value)


def test_an_error_event_may_follow_the_last_chunk() -> None:
    events = reader()
    events.push(LAST)
    with pytest.raises(EngineFault, match="answered 500"):
        events.push({"error": "boom"})
