"""The answers and the forms of files and containers."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from server.openapi.common import Page
from server.schemas.containers import ContainerExpiry, MemoryLimit, NetworkPolicy
from server.schemas.descriptions import described
from server.schemas.files import Purpose


@described
class FileExpiry(TypedDict):
    """When a file expires. In the form: `expires_after[anchor]` and `expires_after[seconds]`."""

    anchor: Literal["created_at"]
    seconds: int
    """3,600 to 2,592,000."""


@described
class FileForm(TypedDict):
    """An upload."""

    file: bytes
    """The content, with a file name."""
    purpose: Purpose
    """What the file is for. It changes nothing here."""
    expires_after: NotRequired[FileExpiry]


@described
class File(TypedDict):
    """An uploaded file."""

    id: str
    object: Literal["file"]
    bytes: int
    created_at: int
    """In Unix seconds."""
    expires_at: NotRequired[int]
    """In Unix seconds."""
    filename: str
    purpose: Purpose
    status: Literal["processed"]
    status_details: None


@described
class FilePage(Page):
    """A page of files."""

    data: list[File]


@described
class DeletedFile(TypedDict):
    """The file is deleted."""

    id: str
    object: Literal["file"]
    deleted: Literal[True]


@described
class Container(TypedDict):
    """A Python session with files."""

    id: str
    object: Literal["container"]
    created_at: int
    """In Unix seconds."""
    status: Literal["running"]
    expires_after: ContainerExpiry
    last_active_at: int
    """In Unix seconds."""
    memory_limit: MemoryLimit
    name: str
    network_policy: NetworkPolicy


@described
class ContainerPage(Page):
    """A page of containers."""

    data: list[Container]


@described
class DeletedContainer(TypedDict):
    """The container is deleted."""

    id: str
    object: Literal["container.deleted"]
    deleted: Literal[True]


@described
class ContainerFileForm(TypedDict):
    """An upload."""

    file: bytes
    """The content, with a file name."""


@described
class ContainerFile(TypedDict):
    """A file of a container."""

    id: str
    object: Literal["container.file"]
    bytes: int
    container_id: str
    created_at: int
    """In Unix seconds."""
    path: str
    """Such as `/mnt/data/plot.png`."""
    source: Literal["user", "assistant"]
    """Who wrote it: the API's user, or the model's code."""


@described
class ContainerFilePage(Page):
    """A page of files."""

    data: list[ContainerFile]


@described
class DeletedContainerFile(TypedDict):
    """The file is deleted."""

    id: str
    object: Literal["container.file.deleted"]
    deleted: Literal[True]
