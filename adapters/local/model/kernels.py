"""Compiled kernels of the Hugging Face hub, from the local cache if possible.

The version of a kernel is a branch of its repository, and resolving it needs the network. This
module uses a downloaded kernel until it is deleted, so that a start needs no network.
`python -m adapters.local.model.kernels` downloads all kernels, as a build of an image does.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transformers.integrations.hub_kernels import get_attn_kernel_version

from adapters.errors import BackendFailed, first_line
from adapters.requirements import MXFP4_KERNELS

logger = logging.getLogger(__name__)

HOPPER_ATTENTION = "kernels-community/vllm-flash-attn3"
"""Flash attention 3 with attention sinks, for Hopper."""

_OVERRIDES = "LOCAL_KERNELS"  # of the package kernels: repository=folder:repository=folder


def provide(repository: str) -> None:
    """Make the package kernels use `repository` from the local cache; download it if necessary.

    Does nothing if the environment variable LOCAL_KERNELS names a folder with it. Raises
    BackendFailed with the repository's name if it is neither cached nor downloadable.
    """
    overrides = [one for one in os.environ.get(_OVERRIDES, "").split(":") if one]
    if any(one.startswith(f"{repository}=") for one in overrides):
        return
    version = 1 if repository == MXFP4_KERNELS else get_attn_kernel_version(repository)
    try:
        folder = _install(repository, version)
    except Exception as error:  # from the network, the hub or the package
        raise BackendFailed(
            f"the kernels {repository} are not in the cache and cannot be downloaded: "
            f"{_reason(error)}"
        ) from error
    os.environ[_OVERRIDES] = ":".join([*overrides, f"{repository}={folder}"])


def _install(repository: str, version: int) -> Path:
    from kernels import install_kernel

    try:
        with _no_warnings():
            return Path(install_kernel(repository, version=version, local_files_only=True))
    except Exception as error:  # not in the cache, or built for another torch
        logger.info("downloading the kernels %s: %s", repository, first_line(error))
    return Path(install_kernel(repository, version=version))


@contextmanager
def _no_warnings() -> Iterator[None]:
    """A context without the warnings of the package kernels.

    It warns of each kernel from the cache that it does not ask the hub about its publisher.
    """
    package = logging.getLogger("kernels")
    level = package.level
    package.setLevel(logging.ERROR)
    try:
        yield
    finally:
        package.setLevel(level)


def _reason(error: Exception) -> str:
    """The error with its origin: without a network, the package speaks of trust alone."""
    origin = error.__context__
    return str(error) if origin is None else f"{error} ({type(origin).__name__}: {origin})"


def main() -> None:
    logging.basicConfig(level="INFO")
    for repository in (MXFP4_KERNELS, HOPPER_ATTENTION):
        provide(repository)


if __name__ == "__main__":
    main()
