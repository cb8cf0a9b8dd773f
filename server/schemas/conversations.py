"""The requests of `/v1/conversations`.

Source: https://platform.openai.com/docs/api-reference/conversations
"""

from typing import Annotated, Any

from server.schemas.base import Metadata, WireModel
from server.schemas.descriptions import Described
from server.schemas.items import InputItem


class CreateConversation(WireModel):
    """The body of `POST /v1/conversations`."""

    items: Annotated[Any, Described(list[InputItem] | None)] = None
    """Up to 20 items to begin with."""
    metadata: Metadata | None = None
    """Up to 16 key-value pairs."""


class UpdateConversation(WireModel):
    """The body of `POST /v1/conversations/{id}`."""

    metadata: Metadata | None
    """The labels in place of those there are."""


class CreateItems(WireModel):
    """The body of `POST /v1/conversations/{id}/items`."""

    items: Annotated[Any, Described(list[InputItem])]
    """1 to 20 items, which are added at the end."""
