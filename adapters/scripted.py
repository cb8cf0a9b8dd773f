"""A backend that replays completions from a file, for tests of clients and for benchmarks.

Each line of the file is one JSON object:
`prompt_contains` (text or null: any prompt), `completion` (harmony text with control tokens),
`tokens_per_chunk` (default 1), `delay_ms` between chunks (default 0) and `logprobs` (default none).
The first line whose `prompt_contains` occurs in the decoded prompt is replayed. Sampling parameters
have no effect.

`logprobs` has the likeliest tokens at a place, by the text of the token that is sampled there:
`{" yes": {" yes": -0.5, " no": -1.0}}`. Each text is one token. Other tokens have probability one.
"""

import asyncio
import json
import math
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adapters.base import (
    CONTEXT_LENGTH,
    FEATURES,
    VOCAB_SIZE,
    BackendConfig,
    BackendInfo,
    FinishReason,
    GenerationChunk,
    GenerationRequest,
    TokenLogprobs,
)
from adapters.bounds import check_length
from adapters.errors import BackendFailed
from adapters.options import parse_options

_QUOTED_PROMPT_CHARACTERS = 200

Alternatives = tuple[tuple[int, float], ...]
"""Tokens and their logprobs, best first."""


@dataclass(frozen=True, slots=True)
class Options:
    """script: the path of the file."""

    script: str = ""


@dataclass(frozen=True, slots=True)
class ScriptLine:
    """One encoded completion.

    delay: the seconds between two chunks. logprobs: by the sampled token, the likeliest tokens at
    its place, best first.
    """

    prompt_contains: str | None
    token_ids: tuple[int, ...]
    tokens_per_chunk: int
    delay: float
    logprobs: Mapping[int, Alternatives]


class ScriptedBackend:
    """Implements `adapters.base.Backend`. The options are `Options`."""

    def __init__(self, config: BackendConfig) -> None:
        self._config = config
        self._lines: tuple[ScriptLine, ...] = ()
        self._state = "has not been started"

    @property
    def info(self) -> BackendInfo:
        return BackendInfo("scripted", None, CONTEXT_LENGTH, VOCAB_SIZE, FEATURES)

    async def start(self) -> None:
        """Read the script. Raises BackendFailed, with file and line, if it is malformed."""
        path = parse_options("scripted", Options, self._config.options).script
        if not path:
            raise BackendFailed("the scripted backend needs a script file")
        self._lines = tuple(read_script(Path(path), self._config.encode))
        self._state = ""

    async def stop(self) -> None:
        self._state = "was stopped"

    async def check(self) -> None:
        self._raise_unless_started()

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[GenerationChunk, None]:
        self._raise_unless_started()
        check_length(request, CONTEXT_LENGTH)
        line = self._match(self._config.decode(list(request.prompt_token_ids)))
        for position, chunk in enumerate(_chunks(line, request)):
            if position:
                await asyncio.sleep(line.delay)
                self._raise_unless_started()
            yield chunk

    def _raise_unless_started(self) -> None:
        if self._state:
            raise BackendFailed(f"the scripted backend {self._state}")

    def _match(self, prompt: str) -> ScriptLine:
        for line in self._lines:
            if line.prompt_contains is None or line.prompt_contains in prompt:
                return line
        raise BackendFailed(
            "no matching line in the script for the prompt that ends in "
            f"{prompt[-_QUOTED_PROMPT_CHARACTERS:]!r}"
        )


def read_script(path: Path, encode: Callable[[str], list[int]]) -> Iterator[ScriptLine]:
    """Read JSON lines; blank ones are skipped. Raises BackendFailed as `file:line: reason`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BackendFailed(f"{path}: {error}") from error
    # Not splitlines(): JSON strings may contain U+2028 and other separators unescaped.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
            json.dumps(value, ensure_ascii=False).encode()  # raises for lone surrogates
            yield _script_line(value, encode)
        except (ValueError, OverflowError, RecursionError) as error:
            raise BackendFailed(f"{path}:{number}: {error}") from error


_DEFAULTS: dict[str, Any] = {
    "prompt_contains": None,
    "tokens_per_chunk": 1,
    "delay_ms": 0,
    "logprobs": {},
}


def _script_line(value: Any, encode: Callable[[str], list[int]]) -> ScriptLine:
    if not isinstance(value, dict):
        raise ValueError("a line must be a JSON object")
    fields = _DEFAULTS | value
    unknown = sorted(fields.keys() - _FIELD_CHECKS.keys())
    if unknown:
        raise ValueError(f"unknown field {', '.join(unknown)}")
    for name, (accepts, expected) in _FIELD_CHECKS.items():
        if not accepts(fields.get(name)):
            raise ValueError(f"{name} must be {expected}")
    return ScriptLine(
        fields["prompt_contains"],
        tuple(encode(fields["completion"])),
        fields["tokens_per_chunk"],
        fields["delay_ms"] / 1000,
        dict(_read_logprobs(fields["logprobs"], encode)),
    )


def _read_logprobs(
    value: dict[str, Any], encode: Callable[[str], list[int]]
) -> Iterator[tuple[int, Alternatives]]:
    for text, listed in value.items():
        alternatives = [(_one_token(each, encode), float(listed[each])) for each in listed]
        if text not in listed:
            raise ValueError(f"logprobs of {text!r} must have the logprob of that token itself")
        best_first = sorted(alternatives, key=lambda pair: -pair[1])
        yield _one_token(text, encode), tuple(best_first)


def _one_token(text: str, encode: Callable[[str], list[int]]) -> int:
    ids = encode(text)
    if len(ids) != 1:
        raise ValueError(f"logprobs must name single tokens; {text!r} has {len(ids)}")
    return ids[0]


def _is_delay(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and value >= 0


def _is_logprob(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and value <= 0


def _is_logprobs(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(listed, dict) and all(map(_is_logprob, listed.values()))
        for listed in value.values()
    )


_FIELD_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "prompt_contains": (lambda value: value is None or isinstance(value, str), "a string or null"),
    "completion": (lambda value: isinstance(value, str), "a string"),
    "tokens_per_chunk": (lambda value: type(value) is int and value >= 1, "an integer >= 1"),
    "delay_ms": (_is_delay, "a number >= 0"),
    "logprobs": (_is_logprobs, "an object of objects with numbers <= 0"),
}


def _chunks(line: ScriptLine, request: GenerationRequest) -> Iterator[GenerationChunk]:
    token_ids, finish_reason = _truncate(line.token_ids, request)
    step = line.tokens_per_chunk
    for first in range(0, max(len(token_ids), 1), step):
        part = token_ids[first : first + step]
        last = first + step >= len(token_ids)
        yield GenerationChunk(
            part,
            _logprobs(line, part, request.logprobs),
            finish_reason if last else None,
            0 if first == 0 else None,
        )


def _truncate(
    token_ids: tuple[int, ...], request: GenerationRequest
) -> tuple[tuple[int, ...], FinishReason]:
    for position, token_id in enumerate(token_ids[: request.max_tokens]):
        if token_id in request.stop_token_ids:
            return token_ids[: position + 1], "stop"
    return token_ids[: request.max_tokens], "length"


def _logprobs(
    line: ScriptLine, token_ids: tuple[int, ...], count: int | None
) -> tuple[TokenLogprobs, ...] | None:
    """The logprobs of the script; without them a token is certain and has no alternative."""
    if count is None:
        return None
    return tuple(_token_logprobs(line, token_id, count) for token_id in token_ids)


def _token_logprobs(line: ScriptLine, token_id: int, count: int) -> TokenLogprobs:
    alternatives = line.logprobs.get(token_id, ((token_id, 0.0),))
    return TokenLogprobs(token_id, dict(alternatives)[token_id], alternatives[:count])
