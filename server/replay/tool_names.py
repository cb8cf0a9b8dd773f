"""Names of tools: those that clients use, and the recipients of harmony messages."""

from typing import Any

from harmony import names
from harmony.tools import FUNCTIONS
from server.schemas.fields import invalid, string


def recipient(name: str, namespace: str | None = None) -> str:
    """The harmony recipient of a tool that the client names.

    A namespace becomes a prefix of the name. So equal names in two namespaces remain distinct, and
    a call in the history can be rendered without the declaration of its tool.
    """
    if namespace is None:
        return f"{FUNCTIONS}.{name}"
    separator = "" if namespace.endswith("_") else "__"
    return f"{FUNCTIONS}.{namespace}{separator}{name}"


def called_name(value: Any, param: str) -> str:
    """The name of a tool that a call in the history has.

    Raises InvalidRequest for a name that a harmony header cannot hold.
    """
    name = string(value, param)
    if not names.is_name(name):
        raise invalid(param, names.RULE)
    return name
