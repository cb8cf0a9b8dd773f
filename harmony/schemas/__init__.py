"""JSON Schemas: what of them can be enforced, and how llguidance has to be given them."""

from harmony.schemas.compilation import is_plain, is_wide
from harmony.schemas.places import UnsupportedSchema, for_object, path_text, root_type
from harmony.schemas.rewriting import for_llguidance, relaxed, without_dialects
from harmony.schemas.strict import check_strict

__all__ = [
    "UnsupportedSchema",
    "check_strict",
    "for_llguidance",
    "for_object",
    "is_plain",
    "is_wide",
    "path_text",
    "relaxed",
    "root_type",
    "without_dialects",
]
