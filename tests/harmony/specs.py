"""Tools for the tests of grammars."""

from harmony.grammar import CallableTool, FreeText, LarkText, SchemaJson
from tests.harmony.schemas.drawing import closed

CITY = closed(city={"type": "string"}, days={"type": "integer", "minimum": 1})
TOOLS = (
    CallableTool("functions.f"),
    CallableTool("functions.weather", SchemaJson(CITY)),
    CallableTool("functions.say", FreeText()),
    CallableTool("functions.sum", LarkText('start: INT ("+" INT)*\nINT: /[0-9]+/')),
    CallableTool("browser.search"),
    CallableTool("python", FreeText()),
)
