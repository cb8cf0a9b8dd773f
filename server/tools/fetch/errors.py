"""The errors of fetching. Their messages are written for the model, and name no address.

FetchError
  + BlockedTarget      the URL, its port, or one of its addresses is not allowed
  + Disallowed         robots.txt does not allow the page
  + Unreachable        the name, the connection or the protocol failed
  + BadStatus          the status is not 200
  + UnsupportedBody    the content type or the encoding is not supported
  + BodyTooLarge       the body is over the limit
  + FetchTimeout       the time is over
"""


class FetchError(Exception):
    """Base of all errors of fetching."""


class BlockedTarget(FetchError):
    """The URL, its port, or one of its addresses is not allowed."""


class Disallowed(FetchError):
    """The site's robots.txt does not allow the page."""


class Unreachable(FetchError):
    """The name could not be resolved, or the connection or the protocol failed."""


class BadStatus(FetchError):
    """The server answered with another status than 200, or redirected too often."""


class UnsupportedBody(FetchError):
    """The content type or the content encoding is not supported, or the body is damaged."""


class BodyTooLarge(FetchError):
    """The body is larger than the limit, compressed or decoded."""


class FetchTimeout(FetchError):
    """The fetch took longer than its time."""
