"""Results of checks, and the page that is made of them."""

import logging
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Status = Literal["ok", "failed", "skipped"]
Measured = tuple[dict[str, Any], bool]
"""Figures, and whether the bound holds."""


@dataclass(frozen=True, slots=True)
class Result:
    """One check. bound: what had to hold. figures: what was measured. reason: why it failed.

    log: what the server logged meanwhile, such as the attention that it uses.
    """

    name: str
    status: Status
    bound: str = ""
    figures: dict[str, Any] = field(default_factory=dict)
    reason: str = ""
    seconds: float = 0.0
    log: tuple[str, ...] = ()


BROKEN = "the bound does not hold"
NO_MODEL = "no model was named: MODEL=openai/gpt-oss-20b make test-gpu"


class Skipped(Exception):
    """The check cannot run here; the message says what it lacks."""


@dataclass(frozen=True, slots=True)
class Check:
    """bound: in words. run: measures."""

    name: str
    bound: str
    run: Callable[[], Awaitable[Measured]]


async def judge(check: Check, clock: Callable[[], float]) -> Result:
    """Run a check. Whatever it raises is its result: the others run all the same."""
    began = clock()
    with logged() as lines:
        result = await _outcome(check)
    return replace(result, seconds=clock() - began, log=tuple(dict.fromkeys(lines)))


async def _outcome(check: Check) -> Result:
    try:
        figures, holds = await check.run()
    except Skipped as error:
        return Result(check.name, "skipped", check.bound, reason=str(error))
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = (str(error).strip().splitlines() or [""])[0]
        reason = f"{type(error).__name__}: {text} ({place.name}, line {place.lineno})"
        return Result(check.name, "failed", check.bound, {}, reason)
    status: Status = "ok" if holds else "failed"
    return Result(check.name, status, check.bound, figures, "" if holds else BROKEN)


@contextmanager
def logged() -> Iterator[list[str]]:
    """The first lines of what the adapters log: level and message."""
    lines: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            first = (record.getMessage().strip().splitlines() or [""])[0]
            lines.append(f"{record.levelname}: {first}")

    handler, logger = Handler(logging.INFO), logging.getLogger("adapters")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def page(machine: dict[str, Any], results: list[Result]) -> str:
    """One page of Markdown: the machine, a table of the checks, and what the server logged."""
    lines = ["# gpt-oss-server on a GPU", ""]
    lines += [f"- {name}: {value}" for name, value in machine.items()]
    counts = {status: sum(one.status == status for one in results) for status in ("ok", "failed")}
    skipped = len(results) - sum(counts.values())
    lines += ["", f"{counts['ok']} ok, {counts['failed']} failed, {skipped} skipped", ""]
    lines += ["| check | result | measured | bound | s |", "|---|---|---|---|---|"]
    for one in results:
        figures = ", ".join(f"{name} {short(value)}" for name, value in one.figures.items())
        measured = "; ".join(part for part in (figures, one.reason) if part)
        cells = (one.name, one.status, measured, one.bound, f"{one.seconds:.0f}")
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    logged: dict[str, str] = {}
    for one in results:
        for line in one.log:
            logged.setdefault(line, one.name)  # the first check that logged it
    if logged:
        lines += ["", "## Logged", "", *(f"- {name}: {line}" for line, name in logged.items())]
    return "\n".join(lines) + "\n"


def short(value: Any) -> str:
    """A figure in three digits."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)
