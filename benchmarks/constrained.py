"""Random requests at temperature 2 through HTTP: is every sampled token legal, every value valid?

    python -m benchmarks.constrained [--requests 1000] [--streams 16] [--seed 0] [--model FOLDER]

The model is a random one that likes tokens which close something, so that its answers end. What it
samples is read again by a parser of its own here; the server's answer has to say the same.
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
from harmony.events import MessageEnded
from harmony.messages import Channel
from harmony.parser import Parser
from harmony.tokenizer import decode, encode, encode_with_control
from harmony.vocab import CALL, END, RETURN, START, VOCAB_SIZE
from server.app import create_app
from server.commands.backends import mask_tokenizer
from server.settings import Settings

CLOSING = ('"', "}", "]", '"}', '",', '","', "},", '"}}', "}}", "a")
CLOSING_LOGIT = 20.0
ENDING_LOGIT = 24.0


LIKED = {
    **{encode(text)[0]: CLOSING_LOGIT for text in CLOSING},
    **dict.fromkeys((END, RETURN, CALL), ENDING_LOGIT),
}


def write_model(folder: Path, liked: Mapping[int, float] = LIKED) -> None:
    """A tiny gpt-oss that has nothing in its head but how things end.

    liked: the logits of the tokens that it likes; all others have some around 0.

    One feature is the same in every token's embedding and survives all layers, which are small;
    the rows of the output layer weigh it by how much their tokens are liked.
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
        liking = model.lm_head.weight[:, 0]
        liking.zero_()
        # Normalised, the feature that outweighs the others is the root of their number.
        scale = config.hidden_size**0.5
        for token, logit in liked.items():
            liking[token] = logit / scale
        model.save_pretrained(folder)


class Recording(LocalBackend):
    """Remembers what was asked and what was sampled, by request id."""

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
    """A server for `model` on a free port, a client for it and its engine."""
    options = {"device": "cpu", "batch_tokens": "512"}
    backend = Recording(
        BackendConfig(str(model), options, encode_with_control, decode, mask_tokenizer)
    )
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
    """Counts over all requests. Raises AssertionError, or a check's error, for the first illegal
    answer, with the request."""
    source = random.Random(seed)
    drawn = iter([draw(source) for _ in range(requests)])
    counts: Counter[str] = Counter()

    async def work(client: httpx.AsyncClient, backend: Recording) -> None:
        for asked in drawn:
            answer = await client.post(asked.path, json=asked.body)
            try:
                assert answer.status_code == 200, answer.text
                counts.update(judge(asked, answer.json(), backend))
            except Exception as error:
                error.add_note(f"request: {asked.body}\nanswer: {answer.text}")
                raise

    async with serving(model) as (client, backend), asyncio.TaskGroup() as tasks:
        for _ in range(streams):
            tasks.create_task(work(client, backend))
    return counts


def judge(asked: Drawn, answer: dict[str, Any], backend: Recording) -> Counter[str]:
    """What one answer adds to the counts. Raises where it is not what was asked for."""
    prompt, sampled = backend.prompts.pop(answer["id"]), backend.sampled.pop(answer["id"])
    begun = len(prompt) - 1 - prompt[::-1].index(START)
    parser = Parser(asked.callable, prompt[begun:])
    events = [*parser.push_many(sampled), *parser.finish()]
    messages = [event for event in events if isinstance(event, MessageEnded)]
    ended = bool(sampled) and sampled[-1] in (RETURN, CALL)
    counts = Counter(requests=1, ended=ended, cut=not ended)
    for message in messages:
        assert message.repairs == (), message
        counts += _judge_message(asked, message)
    if ended and asked.must_call:
        assert messages[-1].header.recipient is not None
    _compare(asked, answer, messages, ended)
    return counts


def _judge_message(asked: Drawn, message: MessageEnded) -> Counter[str]:
    """A message that was cut off is held to its header and budget alone."""
    header, text = message.header, message.content
    if header.recipient is not None:
        check = asked.callable[header.recipient]
        if message.complete:
            check(text)
            return Counter({"calls": 1, "strict arguments": header.recipient in asked.strict})
    elif header.channel is Channel.FINAL:
        assert not asked.must_call
        if message.complete and asked.answer is not None:
            asked.answer(text)
            return Counter({"answers": 1, "structured answers": 1})
        return Counter(answers=message.complete)
    elif header.channel is Channel.ANALYSIS:
        assert message.body_tokens <= asked.budget
        return Counter(thoughts=1)
    return Counter()


def _compare(
    asked: Drawn, answer: dict[str, Any], messages: list[MessageEnded], ended: bool
) -> None:
    """The answer says what was sampled, and that it was cut where it was."""
    calls = [message for message in messages if message.header.recipient is not None]
    thought = sum(
        message.body_tokens
        for message in messages
        if message.header.channel is Channel.ANALYSIS and message.header.recipient is None
    )
    if asked.path == CHAT:
        [choice] = answer["choices"]
        told = [
            call.get("function", {}).get("arguments", call.get("custom", {}).get("input"))
            for call in choice["message"].get("tool_calls") or ()
        ]
        assert choice["finish_reason"] == (
            "length" if not ended else "tool_calls" if calls else "stop"
        )
        shown = answer["usage"]["completion_tokens_details"]
    else:
        items = [item for item in answer["output"] if item["type"].endswith("_call")]
        told = [item.get("arguments", item.get("input")) for item in items]
        assert answer["status"] == ("completed" if ended else "incomplete")
        whole = [item["status"] for item in answer["output"]]
        cut = not ended and messages and not messages[-1].complete
        assert whole.count("incomplete") == bool(cut and whole), (whole, messages)
        shown = answer["usage"]["output_tokens_details"]
    assert told == [call.content for call in calls]
    assert shown["reasoning_tokens"] == thought


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", type=Path, help="checkpoint; a random one by default")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="closing-"))
    try:
        if given.model is None:
            write_model(folder)
        begun = time.perf_counter()
        model = given.model or folder
        counts = await run(given.requests, given.streams, given.seed, model)
        seconds = time.perf_counter() - begun
    finally:
        shutil.rmtree(folder)
    print(f"all legal, after {seconds:.0f} s")
    for name, count in sorted(counts.items()):
        print(f"  {name:20} {count}")
    print(f"  ended by themselves  {counts['ended'] / counts['requests']:.1%}")


if __name__ == "__main__":
    asyncio.run(main())
