"""What a request may say of a container, and how much."""

from typing import Any

import pytest

from server.errors import InvalidRequest
from server.tools.python.container_options import ContainerOptions, read_options

ANCHOR = {"anchor": "last_active_at"}


def read(**config: Any) -> ContainerOptions:
    return read_options(config, "4g", param="container.")


def test_all_options_have_a_default() -> None:
    assert read(skills=[], network_policy=None) == ContainerOptions("", (), "1g", 20)


@pytest.mark.parametrize("minutes", [1, 20])
def test_options_may_be_at_their_limits(minutes: int) -> None:
    file_ids = [f"file-{number}" for number in range(100)]
    found = read(
        name="x\0",
        file_ids=file_ids,
        memory_limit="4g",
        expires_after={**ANCHOR, "minutes": minutes},
        network_policy={"type": "disabled"},
    )
    assert found == ContainerOptions("x", tuple(file_ids), "4g", minutes)


def test_a_file_is_copied_once() -> None:
    assert read(file_ids=["b", "a", "b"]).file_ids == ("b", "a")


@pytest.mark.parametrize(
    ("config", "param", "reason"),
    [
        ({"file_ids": ["x"] * 101}, "file_ids", "at most 100 files"),
        ({"memory_limit": "16g"}, "memory_limit", "at most 4g"),
        ({"memory_limit": "2g"}, "memory_limit", "one of 1g, 4g, 16g, 64g"),
        ({"network_policy": {"type": "allowlist"}}, "network_policy", "have no network"),
        ({"network_policy": {"type": "other"}}, "network_policy", "type 'disabled'"),
        ({"skills": [{"type": "inline"}]}, "skills", "not supported"),
        ({"expires_after": {"minutes": 1}}, "expires_after", "anchor 'last_active_at'"),
        ({"expires_after": ANCHOR}, "expires_after.minutes", "from 1 to 20"),
        *(
            ({"expires_after": {**ANCHOR, "minutes": minutes}}, "expires_after.minutes", "1 to 20")
            for minutes in (0, 21, True, 1.5, "5")
        ),
    ],
)
def test_other_options_are_refused(config: dict[str, Any], param: str, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason) as error:
        read(**config)
    assert error.value.param == f"container.{param}"
