"""Reads what a request says of a container that is made for it.

Source: https://platform.openai.com/docs/api-reference/containers/createContainers
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from server.errors import InvalidRequest
from server.schemas.fields import invalid, label
from server.tools.python.sandbox import GIB

MEMORY: Mapping[str, int] = {"1g": GIB, "4g": 4 * GIB, "16g": 16 * GIB, "64g": 64 * GIB}
"""Bytes of each memory limit, the smallest first."""

IDLE_MINUTES = 20
"""The default time without activity after which a container expires. OpenAI has the same."""
MOST_FILES = 100
"""Files that a request may have copied."""


@dataclass(frozen=True, slots=True)
class ContainerOptions:
    """What a new container is like.

    file_ids: uploaded files to copy, without duplicates. memory_limit: a key of MEMORY.
    idle_minutes: 1 to 20.
    """

    name: str = ""
    file_ids: tuple[str, ...] = ()
    memory_limit: str = "1g"
    idle_minutes: int = IDLE_MINUTES


def read_options(config: Mapping[str, Any], most_memory: str, *, param: str) -> ContainerOptions:
    """The options of an object of the API.

    config: a body of `POST /v1/containers`, or a tool's `container`. most_memory: the largest
    memory limit that the server allows. param: the path of the object with a final dot, or nothing.
    Raises InvalidRequest naming the field that is invalid, or not supported.
    """
    _check_network(config.get("network_policy"), f"{param}network_policy")
    if config.get("skills"):
        raise InvalidRequest(
            "Skills are not supported by this server.",
            param=f"{param}skills",
            code="unsupported_parameter",
        )
    return ContainerOptions(
        name=label(config.get("name") or "", f"{param}name").replace("\0", ""),
        file_ids=_file_ids(config.get("file_ids"), f"{param}file_ids"),
        memory_limit=_memory_limit(config.get("memory_limit"), most_memory, f"{param}memory_limit"),
        idle_minutes=_idle_minutes(config.get("expires_after"), f"{param}expires_after"),
    )


def _file_ids(value: Any, param: str) -> tuple[str, ...]:
    if not isinstance(value, list | None):
        raise invalid(param, "expected an array of file ids")
    if value is not None and len(value) > MOST_FILES:
        raise invalid(param, f"expected at most {MOST_FILES} files")
    ids = (label(each, f"{param}.{index}") for index, each in enumerate(value or ()))
    return tuple(dict.fromkeys(ids))


def _memory_limit(value: Any, most: str, param: str) -> str:
    if value is None:
        return "1g"
    if not isinstance(value, str) or value not in MEMORY:
        raise invalid(param, f"expected one of {', '.join(MEMORY)}")
    if MEMORY[value] > MEMORY[most]:
        raise invalid(param, f"this server allows at most {most}")
    return value


def _check_network(value: Any, param: str) -> None:
    if value is None:
        return
    kind = value.get("type") if isinstance(value, dict) else None
    if kind == "allowlist":
        raise InvalidRequest(
            "Containers of this server have no network: only the policy 'disabled' is supported.",
            param=param,
            code="unsupported_parameter",
        )
    if kind != "disabled":
        raise invalid(param, "expected an object with the type 'disabled'")


def _idle_minutes(value: Any, param: str) -> int:
    if value is None:
        return IDLE_MINUTES
    if not isinstance(value, dict) or value.get("anchor") != "last_active_at":
        raise invalid(param, "expected an object with the anchor 'last_active_at'")
    minutes: Any = value.get("minutes")
    is_integer = isinstance(minutes, int) and not isinstance(minutes, bool)
    if not is_integer or not 1 <= minutes <= IDLE_MINUTES:
        raise invalid(f"{param}.minutes", f"expected an integer from 1 to {IDLE_MINUTES}")
    return int(minutes)
