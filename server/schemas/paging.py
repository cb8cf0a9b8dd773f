"""What a list's query asks for.

Source: https://platform.openai.com/docs/api-reference/chat/list
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Paging:
    """limit: 1 to 100. after: the id of the last entry that the client has."""

    limit: int
    order: Literal["asc", "desc"]
    after: str | None
