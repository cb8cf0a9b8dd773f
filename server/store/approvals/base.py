"""The interface of the stores of answered requests for approval."""

import hashlib
from typing import Protocol

KEEP_SECONDS = 7 * 86_400
"""The least seconds for which an answer is remembered. Sealed requests for approval are valid for
as long."""


class AnsweredRequests(Protocol):
    """Which requests for approval have been answered. Both methods raise StoreUnavailable."""

    async def answered(self, owner: str, request_id: str) -> bool:
        """Whether the request was claimed."""
        ...

    async def claim(self, owner: str, request_id: str) -> bool:
        """Mark a request as answered. False if it was: of several callers, one gets True."""
        ...


def digest(request_id: str) -> str:
    """The form in which an id is stored: sealed ids are long."""
    return hashlib.sha256(request_id.encode()).hexdigest()
