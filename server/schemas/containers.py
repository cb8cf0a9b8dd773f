"""The requests of `/v1/containers`.

Source: https://platform.openai.com/docs/api-reference/containers
"""

from typing import Annotated, Any, Literal

from typing_extensions import TypedDict

from server.schemas.base import Label, WireModel
from server.schemas.descriptions import Described, described

MemoryLimit = Literal["1g", "4g", "16g", "64g"]


@described
class ContainerExpiry(TypedDict):
    """When a container expires."""

    anchor: Literal["last_active_at"]
    minutes: int
    """Minutes without activity, 1 to 20."""


@described
class NetworkPolicy(TypedDict):
    """What a container may reach. Those of this server reach nothing."""

    type: Literal["disabled"]


class CreateContainer(WireModel):
    """The body of `POST /v1/containers`."""

    name: Label
    """A name, which need not be unique."""
    expires_after: Annotated[Any, Described(ContainerExpiry | None)] = None
    """When it expires: by default after 20 minutes without activity."""
    file_ids: Annotated[Any, Described(list[str] | None)] = None
    """Uploaded files to copy, at most 100."""
    memory_limit: Annotated[Any, Described(MemoryLimit | None)] = None
    """The memory of its processes, by default `1g`."""
    network_policy: Annotated[Any, Described(NetworkPolicy | None)] = None
    """Only `disabled`, the default."""


class AddContainerFile(WireModel):
    """The body of `POST /v1/containers/{id}/files` that copies an uploaded file."""

    file_id: Label
    """The uploaded file's id."""
