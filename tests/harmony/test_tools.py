from typing import Any

import pytest

from harmony.messages import Author, FunctionTool, Message, Role, SystemContent, ToolNamespace
from harmony.tools import BROWSER, FUNCTIONS, PYTHON, about_all, section


def declared(*tools: FunctionTool) -> str:
    """What stands between the braces of `namespace functions`."""
    text = section([ToolNamespace(FUNCTIONS, tools=tools)])
    start, end = (
        "# Tools\n\n## functions\n\nnamespace functions {\n\n",
        "\n} // namespace functions",
    )
    assert text.startswith(start)
    assert text.endswith(end)
    return text.removeprefix(start).removesuffix(end)


@pytest.mark.parametrize("tools", [(BROWSER,), (PYTHON,), (PYTHON, BROWSER)])
def test_the_built_in_tools_are_described_as_the_library_does(
    library: Any, tools: tuple[ToolNamespace, ...]
) -> None:
    ours = SystemContent(tools=tools)
    theirs = library.module.SystemContent.new()
    theirs = theirs.with_browser_tool() if BROWSER in tools else theirs
    theirs = theirs.with_python_tool() if PYTHON in tools else theirs
    message = library.module.Message.from_role_and_content(library.module.Role.SYSTEM, theirs)
    expected = library.encoding.decode(library.encoding.render(message))
    assert section(ours.tools) in expected


def test_a_function_without_parameters_takes_none() -> None:
    assert declared(FunctionTool("now")) == "type now = () => any;\n"


def test_a_function_takes_its_parameters_as_one_object() -> None:
    parameters = {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}
    assert declared(FunctionTool("half", "Halves x.", parameters)) == (
        "// Halves x.\ntype half = (_: {\nx: number,\n}) => any;\n"
    )


def test_the_parameters_as_a_whole_are_never_null() -> None:
    inner = {"x": {"type": "null", "nullable": True}, "nullable": {"type": "string"}}
    parameters = {"type": "object", "properties": inner, "nullable": True}
    assert declared(FunctionTool("f", None, parameters)) == (
        "type f = (_: {\nx?: null,\nnullable?: string,\n}) => any;\n"
    )


@pytest.mark.parametrize("named", [["object", "null"], ["string", "object"], "string", []])
def test_the_parameters_as_a_whole_are_an_object(named: Any) -> None:
    written = declared(FunctionTool("f", None, {"type": named}))
    assert written == "type f = (_: {\n}) => any;\n"


def test_a_description_is_a_comment_on_every_line() -> None:
    assert (
        declared(FunctionTool("f", "One.\r\nTwo.\n")) == "// One.\n// Two.\ntype f = () => any;\n"
    )


def test_functions_are_separated_by_an_empty_line() -> None:
    assert declared(FunctionTool("f"), FunctionTool("g", "")) == (
        "type f = () => any;\n\ntype g = () => any;\n"
    )


def test_a_freeform_tool_takes_text() -> None:
    tool = FunctionTool("patch", "Applies a patch.", freeform=True)
    assert declared(tool) == (
        "// Applies a patch.\n// Takes free text as its whole input, not JSON.\n"
        "type patch = (input: string) => any;\n"
    )


def test_namespaces_are_ordered_by_name() -> None:
    text = section([ToolNamespace("b", "second"), ToolNamespace("a", "first")])
    assert text == "# Tools\n\n## a\n\nfirst\n\n## b\n\nsecond"


def test_the_description_of_a_namespace_with_tools_is_a_comment() -> None:
    text = section([ToolNamespace("n", "Two\nlines.", (FunctionTool("f"),))])
    assert text == (
        "# Tools\n\n## n\n\n// Two\n// lines.\nnamespace n {\n\n"
        "type f = () => any;\n\n} // namespace n"
    )


def test_a_tool_as_message_of_the_system_is_rendered_by_the_library_alike(library: Any) -> None:
    namespaces = (ToolNamespace("n", "", (FunctionTool("f", "a\n\nb"),)), ToolNamespace("m"))
    message = Message(Author(Role.SYSTEM), SystemContent(tools=namespaces))
    assert section(namespaces) in library.encoding.decode(library.render_message(message))


def test_what_is_about_all_tools_stands_at_the_first() -> None:
    first, second = FunctionTool("n__f"), FunctionTool("n__g", "Goes.")
    assert about_all([first, second], "n__", "Of n.") == (
        FunctionTool("n__f", "About all tools n__*: Of n."),
        second,
    )


@pytest.mark.parametrize("description", [None, ""])
def test_nothing_is_said_about_all_tools_without_a_description(description: str | None) -> None:
    assert about_all([FunctionTool("n__f")], "n__", description) == (FunctionTool("n__f"),)


def test_no_tools_have_no_description() -> None:
    assert about_all([], "n__", "Of n.") == ()
