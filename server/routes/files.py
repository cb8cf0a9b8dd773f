"""`/v1/files`: uploaded files.

Source: https://platform.openai.com/docs/api-reference/files
"""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server import threads
from server.context import context_of
from server.http.answers.answer import json_response
from server.http.answers.content import file_response
from server.http.authentication import owner_of
from server.http.bodies.multipart import read_form
from server.inbound.queries import read_filter, read_paging
from server.outbound.listing import list_object
from server.schemas.files import read_lifetime, read_purpose
from server.store.files.library import FileInfo, FileLibrary

router = APIRouter(prefix="/v1/files")

MOST_LISTED = 10_000
"""The largest page, and the default; OpenAI has the same."""
MOST_NAME = 512
"""Characters of a file's name. The rest is dropped."""

_MOST_SMALL = 500  # files that are shown in a millisecond


@router.post("")
async def create_file(request: Request) -> Response:
    """Upload a file. Its content goes to the disk as it arrives."""
    owner = owner_of(request)
    files = _files(request)
    async with files.staging(owner) as staging:
        form = await read_form(request, staging)
        purpose, lifetime = read_purpose(form.fields), read_lifetime(form.fields)
        filename = form.filename.replace("\0", "")[:MOST_NAME]
        file = await files.add(staging, FileInfo(filename, purpose, lifetime))
    return json_response(file.to_api())


@router.get("")
async def list_files(request: Request) -> Response:
    """The API key's files, the newest first unless `order` is `asc`."""
    parameters = request.query_params
    query = read_paging(parameters, order="desc", limit=MOST_LISTED, most=MOST_LISTED)
    purpose = read_filter(parameters, "purpose")
    page = await _files(request).list(owner_of(request), query, purpose=purpose)

    def shown() -> Response:
        data = [file.to_api() for file in page.entries]
        return json_response(list_object(data, has_more=page.has_more))

    return await threads.run(shown, threads.counted(len(page.entries), _MOST_SMALL))


@router.get("/{file_id}")
async def retrieve_file(request: Request, file_id: str) -> Response:
    """A file. The status is 404 for one that another API key owns."""
    return json_response((await _files(request).get(owner_of(request), file_id)).to_api())


@router.get("/{file_id}/content")
async def retrieve_content(request: Request, file_id: str) -> Response:
    """The content of a file, or the range of it that the request asks for."""
    owner = owner_of(request)
    file = await _files(request).get(owner, file_id)
    content = await _files(request).open(owner, file_id)
    return await file_response(content, file.filename, f'"{file.id}"', request.headers)


@router.delete("/{file_id}")
async def delete_file(request: Request, file_id: str) -> Response:
    """Delete a file. Copies in containers stay."""
    await _files(request).delete(owner_of(request), file_id)
    return json_response({"id": file_id, "object": "file", "deleted": True})


def _files(request: Request) -> FileLibrary:
    return context_of(request).files
