"""The answers for the playground's pages and files."""

from starlette.responses import Response

from server.web.assets import PAGE_HEADERS, assets, playground_page, start_page, version

FOR_EVER = "public, max-age=31536000, immutable"


def prefers_html(accept: str) -> bool:
    """Whether a client prefers a page, as browsers do. `*/*` alone is what programs send.

    accept: the request's `Accept` header.
    """
    kinds = {part.partition(";")[0].strip().lower() for part in accept.split(",")}
    return "text/html" in kinds


def start_answer(*, playground: bool) -> Response:
    """The page of links. playground: whether it links to the playground."""
    return _page(start_page(playground=playground), {"Vary": "Accept"})


def playground_answer() -> Response:
    """The playground."""
    return _page(playground_page(), {})


def asset_answer(digest: str, name: str) -> Response | None:
    """A script or style; None for an unknown name, or for the hash of another version."""
    asset = assets().get(name)
    if asset is None or digest != version():
        return None
    headers = {"Cache-Control": FOR_EVER, "X-Content-Type-Options": "nosniff"}
    return Response(asset.content, headers=headers, media_type=asset.media_type)


def _page(content: bytes, headers: dict[str, str]) -> Response:
    headers = {**PAGE_HEADERS, "Cache-Control": "no-cache", **headers}
    return Response(content, headers=headers, media_type="text/html")
