"""Compiled kernels of the Hugging Face hub, from the local cache where it has them.

A kernel's version is a branch of its repository, which moves, and looking it up takes the network.
Here what was downloaded once is used until somebody deletes it: a start needs no hub, and
`python -m adapters.local.kernels` puts all of them in place while an image is built.
"""

import logging
import os

from transformers.integrations.hub_kernels import get_attn_kernel_version

from adapters.errors import BackendFailed

logger = logging.getLogger(__name__)

MXFP4 = "kernels-community/gpt-oss-triton-kernels"
"""Computes with packed MXFP4 weights."""

HOPPER_ATTENTION = "kernels-community/vllm-flash-attn3"
"""Flash attention 3 with attention sinks, for Hopper."""

_OVERRIDES = "LOCAL_KERNELS"  # of the package kernels: repository=folder:repository=folder


def provide(repository: str) -> None:
    """Have the package kernels take `repository` from the local cache, downloaded if need be.

    Raises BackendFailed naming the repository where there is neither.
    """
    version = 1 if repository == MXFP4 else get_attn_kernel_version(repository)
    try:
        from kernels import install_kernel

        try:
            folder = install_kernel(repository, version=version, local_files_only=True)
        except Exception as error:  # not there, or built for another torch
            logger.info("downloading the kernels %s: %s", repository, str(error).splitlines()[0])
            folder = install_kernel(repository, version=version)
    except Exception as error:  # of the network, of the hub, of the package
        raise BackendFailed(
            f"the kernels {repository} are not in the cache and cannot be downloaded: {error}"
        ) from error
    given = [one for one in os.environ.get(_OVERRIDES, "").split(":") if one]
    if not any(one.startswith(f"{repository}=") for one in given):
        os.environ[_OVERRIDES] = ":".join([*given, f"{repository}={folder}"])


def main() -> None:
    logging.basicConfig(level="INFO")
    for repository in (MXFP4, HOPPER_ATTENTION):
        provide(repository)


if __name__ == "__main__":
    main()
