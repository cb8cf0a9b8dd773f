"""The page of a list that a query requests.

Source: https://platform.openai.com/docs/api-reference/chat/list
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Paging:
    """A page of a list.

    limit: the most entries, >= 1. after: the id of the last entry of the page before, None for
    the first page.
    """

    limit: int
    order: Literal["asc", "desc"]
    after: str | None
