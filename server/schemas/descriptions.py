"""Descriptions of JSON for the API's document, where server.inbound reads what pydantic does not.

They check nothing: server.inbound reads such a field, and its errors name what is wrong with it.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import ConfigDict, GetJsonSchemaHandler, TypeAdapter, with_config
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

described = with_config(ConfigDict(use_attribute_docstrings=True))
"""Makes the strings under the fields of a TypedDict their descriptions."""


@dataclass(frozen=True, slots=True)
class Described:
    """The type that describes a field whose own type is `Any`."""

    type: Any

    def __get_pydantic_json_schema__(
        self, _: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """The JSON schema of `type`; pydantic's hook for annotations."""
        return handler(_core_schema(self.type))


@cache
def _core_schema(type_: Any) -> CoreSchema:
    """Made when it is asked for, and not with the field: it takes a while."""
    return TypeAdapter(type_).core_schema
