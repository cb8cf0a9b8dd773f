"""Results of checks, and the page that is made of them."""

import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal

Status = Literal["ok", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Result:
    """One check. bound: what had to hold. figures: what was measured. reason: why it failed."""

    name: str
    status: Status
    bound: str = ""
    figures: dict[str, Any] = field(default_factory=dict)
    reason: str = ""
    seconds: float = 0.0


class Skipped(Exception):
    """The check cannot run here; the message says what it lacks."""


@dataclass(frozen=True, slots=True)
class Check:
    """bound: in words. run: measures; returns figures and whether the bound holds."""

    name: str
    bound: str
    run: Callable[[], Awaitable[tuple[dict[str, Any], bool]]]


async def judge(check: Check, clock: Callable[[], float]) -> Result:
    """Run a check. Whatever it raises is its result: the others run all the same."""
    began = clock()
    try:
        figures, holds = await check.run()
    except Skipped as error:
        return Result(check.name, "skipped", check.bound, reason=str(error))
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = (str(error).strip().splitlines() or [""])[0]
        reason = f"{type(error).__name__}: {text} ({place.name}, line {place.lineno})"
        return Result(check.name, "failed", check.bound, {}, reason, clock() - began)
    status: Status = "ok" if holds else "failed"
    reason = "" if holds else "the bound does not hold"
    return Result(check.name, status, check.bound, figures, reason, clock() - began)


def page(machine: dict[str, Any], results: list[Result]) -> str:
    """One page of Markdown."""
    lines = ["# gpt-oss-server on a GPU", ""]
    lines += [f"- {name}: {value}" for name, value in machine.items()]
    counts = {status: sum(one.status == status for one in results) for status in ("ok", "failed")}
    skipped = len(results) - sum(counts.values())
    lines += ["", f"{counts['ok']} ok, {counts['failed']} failed, {skipped} skipped", ""]
    lines += ["| check | result | measured | bound | s |", "|---|---|---|---|---|"]
    for one in results:
        figures = ", ".join(f"{name} {_short(value)}" for name, value in one.figures.items())
        cells = (one.name, one.status, figures or one.reason, one.bound, f"{one.seconds:.0f}")
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
