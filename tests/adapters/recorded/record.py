"""Records what a running vLLM answers: `python record.py URL > vllm.json`.

The server: `vllm serve CHECKPOINT --served-model-name demo --max-model-len 4096
--enable-scale-out --enable-prompt-tokens-details`, serving the default checkpoint.
"""

import json
import sys
from typing import Any

import httpx

PROMPT = [200006, 1428, 200008, 24912, 200007, 200006, 173781]
GREEDY = {"max_tokens": 4, "temperature": 0, "ignore_eos": True, "detokenize": False}
HEADER = "start: <[200005]> <[17196]> <[200008]> <[200002]>"
SAMPLINGS: dict[str, dict[str, Any]] = {
    "length": GREEDY,
    "stop": GREEDY | {"stop_token_ids": [200002], "logit_bias": {"200002": 100}},
    "grammar": GREEDY | {"stop_token_ids": [200002], "structured_outputs": {"grammar": HEADER}},
    "logprobs": GREEDY | {"logprobs": 3},
    "bad grammar": GREEDY | {"structured_outputs": {"grammar": "start: nonsense("}},
    "too many logprobs": GREEDY | {"logprobs": 40},
    "bad type": GREEDY | {"max_tokens": "many"},
    "cached": GREEDY,
}
LONG = {"cached": PROMPT + [24912] * 300}


def main(url: str) -> None:
    with httpx.Client(base_url=url, timeout=600) as client:
        exchanges = [
            recorded("models", client.get("/v1/models")),
            recorded("health", client.get("/health")),
            recorded("empty", client.post("/inference/v1/generate", json={})),
        ]
        for name, sampling in SAMPLINGS.items():
            body = {
                "request_id": name,
                "model": "demo",
                "token_ids": LONG.get(name, PROMPT),
                "sampling_params": sampling,
                "reasoning_ended": True,
                "stream": True,
                "stream_options": {"include_usage": True},
            }
            for _ in range(2 if name in LONG else 1):
                answer = client.post("/inference/v1/generate", json=body)
            exchanges.append(recorded(name, answer))
    json.dump({exchange.pop("name"): exchange for exchange in exchanges}, sys.stdout, indent=1)


def recorded(name: str, answer: httpx.Response) -> dict[str, Any]:
    return {
        "name": name,
        "status": answer.status_code,
        "type": answer.headers.get("content-type", ""),
        "body": answer.text,
    }


if __name__ == "__main__":
    main(sys.argv[1])
