"""Tools, the choice among them, and the form of the answer, of either API.

Either API's endpoints take the other's form too, the flat one and the nested one.
Source: https://platform.openai.com/docs/guides/function-calling
"""

from typing import Any, Literal, NotRequired

from typing_extensions import TypeAliasType, TypedDict

from server.schemas.descriptions import described
from server.schemas.hosted_tools import HostedTool, NamedHostedTool, OpenRouterSearchTool

Mode = Literal["none", "auto", "required"]


@described
class FunctionDefinition(TypedDict):
    """A function that the model may call."""

    name: str
    """1 to 128 letters, digits, underscores, dots and hyphens."""
    description: NotRequired[str | None]
    parameters: NotRequired[dict[str, Any] | None]
    """The JSON schema of the arguments."""
    strict: NotRequired[bool | None]
    """True: a grammar holds the arguments to the schema, which has to be one that can be strict."""


@described
class FunctionTool(FunctionDefinition):
    """A function that the model may call."""

    type: Literal["function"]


@described
class Grammar(TypedDict):
    """A grammar."""

    syntax: Literal["lark", "regex"]
    definition: str


@described
class GrammarFormat(Grammar):
    """A grammar that the input has to match."""

    type: Literal["grammar"]


@described
class NestedGrammarFormat(TypedDict):
    """A grammar that the input has to match, in Chat's form."""

    type: Literal["grammar"]
    grammar: Grammar


@described
class TextFormat(TypedDict):
    """Free text."""

    type: Literal["text"]


@described
class CustomDefinition(TypedDict):
    """A tool whose input is text rather than JSON."""

    name: str
    description: NotRequired[str | None]
    format: NotRequired[TextFormat | GrammarFormat | NestedGrammarFormat | None]


@described
class CustomTool(CustomDefinition):
    """A tool whose input is text rather than JSON."""

    type: Literal["custom"]


@described
class NamespaceTool(TypedDict):
    """Tools under one name."""

    type: Literal["namespace"]
    name: str
    description: NotRequired[str | None]
    tools: list[FunctionTool | CustomTool]


@described
class OtherTool(TypedDict):
    """A tool of a kind that this server does not have.

    It is left out, and its kind is named in the answer's `gpt_oss:unserved_tools`.
    """

    type: str


@described
class ChatFunctionTool(TypedDict):
    """A function that the model may call, in Chat's form."""

    type: Literal["function"]
    function: FunctionDefinition


@described
class ChatCustomTool(TypedDict):
    """A tool whose input is text rather than JSON, in Chat's form."""

    type: Literal["custom"]
    custom: CustomDefinition


Tools = TypeAliasType(
    "Tools", list[FunctionTool | CustomTool | NamespaceTool | HostedTool | OtherTool] | None
)
ChatTools = TypeAliasType(
    "ChatTools",
    (
        list[
            ChatFunctionTool
            | ChatCustomTool
            | NamespaceTool
            | HostedTool
            | OpenRouterSearchTool
            | OtherTool
        ]
        | None
    ),
)


@described
class ToolName(TypedDict):
    """A tool's name."""

    name: str


@described
class NamedTool(ToolName):
    """This tool is called, or is one of those that may be."""

    type: Literal["function", "custom"]
    namespace: NotRequired[str | None]


@described
class ChatNamedFunction(TypedDict):
    """This function is called, or is one of those that may be, in Chat's form."""

    type: Literal["function"]
    function: ToolName


@described
class ChatNamedCustomTool(TypedDict):
    """This custom tool is called, or is one of those that may be, in Chat's form."""

    type: Literal["custom"]
    custom: ToolName


@described
class AllowedTools(TypedDict):
    """Only these tools may be called."""

    type: Literal["allowed_tools"]
    mode: NotRequired[Mode]
    tools: list[NamedTool | NamedHostedTool | OtherTool]


@described
class ChatAllowed(TypedDict):
    """Only these tools may be called."""

    mode: NotRequired[Mode]
    tools: list[ChatNamedFunction | ChatNamedCustomTool | NamedHostedTool | OtherTool]


@described
class ChatAllowedTools(TypedDict):
    """Only these tools may be called, in Chat's form."""

    type: Literal["allowed_tools"]
    allowed_tools: ChatAllowed


ToolChoice = TypeAliasType("ToolChoice", Mode | NamedTool | NamedHostedTool | AllowedTools | None)
ChatToolChoice = TypeAliasType(
    "ChatToolChoice",
    Mode | ChatNamedFunction | ChatNamedCustomTool | NamedHostedTool | ChatAllowedTools | None,
)


@described
class JsonObjectFormat(TypedDict):
    """Any JSON object."""

    type: Literal["json_object"]


@described
class SchemaDefinition(TypedDict):
    """A JSON schema that the answer matches."""

    name: str
    description: NotRequired[str | None]
    schema: dict[str, Any]
    strict: NotRequired[bool | None]


@described
class JsonSchemaFormat(SchemaDefinition):
    """JSON that matches a schema."""

    type: Literal["json_schema"]


@described
class ChatJsonSchemaFormat(TypedDict):
    """JSON that matches a schema, in Chat's form."""

    type: Literal["json_schema"]
    json_schema: SchemaDefinition


AnswerFormat = TextFormat | JsonObjectFormat | JsonSchemaFormat
ChatAnswerFormat = TextFormat | JsonObjectFormat | ChatJsonSchemaFormat | None
