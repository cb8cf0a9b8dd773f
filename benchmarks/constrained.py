"""Check that all tokens and values are valid for random requests at temperature 2 over HTTP.

    python -m benchmarks.constrained [--requests 1000] [--streams 16] [--seed 0] [--model FOLDER]

The model is random, with a preference for tokens that close something, so that its answers end. A
second parser reads the sampled tokens, and the server's answer has to agree with it.
"""

import argparse
import asyncio
import random
import shutil
import socket
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import torch
import uvicorn
from transformers import AutoModelForCausalLM, GptOssConfig

from adapters.base import BackendConfig, GenerationChunk, GenerationRequest
from adapters.local.backend import LocalBackend
from benchmarks.drawn_requests import CHAT, MODEL, Drawn, draw
from benchmarks.library.backends import config
from harmony.events import MessageEnded
from harmony.messages import Channel
from harmony.parser import Parser
from harmony.tokenizer import encode
from harmony.vocab import CALL, END, RETURN, START, VOCAB_SIZE
from server.app import create_app
from server.settings import Settings

CLOSING = ('"', "}", "]", '"}', '",', '","', "},", '"}}', "}}", "a")
CLOSING_LOGIT = 20.0
ENDING_LOGIT = 24.0

PREFERRED = {
    **{encode(text)[0]: CLOSING_LOGIT for text in CLOSING},
    **dict.fromkeys((END, RETURN, CALL), ENDING_LOGIT),
}


def write_model(folder: Path, preferred: Mapping[int, float] = PREFERRED) -> None:
    """Write a tiny gpt-oss model with a fixed preference for some tokens.

    One feature has the same value in every token's embedding and passes all layers, whose weights
    are small. The rows of the output layer weigh it by the preferred logit of their token.

    folder: where the checkpoint is written.
    preferred: the logits of the preferred tokens. The logits of all others are around 0.
    """
    config = GptOssConfig(
        vocab_size=VOCAB_SIZE,
        hidden_size=64,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        num_local_experts=2,
        num_experts_per_tok=1,
        tie_word_embeddings=False,
        pad_token_id=0,
    )
    build: Any = AutoModelForCausalLM.from_config
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        model = build(config, dtype=torch.bfloat16)
        model.model.embed_tokens.weight[:, 0] = 4.0
        feature_row = model.lm_head.weight[:, 0]
        feature_row.zero_()
        # After normalisation, a feature that dominates is the square root of the hidden size.
        scale = config.hidden_size**0.5
        for token, logit in preferred.items():
            feature_row[token] = logit / scale
        model.save_pretrained(folder)


class Recording(LocalBackend):
    """Records the prompt and the sampled tokens of each request, by its id."""

    def __init__(self, config: BackendConfig) -> None:
        super().__init__(config)
        self.prompts: dict[str, tuple[int, ...]] = {}
        self.sampled: dict[str, list[int]] = {}

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[GenerationChunk, None]:
        self.prompts[request.request_id] = request.prompt_token_ids
        sampled = self.sampled[request.request_id] = []
        async for chunk in super().generate(request):
            sampled += chunk.token_ids
            yield chunk


@asynccontextmanager
async def serving(model: Path) -> AsyncIterator[tuple[httpx.AsyncClient, Recording]]:
    """A server for `model` on a free port. Yields a client and the server's engine."""
    backend = Recording(config(model, {"device": "cpu", "batch_tokens": "512"}))
    await backend.start()
    app = create_app(
        Settings(model=str(model), served_model_name=(MODEL,), store="memory"), backend
    )
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, log_level="error"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        running = asyncio.create_task(server.serve(sockets=[listener]))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with httpx.AsyncClient(base_url=url, timeout=600) as client:
            yield client, backend
        server.should_exit = True
        await running
    await backend.stop()


async def run(requests: int, streams: int, seed: int, model: Path) -> Counter[str]:
    """Send random requests and check the answers. Returns counts over all of them.

    Raises AssertionError or a check's error for the first invalid answer. A note has the request.
    """
    source = random.Random(seed)
    drawn = iter([draw(source) for _ in range(requests)])
    counts: Counter[str] = Counter()

    async def work(client: httpx.AsyncClient, backend: Recording) -> None:
        for request in drawn:
            answer = await client.post(request.path, json=request.body)
            try:
                assert answer.status_code == 200, answer.text
                counts.update(check_answer(request, answer.json(), backend))
            except Exception as error:
                error.add_note(f"request: {request.body}\nanswer: {answer.text}")
                raise

    async with serving(model) as (client, backend), asyncio.TaskGroup() as tasks:
        for _ in range(streams):
            tasks.create_task(work(client, backend))
    return counts


def check_answer(request: Drawn, answer: dict[str, Any], backend: Recording) -> Counter[str]:
    """The counts of one answer. Raises AssertionError or a check's error if it is invalid."""
    prompt, sampled = backend.prompts.pop(answer["id"]), backend.sampled.pop(answer["id"])
    begun = len(prompt) - 1 - prompt[::-1].index(START)
    parser = Parser(request.callable, prompt[begun:])
    events = [*parser.push_many(sampled), *parser.finish()]
    messages = [event for event in events if isinstance(event, MessageEnded)]
    ended = bool(sampled) and sampled[-1] in (RETURN, CALL)
    counts = Counter(requests=1, ended=ended, cut=not ended)
    for message in messages:
        assert message.repairs == (), message
        counts += _check_message(request, message)
    if ended and request.must_call:
        assert messages[-1].header.recipient is not None
    _compare(request, answer, messages, ended)
    return counts


def _check_message(request: Drawn, message: MessageEnded) -> Counter[str]:
    """Check a message. Of one that was cut off, only the header and the budget are checked."""
    header, text = message.header, message.content
    if header.recipient is not None:
        check = request.callable[header.recipient]
        if message.complete:
            check(text)
            return Counter({"calls": 1, "strict arguments": header.recipient in request.strict})
    elif header.channel is Channel.FINAL:
        assert not request.must_call
        if message.complete and request.answer is not None:
            request.answer(text)
            return Counter({"answers": 1, "structured answers": 1})
        return Counter(answers=message.complete)
    elif header.channel is Channel.ANALYSIS:
        assert message.body_tokens <= request.budget
        return Counter(reasoning=1)
    return Counter()


def _compare(
    request: Drawn, answer: dict[str, Any], messages: list[MessageEnded], ended: bool
) -> None:
    """Check that the answer has the sampled calls, reasoning tokens and status."""
    calls = [message for message in messages if message.header.recipient is not None]
    reasoning_tokens = sum(
        message.body_tokens
        for message in messages
        if message.header.channel is Channel.ANALYSIS and message.header.recipient is None
    )
    if request.path == CHAT:
        [choice] = answer["choices"]
        shown_calls = [
            call.get("function", {}).get("arguments", call.get("custom", {}).get("input"))
            for call in choice["message"].get("tool_calls") or ()
        ]
        assert choice["finish_reason"] == (
            "length" if not ended else "tool_calls" if calls else "stop"
        )
        details = answer["usage"]["completion_tokens_details"]
    else:
        items = [item for item in answer["output"] if item["type"].endswith("_call")]
        shown_calls = [item.get("arguments", item.get("input")) for item in items]
        assert answer["status"] == ("completed" if ended else "incomplete")
        statuses = [item["status"] for item in answer["output"]]
        cut = not ended and messages and not messages[-1].complete
        assert statuses.count("incomplete") == bool(cut and statuses), (statuses, messages)
        details = answer["usage"]["output_tokens_details"]
    assert shown_calls == [call.content for call in calls]
    assert details["reasoning_tokens"] == reasoning_tokens


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", type=Path, help="checkpoint; a random one by default")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="closing-"))
    try:
        if options.model is None:
            write_model(folder)
        start = time.perf_counter()
        model = options.model or folder
        counts = await run(options.requests, options.streams, options.seed, model)
        seconds = time.perf_counter() - start
    finally:
        shutil.rmtree(folder)
    print(f"all valid, after {seconds:.0f} s")
    for name, count in sorted(counts.items()):
        print(f"  {name:20} {count}")
    print(f"  ended by themselves  {counts['ended'] / counts['requests']:.1%}")


if __name__ == "__main__":
    asyncio.run(main())
