"""Describes the options of `serve`: groups, defaults and choices.

The command line's help and docs/options.md are generated from it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from server.settings import Settings

GROUPS: dict[str, tuple[str, ...]] = {
    "Model and engine": (
        "model",
        "served_model_name",
        "backend",
        "backend_option",
        "backend_url",
        "engine_arg",
        "script",
    ),
    "API": (
        "host",
        "port",
        "api_key",
        "api_key_file",
        "share_cache",
        "allow_anonymous",
        "allowed_host",
        "cors_origin",
        "playground",
        "unsupported_input",
        "constrain",
        "parallel_calls",
        "default_max_output_tokens",
    ),
    "Hosted tools": ("hosted_tools", "max_tool_rounds", "tool_timeout", "answer_timeout", "mcp"),
    "Reasoning": (
        "raw_reasoning",
        "reasoning_content",
        "repetition_guard",
        "reasoning_summary",
        "summary_model",
        "summary_url",
        "summary_key",
        "summary_policy",
        "summary_patience",
    ),
    "Web search": (
        "search",
        "fetch_allow_private",
        "fetch_allow_domain",
        "egress_proxy",
        "robots",
    ),
    "Store": ("store", "store_ttl", "store_patience", "store_connections", "encryption_key"),
    "Files and containers": (
        "files",
        "max_file_bytes",
        "max_owner_file_bytes",
        "max_containers",
        "max_container_memory",
    ),
    "Python sandbox": (
        "python_sandbox",
        "python_sandbox_key",
        "python_folder",
        "python_sessions",
    ),
    "Limits": (
        "max_running",
        "max_waiting",
        "max_connections",
        "max_connections_per_address",
        "limit_concurrency",
        "max_body_bytes",
        "max_body_memory",
        "max_unread",
        "drain_seconds",
    ),
    "Logging": ("log_level",),
}
"""Options by group. Every option is in one group."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    default: in the form in which it is typed; None if there is no fixed default. choices: the
    allowed values; empty if any value is allowed. repeatable: whether it may be repeated. kind:
    the type of the value: `N` an integer, `NUMBER` any number, `VALUE` text. size: a default number
    of bytes in a larger unit, such as `32 MiB`; "" for other values.
    """

    flag: str
    variable: str
    description: str
    default: str | None
    choices: tuple[str, ...]
    repeatable: bool
    kind: str
    size: str

    @property
    def metavar(self) -> str:
        """The placeholder of the value in the usage line."""
        return f"{{{','.join(self.choices)}}}" if self.choices else self.kind


def option(name: str) -> Option:
    """The option of a setting. Raises KeyError for an unknown setting."""
    field = Settings.model_fields[name]
    types = _types(field.annotation)
    return Option(
        flag=flag(name),
        variable=variable(name),
        description=field.description or "",
        default=_default(field),
        choices=_choices(types),
        repeatable=isinstance(field.default, tuple),
        kind="N" if int in types else "NUMBER" if float in types else "VALUE",
        size=_size(field),
    )


def flag(name: str) -> str:
    """The setting's flag: `--max-running` for `max_running`."""
    return f"--{name.replace('_', '-')}"


def variable(name: str) -> str:
    """The setting's environment variable: `GPT_OSS_MAX_RUNNING` for `max_running`."""
    return f"{Settings.model_config['env_prefix']}{name.upper()}"


def unknown_variables(environment: Iterable[str]) -> list[str]:
    """The names that have the prefix of options, and are no options."""
    known = {variable(name) for name in Settings.model_fields}
    prefix = Settings.model_config["env_prefix"]
    return sorted(
        name
        for name in environment
        if name.upper().startswith(prefix) and name.upper() not in known
    )


def _default(field: FieldInfo) -> str | None:
    match field.default:
        case None | () | "":
            return None
        case bool() as value:
            return str(value).lower()
        case float() as value:
            return f"{value:g}"
        case value:
            return str(value)


def _size(field: FieldInfo) -> str:
    if not (field.description or "").startswith("bytes "):
        return ""
    mebibytes: int = field.default >> 20
    return f"{mebibytes} MiB" if mebibytes < 1024 else f"{mebibytes >> 10} GiB"


def _types(annotation: Any) -> list[Any]:
    """The types of a union without None; for other annotations, the annotation itself."""
    parts = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else [annotation]
    return [part for part in parts if part is not NoneType]


def _choices(types: list[Any]) -> tuple[str, ...]:
    return tuple(choice for each in types for choice in _choices_of(each))


def _choices_of(kind: Any) -> Iterator[str]:
    if kind is bool:
        yield from ("true", "false")
    elif get_origin(kind) is Literal:
        yield from map(str, get_args(kind))
