"""The operations of files and containers."""

from server.openapi import files
from server.openapi.operation import Operation, Query, paging
from server.schemas.containers import AddContainerFile, CreateContainer

_FILES, _CONTAINERS = "Files", "Containers"
_FILE = "/v1/files/{file_id}"
_CONTAINER = "/v1/containers/{container_id}"
_CONTAINER_FILES = f"{_CONTAINER}/files"
_CONTAINER_FILE = f"{_CONTAINER_FILES}/{{file_id}}"
_BINARY = "application/octet-stream"
_EXPIRED = "A container that has expired is a 404 with the code `container_expired`."

FILES = (
    Operation(
        "createFile",
        _FILES,
        "post",
        "/v1/files",
        "Uploads a file.",
        files.File,
        "An upload has no limit of `--max-body-bytes`, but those of files.",
        form=files.FileForm,
    ),
    Operation(
        "listFiles",
        _FILES,
        "get",
        "/v1/files",
        "Lists the files.",
        files.FilePage,
        query=(
            *paging("desc", limit=10_000, most=10_000),
            Query("purpose", "Only files with this purpose.", {"type": "string"}),
        ),
    ),
    Operation("retrieveFile", _FILES, "get", _FILE, "Returns a file.", files.File, errors=(404,)),
    Operation(
        "retrieveFileContent",
        _FILES,
        "get",
        f"{_FILE}/content",
        "Returns the content of a file, or one range of its bytes.",
        None,
        errors=(404, 416),
        media_type=_BINARY,
    ),
    Operation(
        "deleteFile",
        _FILES,
        "delete",
        _FILE,
        "Deletes a file. Copies in containers stay.",
        files.DeletedFile,
        errors=(404,),
    ),
)

CONTAINERS = (
    Operation(
        "createContainer",
        _CONTAINERS,
        "post",
        "/v1/containers",
        "Creates a container.",
        files.Container,
        body=CreateContainer,
        errors=(404, 429),
    ),
    Operation(
        "listContainers",
        _CONTAINERS,
        "get",
        "/v1/containers",
        "Lists the containers that run.",
        files.ContainerPage,
        query=(
            *paging("desc"),
            Query("name", "Only containers with this name.", {"type": "string"}),
        ),
    ),
    Operation(
        "retrieveContainer",
        _CONTAINERS,
        "get",
        _CONTAINER,
        "Returns a container.",
        files.Container,
        _EXPIRED,
        errors=(404,),
    ),
    Operation(
        "deleteContainer",
        _CONTAINERS,
        "delete",
        _CONTAINER,
        "Deletes a container and its files.",
        files.DeletedContainer,
        errors=(404,),
    ),
    Operation(
        "createContainerFile",
        _CONTAINERS,
        "post",
        _CONTAINER_FILES,
        "Uploads a file to a container, or copies an uploaded one.",
        files.ContainerFile,
        "A file with the same name is replaced.",
        body=AddContainerFile,
        form=files.ContainerFileForm,
        errors=(404,),
    ),
    Operation(
        "listContainerFiles",
        _CONTAINERS,
        "get",
        _CONTAINER_FILES,
        "Lists the files of a container.",
        files.ContainerFilePage,
        query=paging("desc"),
        errors=(404,),
    ),
    Operation(
        "retrieveContainerFile",
        _CONTAINERS,
        "get",
        _CONTAINER_FILE,
        "Returns a file of a container.",
        files.ContainerFile,
        errors=(404,),
    ),
    Operation(
        "retrieveContainerFileContent",
        _CONTAINERS,
        "get",
        f"{_CONTAINER_FILE}/content",
        "Returns the content of a file.",
        None,
        errors=(400, 404),
        media_type=_BINARY,
    ),
    Operation(
        "deleteContainerFile",
        _CONTAINERS,
        "delete",
        _CONTAINER_FILE,
        "Deletes a file of a container.",
        files.DeletedContainerFile,
        errors=(400, 404),
    ),
)
