"""A page as it was received, and the media types that pages may have."""

from dataclasses import dataclass

HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
PDF = "application/pdf"
_TEXT_TYPES = frozenset(
    {
        "application/atom+xml",
        "application/json",
        "application/ld+json",
        "application/markdown",
        "application/rss+xml",
        "application/xml",
        "text/json",
        "text/markdown",
        "text/plain",
        "text/x-markdown",
        "text/x-rst",
        "text/xml",
        "text/csv",
    }
)
CONTENT_TYPES = HTML_TYPES | _TEXT_TYPES | {PDF}


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """A page as it was received.

    url: where it was found, after redirects. media_type: without parameters, in lower case.
    charset: that of the header, None if it names none.
    """

    url: str
    media_type: str
    charset: str | None
    body: bytes
