"""`/v1/responses` over a WebSocket.

Source: the Open Responses specification (2026-04-24), "WebSocket transport".
"""

from fastapi import APIRouter
from starlette.websockets import WebSocket

from server.auth import authenticate
from server.context import context_of
from server.errors import APIError
from server.respond import json_response
from server.websocket import Connection

router = APIRouter()


@router.websocket("/v1/responses")
async def respond_over_websocket(websocket: WebSocket) -> None:
    """A connection that makes responses until it is closed.

    Refused without a known key.
    """
    try:
        owner = authenticate(websocket).id
    except APIError as error:
        refusal = json_response(error.body(), error.status)
        refusal.headers.update(error.headers)
        await websocket.send_denial_response(refusal)
        return
    await websocket.accept()
    await Connection(websocket, context_of(websocket), owner).serve()
