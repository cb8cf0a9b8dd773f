"""`/v1/containers`: Python sessions with files.

Source: https://platform.openai.com/docs/api-reference/containers
"""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server.context import context_of
from server.http.answers.answer import json_response
from server.http.answers.content import stream_response
from server.http.authentication import owner_of
from server.http.bodies import json_body
from server.http.bodies.multipart import is_multipart, read_form
from server.inbound.queries import read_filter, read_paging
from server.outbound.listing import list_object, paginate
from server.schemas.base import note_unknown
from server.schemas.containers import AddContainerFile, CreateContainer
from server.tools.python.container_options import read_options
from server.tools.python.containers import ContainerService

router = APIRouter(prefix="/v1/containers")


@router.post("")
async def create_container(request: Request) -> Response:
    """Create a container, with copies of uploaded files."""
    owner = owner_of(request)
    body = await json_body.parse(request, CreateContainer)
    note_unknown(body, "Containers")
    containers = _containers(request)
    options = read_options(body.model_dump(), containers.limits.memory, param="")
    return json_response((await containers.create(owner, options, param="")).to_api())


@router.get("")
async def list_containers(request: Request) -> Response:
    """The API key's containers that run, the newest first unless `order` is `asc`."""
    query = read_paging(request.query_params, order="desc")
    name = read_filter(request.query_params, "name")
    page = await _containers(request).list(owner_of(request), query, name=name)
    data = [container.to_api() for container in page.entries]
    return json_response(list_object(data, has_more=page.has_more))


@router.get("/{container_id}")
async def retrieve_container(request: Request, container_id: str) -> Response:
    """A container. The status is 404 for one that has expired or that another API key owns."""
    container = await _containers(request).get(owner_of(request), container_id)
    return json_response(container.to_api())


@router.delete("/{container_id}")
async def delete_container(request: Request, container_id: str) -> Response:
    """Delete a container and its files."""
    await _containers(request).delete(owner_of(request), container_id)
    return json_response({"id": container_id, "object": "container.deleted", "deleted": True})


@router.post("/{container_id}/files")
async def create_container_file(request: Request, container_id: str) -> Response:
    """Add a file: an upload (multipart/form-data), or a copy of an uploaded one (JSON)."""
    owner = owner_of(request)
    containers = _containers(request)
    if not is_multipart(request.headers):
        body = await json_body.parse(request, AddContainerFile)
        copied = await containers.copy_file(owner, container_id, body.file_id)
        return json_response(copied.to_api())
    # Before the body is read, which may take longer than a container may be idle.
    async with (
        containers.used(owner, container_id),
        context_of(request).files.temporary(owner) as staging,
    ):
        form = await read_form(request, staging)
        file = await containers.add_file(owner, container_id, form.filename, staging.read())
    return json_response(file.to_api())


@router.get("/{container_id}/files")
async def list_container_files(request: Request, container_id: str) -> Response:
    """The files of a container, the newest first unless `order` is `asc`."""
    query = read_paging(request.query_params, order="desc")
    files = await _containers(request).files(owner_of(request), container_id)
    return json_response(paginate([file.to_api() for file in files], query))


@router.get("/{container_id}/files/{file_id}")
async def retrieve_container_file(request: Request, container_id: str, file_id: str) -> Response:
    """A file of a container."""
    owner = owner_of(request)
    return json_response((await _containers(request).file(owner, container_id, file_id)).to_api())


@router.get("/{container_id}/files/{file_id}/content")
async def retrieve_container_file_content(
    request: Request, container_id: str, file_id: str
) -> Response:
    """The content of a file of a container."""
    owner = owner_of(request)
    containers = _containers(request)
    file = await containers.file(owner, container_id, file_id)
    content = containers.content(owner, container_id, file_id)
    return await stream_response(content, file.path.rpartition("/")[2])


@router.delete("/{container_id}/files/{file_id}")
async def delete_container_file(request: Request, container_id: str, file_id: str) -> Response:
    """Delete a file of a container."""
    await _containers(request).delete_file(owner_of(request), container_id, file_id)
    return json_response({"id": file_id, "object": "container.file.deleted", "deleted": True})


def _containers(request: Request) -> ContainerService:
    return context_of(request).containers
