"""Ids of objects that the server creates: a prefix for the kind, and 24 random bytes."""

import secrets


def new_id(prefix: str) -> str:
    """`prefix` (`resp`, `msg`, …), an underscore and 48 hexadecimal digits."""
    return f"{prefix}_{secrets.token_hex(24)}"
