"""What GPUs, drivers and packages must be at least, for engines and for who judges a machine.

It loads no engine.
"""

DRIVERS = {11: 450, 12: 525, 13: 580}
"""The oldest driver for each major version of CUDA, by NVIDIA's table of compatibility."""

MXFP4_KERNELS = "kernels-community/gpt-oss-triton-kernels"
"""The hub's repository of the kernels for packed MXFP4 weights."""

MXFP4_CAPABILITY = (7, 5)
"""The least compute capability of these kernels."""

KERNELS_VERSION = "0.17."
"""The beginning of the versions of the package kernels that transformers can use."""

LARGE_ON_CPU = 8_000_000_000
"""Bytes of weights that are too many for a CPU, unless it is asked for."""


def oldest_driver(cuda: str) -> int | None:
    """The oldest driver for a version of CUDA, None where it is not known."""
    return DRIVERS.get(int(cuda.partition(".")[0]))
