"""Replaces secrets in texts that come from a server or that name one."""

import json
from collections.abc import Iterable

REDACTED = "[redacted]"
MIN_SECRET = 6
"""Characters. Shorter values are no secrets, and replacing them would spoil other texts."""


class Redactor:
    """Replaces the given secrets, longest first, so that no part of a longer one remains.

    A value of an `Authorization` header is a secret both with and without its scheme. Each secret
    is found in JSON text, too, where quotes and backslashes are escaped.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        parts = {part.strip() for secret in secrets for part in (secret, secret.partition(" ")[2])}
        long = {part for part in parts if len(part) >= MIN_SECRET}
        escaped = {
            json.dumps(part, ensure_ascii=only_ascii)[1:-1]
            for part in long
            for only_ascii in (False, True)
        }
        self._secrets = sorted(long | escaped, key=len, reverse=True)

    def clean(self, text: str) -> str:
        """The text without secrets."""
        for secret in self._secrets:
            text = text.replace(secret, REDACTED)
        return text

    def clean_json(self, value: object) -> object:
        """A JSON value, of which all strings are cleaned. Nested at most as deep as JSON parses."""
        if not self._secrets:
            return value
        if isinstance(value, str):
            return self.clean(value)
        if isinstance(value, list):
            return [self.clean_json(inner) for inner in value]
        if isinstance(value, dict):
            return {self.clean(name): self.clean_json(inner) for name, inner in value.items()}
        return value
