"""`/v1/responses` over a WebSocket.

Source: the Open Responses specification (2026-04-24), "WebSocket transport".
"""

from fastapi import APIRouter
from starlette.websockets import WebSocket

from server.context import context_of
from server.http.authentication import owner_of
from server.responses.websocket import Connection

router = APIRouter()


@router.websocket("/v1/responses")
async def respond_over_websocket(websocket: WebSocket) -> None:
    """Serve a connection until it is closed."""
    await websocket.accept()
    owner = owner_of(websocket)
    await Connection(websocket, context_of(websocket), owner).serve()
