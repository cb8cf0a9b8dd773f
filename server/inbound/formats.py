"""The format of the final answer: Responses' `text.format`, Chat's `response_format`.

Source: https://platform.openai.com/docs/guides/structured-outputs
"""

from dataclasses import dataclass
from typing import Any

from harmony import names
from harmony.messages import ResponseFormat
from server.schemas.fields import (
    declaration,
    invalid,
    mapping,
    optional_boolean,
    optional_mapping,
    optional_string,
    required,
    string,
)

JSON_OBJECT = ResponseFormat("json_object", {"type": "object"})


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """The format of the final answer.

    declared: what the model is shown. param: the request's field that holds the format.
    strict: as in the request, None where it is absent.
    """

    declared: ResponseFormat
    param: str
    strict: bool | None = None


def read_format(value: Any, param: str) -> AnswerFormat | None:
    """Read a format, flat as in Responses or nested as in Chat; None is plain text.

    Raises InvalidRequest naming the field.
    """
    declaration(value, param)
    form = optional_mapping(value, param)
    if not form:
        return None
    kind = required(form, "type", param, string)
    match kind:
        case "text":
            return None
        case "json_object":
            return AnswerFormat(JSON_OBJECT, param)
        case "json_schema":
            return _schema(form, param)
    raise invalid(f"{param}.type", "expected 'text', 'json_object' or 'json_schema'")


def _schema(form: dict[str, Any], param: str) -> AnswerFormat:
    if "json_schema" in form:
        param = f"{param}.json_schema"
        form = mapping(form["json_schema"], param)
    name = required(form, "name", param, string)
    if not names.is_title(name):
        raise invalid(f"{param}.name", f"expected 1 to {names.MAX_CHARACTERS} printable characters")
    declared = ResponseFormat(
        name=name,
        schema=required(form, "schema", param, mapping),
        description=optional_string(form.get("description"), f"{param}.description"),
    )
    return AnswerFormat(declared, param, optional_boolean(form.get("strict"), f"{param}.strict"))
