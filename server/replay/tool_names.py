"""How tools are named: by clients, and as recipients of harmony messages."""

from typing import Any

from harmony import names
from server.schemas.fields import invalid, string

NAMESPACE = "functions"


def recipient(name: str, namespace: str | None = None) -> str:
    """The harmony recipient of a tool as the client names it.

    A namespace is a prefix of the name, so that equal names in two namespaces stay apart and a
    call in the history needs no declaration to be rendered.
    """
    if namespace is None:
        return f"{NAMESPACE}.{name}"
    joint = "" if namespace.endswith("_") else "__"
    return f"{NAMESPACE}.{namespace}{joint}{name}"


def called_name(value: Any, param: str) -> str:
    """The name that a call in the history goes by: any that a header can hold.

    Raises InvalidRequest for any other.
    """
    name = string(value, param)
    if not names.is_name(name):
        raise invalid(param, names.RULE)
    return name
