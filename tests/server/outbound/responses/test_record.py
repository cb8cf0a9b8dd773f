"""The record of an answer, as clients see it."""

from dataclasses import replace

from server.encoding.json_pieces import EncodedArray
from server.generation.recording import Record, Sampling
from server.generation.turn_events import TurnFinished, Usage
from server.outbound.responses.record import record_fields

SAMPLING = Sampling(
    start=0,
    end=1,
    prompt_tokens=2,
    cached_tokens=None,
    max_tokens=9,
    grammar=None,
    started_ms=5,
    ended_ms=7,
    token_ms=(6,),
    logprobs=EncodedArray(),
)
FINISHED = TurnFinished("stop", Usage(2), prompt_token_ids=(1, 2), token_ids=(3,))


def test_a_record_has_the_tokens_and_each_sampling() -> None:
    assert record_fields(FINISHED, Record((SAMPLING,), ())) == {
        "recorded": True,
        "prompt_token_ids": (1, 2),
        "token_ids": (3,),
        "samplings": [
            {
                "start": 0,
                "end": 1,
                "prompt_tokens": 2,
                "cached_tokens": None,
                "max_tokens": 9,
                "grammar": None,
                "started_ms": 5,
                "ended_ms": 7,
                "token_ms": (6,),
                "logprobs": None,
            }
        ],
        "calls": [],
    }


def test_logprobs_of_a_record_stay_encoded() -> None:
    logprobs = EncodedArray()
    logprobs.add([{"logprob": -1.0, "top": []}])
    sampling = replace(SAMPLING, logprobs=logprobs)
    (shown,) = record_fields(FINISHED, Record((sampling,), ()))["samplings"]
    assert shown["logprobs"] is logprobs
