"""The same skills asked of a running server, over `/v1/responses`, at temperature 0."""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

import httpx

from demo.evaluate.play import LONGEST_TURN, SEED, cases
from demo.evaluate.table import ARGUMENTS, TOOL, Row, row
from demo.scoring import expected, same_json
from demo.skills.case import Case
from harmony.messages import Channel, DeveloperContent, Message, Role, SystemContent

_SKILLS = ("call", "everyday", "structured", "chat")
NAMES = (*_SKILLS, "python", "browser")
"""What can be measured over HTTP."""

_PATIENCE = 300.0
_SUMS = (
    ("What is {a} * {b}?", "*"),
    ("{a} times {b}", "*"),
    ("What is {a} + {b}?", "+"),
    ("How much is {a} minus {b}?", "-"),
    ("Compute {a} plus {b}.", "+"),
)
_QUESTIONS = (
    ("How do I use PostgreSQL as the store?", "postgres"),
    ("How do I serve several models?", "model"),
    ("Which option sets the port?", "port"),
    ("How do I turn the Python tool on?", "python"),
    ("How are MCP servers configured?", "mcp"),
    ("What does the demo checkpoint do?", "demo"),
    ("How do I set an API key?", "key"),
    ("How do I run the server in Docker?", "docker"),
    ("Which reasoning efforts are there?", "effort"),
    ("How long are responses stored?", "stor"),
)
"""Questions about this project's documentation, each with a part of a word that an answer has."""


def connected(url: str) -> httpx.Client:
    """A client for the server at `url`, with or without `/v1`."""
    return httpx.Client(base_url=url.rstrip("/").removesuffix("/v1"), timeout=_PATIENCE)


def measure(
    client: httpx.Client, count: int, only: Sequence[str], *, grammar: bool
) -> Iterator[Row]:
    """The lines for the server of `client`; with `grammar` schemas are strict."""
    for skill in _SKILLS:
        if skill in only:
            yield from _skill(client, skill, count, grammar=grammar)
    if "python" in only:
        yield row("python: the right number", [_sum(client, i) for i in range(count)])
    if "browser" in only:
        asked = [_cites(client, question, about) for question, about in _QUESTIONS[:count]]
        yield row("browser: a cited answer", asked)


def _skill(client: httpx.Client, skill: str, count: int, *, grammar: bool) -> Iterator[Row]:
    named: list[bool] = []
    right: list[bool] = []
    for case in cases(skill, count):
        target = expected(case.turns[0])
        response = ask(client, body(case, grammar=grammar), grammar=grammar)
        name, text = called(response)
        wanted = target.recipient and target.recipient.removeprefix("functions.")
        named.append(name == wanted)
        if wanted is not None or skill == "structured":
            right.append(name == wanted and same_json(text, target.arguments or target.answer))
        else:
            right.append(name is None and text == target.answer)
    if skill == "call":
        yield row(TOOL, named)
        yield row(ARGUMENTS, right)
    else:
        yield row(skill, right)


def ask(client: httpx.Client, fields: Mapping[str, Any], *, grammar: bool) -> dict[str, Any]:
    """The response to a request. A schema that cannot be strict is sent again as it may be.

    What the server refuses has no output, and is told on standard error.
    """
    fields = {"model": _model(client), **fields}
    answer = client.post("/v1/responses", json=fields)
    if answer.status_code == 400 and grammar:
        answer = client.post("/v1/responses", json=_without_strict(fields))
    if answer.is_error:
        print(f"{answer.status_code}: {answer.text}", file=sys.stderr, flush=True)
        return {"output": []}
    found: dict[str, Any] = answer.json()
    return found


def _model(client: httpx.Client) -> str:
    listed: list[dict[str, str]] = client.get("/v1/models").raise_for_status().json()["data"]
    return listed[0]["id"]


def _without_strict(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _without_strict(v) for k, v in value.items() if (k, v) != ("strict", True)}
    return [_without_strict(v) for v in value] if isinstance(value, list) else value


def body(case: Case, *, grammar: bool) -> dict[str, Any]:
    """The request for the first turn of a case."""
    fields: dict[str, Any] = _greedy()
    items: list[dict[str, Any]] = []
    for message in case.history:
        content = message.content
        if isinstance(content, SystemContent):
            if content.effort is not None:
                fields["reasoning"] = {"effort": str(content.effort)}
        elif isinstance(content, DeveloperContent):
            fields |= _developer(content, grammar=grammar)
        elif message.channel is not Channel.ANALYSIS:
            items.append(_item(message, content, len(items)))
    return fields | {"input": items}


def _greedy() -> dict[str, Any]:
    return {"temperature": 0, "max_output_tokens": LONGEST_TURN, "store": False}


def _item(message: Message, content: str, position: int) -> dict[str, Any]:
    if message.author.role is Role.TOOL:
        call_id = f"call_{position - 1}"
        return {"type": "function_call_output", "call_id": call_id, "output": content}
    if message.recipient is not None:
        return {
            "type": "function_call",
            "call_id": f"call_{position}",
            "name": message.recipient.removeprefix("functions."),
            "arguments": content,
        }
    return {"role": str(message.author.role), "content": content}


def _developer(content: DeveloperContent, *, grammar: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if content.instructions:
        fields["instructions"] = content.instructions
    if content.tools:
        fields["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                "strict": grammar,
            }
            for namespace in content.tools
            for tool in namespace.tools
        ]
    for form in content.response_formats:
        named = {"name": form.name, "schema": form.schema, "strict": grammar}
        described = {"description": form.description} if form.description else {}
        fields["text"] = {"format": {"type": "json_schema", **named, **described}}
    return fields


def called(response: Mapping[str, Any]) -> tuple[str | None, str]:
    """The name and the arguments of the first call in a response; else None and its text."""
    for item in response["output"]:
        if item["type"] == "function_call":
            return item["name"], item["arguments"]
    return None, text_of(response)


def _parts(response: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        part
        for item in response["output"]
        if item["type"] == "message"
        for part in item["content"]
        if part["type"] == "output_text"
    ]


def text_of(response: Mapping[str, Any]) -> str:
    """The text of a response's messages."""
    return "".join(part["text"] for part in _parts(response))


def _sum(client: httpx.Client, index: int) -> bool:
    rng = Random(f"{SEED}/{index}")
    a, b = rng.randint(100, 99_999), rng.randint(100, 9_999)
    form, sign = _SUMS[index % len(_SUMS)]
    right = {"*": a * b, "+": a + b, "-": a - b}[sign]
    tools = [{"type": "code_interpreter", "container": {"type": "auto"}}]
    answer = _hosted(client, form.format(a=a, b=b), tools)
    numbers = re.findall(r"-?\d+", re.sub(r"(?<=\d),(?=\d{3})", "", text_of(answer)))
    return str(right) in numbers


def _cites(client: httpx.Client, question: str, about: str) -> bool:
    """Whether a cited part of the answer is about what was asked."""
    answer = _hosted(client, question, [{"type": "web_search"}])
    return any(
        note["type"] == "url_citation" and about in part["text"].lower()
        for part in _parts(answer)
        for note in part["annotations"]
    )


def _hosted(
    client: httpx.Client, question: str, tools: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    fields = _greedy() | {"input": question, "tools": list(tools), "max_output_tokens": 2000}
    return ask(client, fields, grammar=False)
