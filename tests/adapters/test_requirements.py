import tomllib
from pathlib import Path

import pytest
from transformers.utils.import_utils import KERNELS_MAX_VERSION, KERNELS_MIN_VERSION

from adapters.requirements import KERNELS_VERSION, oldest_driver

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("cuda", "driver"), [("11.8", 450), ("12.9", 525), ("13.0", 580), ("99.1", None)]
)
def test_the_oldest_driver_is_that_of_the_major_version(cuda: str, driver: int | None) -> None:
    assert oldest_driver(cuda) == driver


def test_the_package_kernels_is_the_one_that_transformers_uses() -> None:
    assert KERNELS_MIN_VERSION.startswith(KERNELS_VERSION)
    assert not KERNELS_MAX_VERSION.startswith(KERNELS_VERSION)


def test_the_extra_for_gpus_installs_the_package_kernels_that_transformers_uses() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert f"kernels>={KERNELS_VERSION[:-1]},<{KERNELS_MAX_VERSION[:-2]}" in extras["gpu"]
