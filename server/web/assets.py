"""The static files of the playground, and the security policy of its pages.

Each file has an address that contains the hash of all files. Browsers may therefore cache a file
for ever, and relative imports between modules keep the hash.
"""

import hashlib
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files

MEDIA_TYPES = {".css": "text/css", ".html": "text/html", ".js": "text/javascript"}

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "font-src 'self'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types gpt-oss-fallback",
    )
)
"""The Content-Security-Policy of every page. Only the sanitiser for browsers that have no
`Element.setHTML` uses the trusted type policy."""

PAGE_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of the playground."""

    content: bytes
    media_type: str


@cache
def assets() -> dict[str, Asset]:
    """The files by name."""
    found = {}
    for entry in sorted(files(__package__).joinpath("static").iterdir(), key=lambda e: e.name):
        suffix = entry.name[entry.name.rfind(".") :]
        if suffix in MEDIA_TYPES:
            found[entry.name] = Asset(entry.read_bytes(), MEDIA_TYPES[suffix])
    return found


@cache
def version() -> str:
    """The hash of all files, as it stands in their addresses."""
    digest = hashlib.sha256()
    for name, asset in assets().items():
        digest.update(f"{name}\0{len(asset.content)}\0".encode())
        digest.update(asset.content)
    return digest.hexdigest()[:16]


def playground_page() -> bytes:
    """The page of the playground."""
    return _page("playground.html")


def start_page(*, playground: bool) -> bytes:
    """The page at `/`. playground: whether it links to the playground."""
    page = _page("start.html")
    before, _, rest = page.partition(b"<!-- playground -->")
    link, _, after = rest.partition(b"<!-- end -->")
    return b"".join((before, link if playground else b"", after))


def _page(name: str) -> bytes:
    # A relative address: the server may stand behind a proxy, below a path of its own.
    base = f"playground/assets/{escape(version())}"
    return assets()[name].content.replace(b"{{assets}}", base.encode())
