"""Five turns of a tool conversation with a real engine: the prefix cache covers earlier turns.

The model is a random one, so what it samples is no text's usual tokens: a prompt that was rendered
from text would not repeat them.
"""

from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from typing import Any

import httpx
import pytest
import pytest_asyncio

from benchmarks.constrained import Recording, serving, write_model
from benchmarks.drawn_requests import MODEL

pytestmark = pytest.mark.asyncio(loop_scope="module")

TURNS = 5
NAMES = ("moisture", "temperature")
CHOICES = (None, *NAMES, None, NAMES[0])
"""Of each turn: any tool, or the one that is named."""
INSTRUCTIONS = "You look after a greenhouse. Ask the sensors before you say anything. " * 15
PARAMETERS = {
    "type": "object",
    "properties": {
        "bed": {"type": "string", "enum": ["north", "south"]},
        "exact": {"type": "boolean"},
    },
    "required": ["bed", "exact"],
    "additionalProperties": False,
}
READING = "The sensor was read a minute ago, and says 21."

Item = dict[str, Any]


class Responses:
    """Sends the new items and `previous_response_id`.

    name: begins the conversation, so that the engine knows nothing of it from the others.
    """

    store = True

    def __init__(self, name: str) -> None:
        self.instructions = f"You are {name}. {INSTRUCTIONS}"
        self._new: list[Item] = [{"role": "user", "content": "How is the north bed?"}]
        self._previous: str | None = None

    def ask(self, turn: int) -> tuple[str, dict[str, Any]]:
        """The next request: its path and body."""
        named = CHOICES[turn]
        return "/v1/responses", {
            "model": MODEL,
            "input": self._new,
            "previous_response_id": self._previous,
            "instructions": self.instructions,
            "reasoning": {"max_tokens": 12},
            "tools": [
                {"type": "function", "name": name, "strict": True, "parameters": PARAMETERS}
                for name in NAMES
            ],
            "tool_choice": {"type": "function", "name": named} if named else "required",
            "include": [] if self.store else ["reasoning.encrypted_content"],
            "store": self.store,
            "temperature": 2,
            "seed": TURNS - 1 - turn,
        }

    def take(self, answer: dict[str, Any]) -> tuple[str, int]:
        """Run the answer's call; the answer's id, and how much of its prompt was cached."""
        assert answer["status"] == "completed", answer
        call = answer["output"][-1]
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": READING}
        self._continue(answer, result)
        return answer["id"], answer["usage"]["input_tokens_details"]["cached_tokens"]

    def _continue(self, answer: dict[str, Any], result: Item) -> None:
        self._previous = answer["id"]
        self._new = [result]


class Bare(Responses):
    """Sends all items, without the ids that the server gave them."""

    def _continue(self, answer: dict[str, Any], result: Item) -> None:
        output = [
            {name: value for name, value in item.items() if name not in ("id", "status")}
            for item in answer["output"]
        ]
        self._new = [*self._new, *output, result]


class Sealed(Bare):
    """As that, of a server that may keep nothing."""

    store = False


class Chat:
    """Sends all messages, without the reasoning."""

    def __init__(self, name: str) -> None:
        self._messages: list[Item] = [
            {"role": "system", "content": f"You are {name}. {INSTRUCTIONS}"},
            {"role": "user", "content": "How is the north bed?"},
        ]

    def ask(self, turn: int) -> tuple[str, dict[str, Any]]:
        named = CHOICES[turn]
        function = {"strict": True, "parameters": PARAMETERS}
        return "/v1/chat/completions", {
            "model": MODEL,
            "messages": self._messages,
            "reasoning": {"max_tokens": 12},
            "tools": [{"type": "function", "function": {"name": n, **function}} for n in NAMES],
            "tool_choice": {"type": "function", "function": {"name": named}}
            if named
            else "required",
            "temperature": 2,
            "seed": TURNS - 1 - turn,
        }

    def take(self, answer: dict[str, Any]) -> tuple[str, int]:
        [choice] = answer["choices"]
        output = choice["message"]
        [call] = output["tool_calls"]
        message = {name: output[name] for name in ("content", "tool_calls")}
        result = {"role": "tool", "tool_call_id": call["id"], "content": READING}
        self._messages = [*self._messages, {"role": "assistant", **message}, result]
        return answer["id"], answer["usage"]["prompt_tokens_details"]["cached_tokens"]


Turn = tuple[Sequence[int], Sequence[int], int]
"""A prompt, the tokens sampled after it, and how many of the prompt's tokens were cached."""

Served = tuple[httpx.AsyncClient, Recording]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    folder = tmp_path_factory.mktemp("model")
    write_model(folder)
    async with serving(folder) as served:
        yield served


async def converse(client: Responses | Chat, served: Served) -> list[Turn]:
    http, engine = served
    turns: list[Turn] = []
    for turn in range(TURNS):
        path, body = client.ask(turn)
        answer = await http.post(path, json=body)
        assert answer.status_code == 200, answer.text
        name, cached = client.take(answer.json())
        turns.append((engine.prompts[name], engine.sampled[name], cached))
    return turns


@pytest.mark.parametrize("client", [Responses, Bare, Chat])
async def test_sampled_output_is_replayed_from_the_prefix_cache(
    client: type[Responses | Chat], served: Served
) -> None:
    turns = await converse(client(client.__name__), served)
    for (prompt, sampled, _), (following, _, cached) in pairwise(turns):
        repeated = [*prompt, *sampled]
        assert list(following[: len(repeated)]) == repeated
        assert cached > 0.9 * len(repeated)


async def test_only_the_prompt_is_reused_for_dropped_reasoning(served: Served) -> None:
    turns = await converse(Sealed("Sealed"), served)
    for (prompt, _, _), (following, _, cached) in pairwise(turns):
        assert list(following[: len(prompt)]) == list(prompt)
        assert cached > 0.9 * len(prompt)
