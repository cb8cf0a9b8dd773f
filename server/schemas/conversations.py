"""The requests of `/v1/conversations`.

Source: https://platform.openai.com/docs/api-reference/conversations
"""

from typing import Any

from server.schemas.base import Metadata, WireModel


class CreateConversation(WireModel):
    """The body of `POST /v1/conversations`; `server.inbound` reads `items`."""

    items: Any = None
    metadata: Metadata | None = None


class UpdateConversation(WireModel):
    """The body of `POST /v1/conversations/{id}`."""

    metadata: Metadata | None = None


class CreateItems(WireModel):
    """The body of `POST /v1/conversations/{id}/items`."""

    items: Any = None
