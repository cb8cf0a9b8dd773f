"""Runs the checks, and prints them for people or for programs."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from server.commands.doctor.check import Check, Status
from server.commands.doctor.examine import examine
from server.settings import Settings

_ORDER: dict[Status, int] = {"ok": 0, "warning": 1, "failed": 2}
_SIGNS: dict[Status, str] = {"ok": "ok     ", "warning": "warning", "failed": "FAILED "}


def doctor(settings: Settings, *, as_json: bool) -> bool:
    """Check, print what was found, and whether `serve` would run."""
    checks = list(examine(settings))
    print(report_json(checks) if as_json else report(checks))
    return worst(checks) != "failed"


def worst(checks: Sequence[Check]) -> Status:
    """The status of all the checks together."""
    return max((check.status for check in checks), key=_ORDER.__getitem__)


def report(checks: Sequence[Check]) -> str:
    """A line for each check, and one for what to do about it."""
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        lines.append(f"{_SIGNS[check.status]}  {check.name:{width}}  {check.fact}")
        if check.to_do:
            lines.append(f"{'':9}{'':{width}}  -> {check.to_do}")
    failed = [check.name for check in checks if check.status == "failed"]
    lines.append(f"serve would fail: {', '.join(failed)}" if failed else "serve would run")
    return "\n".join(lines)


def report_json(checks: Sequence[Check]) -> str:
    """The same for programs."""
    listed = [asdict(each) | {"advice": each.to_do} for each in checks]
    return json.dumps({"status": worst(checks), "checks": listed})
