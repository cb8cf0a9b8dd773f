"""Records what running llama.cpp servers answer: `python record_llama_cpp.py MASKING PLAIN`.

Both serve the demo checkpoint. MASKING is the URL of one that `make test-llama-cpp` has built, with
`--parallel 4 --ctx-size 8192`; PLAIN of one built without llguidance, with `--ctx-size 512`.
"""

import json
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

PROMPT = [200006, 1428, 200008, 24912, 200007, 200006, 173781]
EMOJI = [4103, 103, 95]
FIRST_BYTE, SECOND_BYTE = 127, 102  # of an e with an acute accent
BODY = {
    "prompt": PROMPT,
    "stream": True,
    "return_tokens": True,
    "response_fields": ["stop", "stop_type", "tokens_predicted", "timings"],
    "timings_per_token": True,
    "temperature": 0,
    "n_predict": 4,
}
EMOJIS = {
    "prompt": PROMPT + [200005, 17196, 200008] + EMOJI * 6,
    "logit_bias": [[token_id, 30] for token_id in EMOJI],
}
BAD = "%llguidance {}\nstart: nonsense("
# Drawn from those that the bias names, about as often each.
DRAWN: dict[str, Any] = {"temperature": 100, "samplers": ["temperature"], "n_predict": 2}


def exchanges(masking: httpx.Client, plain: httpx.Client) -> Iterator[tuple[str, httpx.Response]]:
    def ask(**fields: Any) -> httpx.Response:
        return masking.post("/completion", json=BODY | fields)

    probe = {"prompt": [0], "n_predict": 1, "return_tokens": True}
    probe["grammar"] = "%llguidance {}\nstart: <[1]>"
    yield "props", masking.get("/props")
    yield "masked", masking.post("/completion", json=probe)
    yield "unmasked", plain.post("/completion", json=probe)
    yield "length", ask(n_probs=3)
    yield "stop", ask(logit_bias=[[200002, 100]])
    yield "cached", ask(prompt=PROMPT + [24912] * 300, n_predict=1)
    yield "cached", ask(prompt=PROMPT + [24912] * 300, n_predict=1)
    yield "bad grammar", ask(grammar=BAD)
    yield "bad token", ask(prompt=[201088])
    yield "hidden", ask(**EMOJIS, n_probs=1, n_predict=6)
    yield "unfinished", ask(**EMOJIS, n_predict=5)
    letter = {"logit_bias": [[FIRST_BYTE, 10_000], [SECOND_BYTE, 10_000]]}
    yield "other ids", first(lambda seed: ask(**DRAWN, **letter, seed=seed), '"content":"é"')
    ended = {"logit_bias": [[FIRST_BYTE, 10_000], [200002, 10_000]]}
    yield (
        "lost end",
        first(
            lambda seed: ask(**DRAWN, **ended, seed=seed),
            '"stop_type":"eos","tokens_predicted":2',
        ),
    )
    yield "exceeded", exceeded(plain)


def first(ask: Callable[[int], httpx.Response], text: str) -> httpx.Response:
    """The first seed's answer that contains `text`."""
    return next(answer for seed in range(1000) if text in (answer := ask(seed)).text)


def exceeded(client: httpx.Client) -> httpx.Response:
    """Two at once are more than the context that all slots share."""
    bodies = [BODY | {"prompt": [one, *PROMPT, *[24912] * 300]} for one in (24912, 13225)]
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda body: client.post("/completion", json=body), bodies))
    return min(answers, key=lambda answer: len(answer.text))


def main(masking: str, plain: str) -> None:
    # They close a connection after a stream, without a word.
    headers = {"connection": "close"}
    with (
        httpx.Client(base_url=masking, timeout=600, headers=headers) as one,
        httpx.Client(base_url=plain, timeout=600, headers=headers) as other,
    ):
        recorded = {
            name: {
                "status": answer.status_code,
                "type": answer.headers.get("content-type", ""),
                "body": answer.text,
            }
            for name, answer in exchanges(one, other)
        }
    json.dump(recorded, sys.stdout, indent=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
