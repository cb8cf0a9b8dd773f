"""The fields of the form of `POST /v1/files`.

Source: https://platform.openai.com/docs/api-reference/files/create
"""

from collections.abc import Mapping
from typing import Literal, get_args

from server.schemas.fields import digits, invalid, missing

Purpose = Literal["assistants", "batch", "evals", "fine-tune", "user_data", "vision"]
PURPOSES: tuple[str, ...] = get_args(Purpose)

LEAST_LIFETIME = 3_600
MOST_LIFETIME = 2_592_000
"""Seconds; OpenAI has the same limits."""


def read_purpose(fields: Mapping[str, str]) -> str:
    """The purpose of a file. Raises InvalidRequest."""
    if "purpose" not in fields:
        raise missing("purpose")
    if fields["purpose"] not in PURPOSES:
        raise invalid("purpose", f"expected one of {', '.join(PURPOSES)}")
    return fields["purpose"]


def read_lifetime(fields: Mapping[str, str]) -> int | None:
    """The seconds after which a file expires; None if it does not. Raises InvalidRequest."""
    if "expires_after" in fields:
        # JSON in one part, for instance. The file would stay longer than its client believes.
        raise invalid("expires_after", "expected parts of the form for its fields")
    anchor = fields.get("expires_after[anchor]")
    seconds = fields.get("expires_after[seconds]")
    if anchor is None and seconds is None:
        return None
    if anchor != "created_at":
        raise invalid("expires_after.anchor", "expected 'created_at'")
    lifetime = digits(seconds or "", MOST_LIFETIME)
    if lifetime is None or lifetime < LEAST_LIFETIME:
        raise invalid(
            "expires_after.seconds",
            f"expected an integer from {LEAST_LIFETIME} to {MOST_LIFETIME}",
        )
    return lifetime
