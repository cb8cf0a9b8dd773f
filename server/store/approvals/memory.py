"""Answered requests for approval in this process's memory."""

from cachetools import TTLCache

from server.store.approvals.base import KEEP_SECONDS, digest

CAPACITY = 200_000


class MemoryAnsweredRequests:
    """Remembers up to `capacity` answers, until the process ends. The oldest are dropped first."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._claimed: TTLCache[tuple[str, str], bool] = TTLCache(capacity, KEEP_SECONDS)

    async def answered(self, owner: str, request_id: str) -> bool:
        """Look it up."""
        return (owner, digest(request_id)) in self._claimed

    async def claim(self, owner: str, request_id: str) -> bool:
        """Remember it."""
        key = (owner, digest(request_id))
        if key in self._claimed:
            return False
        self._claimed[key] = True
        return True
