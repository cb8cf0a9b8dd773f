"""The `# Tools` section of system and developer messages, and the tools gpt-oss was trained with.

Functions are declared as in the harmony guide: `type name = (_: {…}) => any;`. The guide has no
freeform tools. They are declared as `type name = (input: string) => any;` under a comment that says
that the input is not JSON.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from harmony.literal import comment
from harmony.messages import FunctionTool, ToolNamespace
from harmony.schemas import for_object
from harmony.typescript import type_of

FUNCTIONS = "functions"
"""The namespace of client functions. The model calls them on the commentary channel."""

_FREEFORM = "Takes free text as its whole input, not JSON."


def section(namespaces: Iterable[ToolNamespace]) -> str:
    """`# Tools` and the declarations of all namespaces, sorted by name."""
    ordered = sorted(namespaces, key=lambda namespace: namespace.name)
    return "\n\n".join(["# Tools", *map(_namespace, ordered)])


def about_all(
    tools: Sequence[FunctionTool], prefix: str, description: str | None
) -> tuple[FunctionTool, ...]:
    """`tools`, whose names begin with `prefix`, with a description of all of them.

    Other functions are in the same namespace, so the description stands at the first of `tools`.
    """
    if not (tools and description):
        return tuple(tools)
    first, *others = tools
    about = f"About all tools {prefix}*: {description}"
    text = f"{first.description}\n{about}" if first.description else about
    return (replace(first, description=text), *others)


def _namespace(namespace: ToolNamespace) -> str:
    name, description = namespace.name, namespace.description or ""
    if not namespace.tools:
        text = description.replace("\r\n", "\n").removesuffix("\n")
        return f"## {name}\n" + (f"\n{text}" if description else "")
    declarations = "\n".join(map(_declaration, namespace.tools))
    return (
        f"## {name}\n\n{_comments(description)}"
        f"namespace {name} {{\n\n{declarations}\n}} // namespace {name}"
    )


def _declaration(tool: FunctionTool) -> str:
    return f"{_comments(tool.description or '')}{_signature(tool)}\n"


def _signature(tool: FunctionTool) -> str:
    if tool.freeform:
        return f"{comment(_FREEFORM)}type {tool.name} = (input: string) => any;"
    if tool.parameters is None:
        return f"type {tool.name} = () => any;"
    parameters = for_object(tool.parameters)
    written = type_of({"type": "object"} if parameters is None else parameters)
    return f"type {tool.name} = (_: {written}) => any;"


def _comments(text: str) -> str:
    return comment(text) if text else ""


# The model was trained on the exact texts of the two built-in tools.
BROWSER = ToolNamespace(
    name="browser",
    description=(
        "Tool for browsing.\n"
        "The `cursor` appears in brackets before each browsing display: `[{cursor}]`.\n"
        "Cite information from the tool using the following format:\n"
        "`【{cursor}†L{line_start}(-L{line_end})?】`, for example: `【6†L9-L11】` or `【8†L3】`.\n"
        "Do not quote more than 10 words directly from the tool output.\n"
        "sources=web (default: web)"
    ),
    tools=(
        FunctionTool(
            name="search",
            description=(
                "Searches for information related to `query` and displays `topn` results."
            ),
            parameters={
                "type": "object",
                "properties": {
                    "query": {"type": "string"},
                    "topn": {"type": "number", "default": 10},
                    "source": {"type": "string"},
                },
                "required": ["query"],
            },
        ),
        FunctionTool(
            name="open",
            description=(
                "Opens the link `id` from the page indicated by `cursor` starting at line number "
                "`loc`, showing `num_lines` lines.\n"
                "Valid link ids are displayed with the formatting: `【{id}†.*】`.\n"
                "If `cursor` is not provided, the most recent page is implied.\n"
                "If `id` is a string, it is treated as a fully qualified URL associated with "
                "`source`.\n"
                "If `loc` is not provided, the viewport will be positioned at the beginning of "
                "the document or centered on the most relevant passage, if available.\n"
                "Use this function without `id` to scroll to a new location of an opened page."
            ),
            parameters={
                "type": "object",
                "properties": {
                    "id": {"type": ["number", "string"], "default": -1},
                    "cursor": {"type": "number", "default": -1},
                    "loc": {"type": "number", "default": -1},
                    "num_lines": {"type": "number", "default": -1},
                    "view_source": {"type": "boolean", "default": False},
                    "source": {"type": "string"},
                },
            },
        ),
        FunctionTool(
            name="find",
            description=(
                "Finds exact matches of `pattern` in the current page, or the page given by "
                "`cursor`."
            ),
            parameters={
                "type": "object",
                "properties": {
                    "pattern": {"type": "string"},
                    "cursor": {"type": "number", "default": -1},
                },
                "required": ["pattern"],
            },
        ),
    ),
)

PYTHON = ToolNamespace(
    name="python",
    description=(
        "Use this tool to execute Python code in your chain of thought. The code will not be shown "
        "to the user. This tool should be used for internal reasoning, but not for code that is "
        "intended to be visible to the user (e.g. when creating plots, tables, or files).\n\n"
        "When you send a message containing Python code to python, it will be executed in a "
        "stateful Jupyter notebook environment. python will respond with the output of the "
        "execution or time out after 120.0 seconds. The drive at '/mnt/data' can be used to save "
        "and persist user files. Internet access for this session is UNKNOWN. Depends on the "
        "cluster."
    ),
)
