"""The errors of containers, as clients get them."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from server.errors import BodyTooLarge, NotFound, Unavailable
from server.tools.python.sandbox import FileTooLarge, NoSuchFile, NoSuchSession, SandboxError

logger = logging.getLogger(__name__)


@contextmanager
def translated(param: str = "container_id") -> Iterator[None]:
    """Turn errors of the sandbox into errors for clients. NoSuchFile may be handled outside.

    param: the field that names the container.
    """
    try:
        yield
    except FileTooLarge as error:
        raise BodyTooLarge(
            "The file, or all files of the container together, are too large.",
            param="file",
            code="file_too_large",
        ) from error
    except NoSuchFile as error:
        raise NotFound("The container has no such file any more.", param="file_id") from error
    except NoSuchSession as error:
        raise NotFound(
            "The container has lost its session.", param=param, code="container_expired"
        ) from error
    except SandboxError as error:
        logger.warning("the sandbox failed: %s", error)
        raise Unavailable("The sandbox for Python cannot be used now.") from error


def not_found(container_id: str, param: str) -> NotFound:
    """The error for a container that the owner does not have."""
    return NotFound(f"Container with id '{container_id}' not found.", param=param)


def expired(container_id: str, param: str) -> NotFound:
    """The error for a container that was idle for too long."""
    return NotFound(
        f"Container with id '{container_id}' has expired.", param=param, code="container_expired"
    )


def file_not_found(file_id: str) -> NotFound:
    """The error for a file that the container does not have."""
    return NotFound(f"Container file with id '{file_id}' not found.", param="file_id")
