import orjson

from adapters.base import GenerationChunk, GenerationRequest, TokenLogprobs
from server.generation.recording import RecordedCall, Recorder


class Clock:
    """A clock that goes on by half a second at each look."""

    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        self.time += 0.5
        return self.time


def request(prompt: int, **fields: object) -> GenerationRequest:
    return GenerationRequest("r", tuple(range(prompt)), 50, frozenset(), **fields)  # type: ignore[arg-type]


def test_times_are_milliseconds_since_the_admission() -> None:
    recorder = Recorder(Clock())
    recorder.begin(request(3, grammar="g"))
    recorder.add(GenerationChunk((1, 2), cached_tokens=2), 2, last=False)
    recorder.add(GenerationChunk((3,)), 3, last=True)
    (sampling,) = recorder.record.samplings
    assert (sampling.started_ms, sampling.ended_ms) == (500, 1500)
    assert sampling.token_ms == (1000, 1000, 1500)
    assert (sampling.prompt_tokens, sampling.cached_tokens, sampling.max_tokens) == (3, 2, 50)
    assert sampling.grammar == "g"


def test_a_later_sampling_has_its_place_after_the_first_prompt() -> None:
    recorder = Recorder(Clock())
    recorder.begin(request(3))
    recorder.add(GenerationChunk((7, 8)), 2, last=True)
    recorder.begin(request(10))
    recorder.add(GenerationChunk((9,)), 1, last=True)
    places = [(each.start, each.end) for each in recorder.record.samplings]
    assert places == [(0, 2), (7, 8)]


def test_tokens_that_are_no_part_of_the_answer_are_left_out() -> None:
    recorder = Recorder(Clock())
    recorder.begin(request(1))
    logprobs = (TokenLogprobs(5, -1.0), TokenLogprobs(6, -2.0))
    recorder.add(GenerationChunk((5, 6), logprobs), 1, last=True)
    (sampling,) = recorder.record.samplings
    assert (sampling.end, sampling.token_ms) == (1, (1000,))
    assert orjson.loads(orjson.dumps(sampling.logprobs)) == [{"logprob": -1.0, "top": []}]
    assert sampling.cached_tokens is None


def test_logprobs_are_rounded_and_encoded_as_they_arrive() -> None:
    """All of them at the end would stall other answers: there may be millions."""
    recorder = Recorder(Clock())
    recorder.begin(request(1))
    first = TokenLogprobs(3, -0.123456789, ((3, -0.123456789), (4, -2.0)))
    recorder.add(GenerationChunk((3,), (first,)), 1, last=False)
    recorder.add(GenerationChunk((5,), (TokenLogprobs(5, -1.0),)), 2, last=True)
    (sampling,) = recorder.record.samplings
    assert sampling.logprobs.pieces == [
        b'{"logprob":-0.12346,"top":[[3,-0.12346],[4,-2.0]]},{"logprob":-1.0,"top":[]}'
    ]


def test_calls_are_recorded() -> None:
    recorder = Recorder(Clock())
    recorder.add_call("python", recorder.now())
    assert recorder.record.calls == (RecordedCall("python", 500, 1000),)
