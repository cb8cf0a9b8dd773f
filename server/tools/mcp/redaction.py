"""Replaces secrets in texts that come from a server or that name one."""

import json
from collections.abc import Iterable
from typing import Any

REDACTED = "[redacted]"
MIN_SECRET = 6
"""Characters. Shorter values are no secrets, and replacing them would spoil other texts."""

_TEXTS = ("title", "description", "examples", "$comment")


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

    def clean_schema(self, value: Any) -> Any:
        """A JSON schema, of which the texts and the examples are cleaned, but no name or value."""
        if not self._secrets:
            return value
        if isinstance(value, list):
            return [self.clean_schema(inner) for inner in value]
        if not isinstance(value, dict):
            return value
        return {name: self._clean_keyword(name, inner) for name, inner in value.items()}

    def _clean_keyword(self, name: str, value: Any) -> Any:
        # A property of one of these names has a schema, and so neither a string nor a list.
        if name in _TEXTS and isinstance(value, (str, list)):
            return self.clean_json(value)
        if name == "enum" and isinstance(value, list):
            return value
        return self.clean_schema(value)
