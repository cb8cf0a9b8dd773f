"""The places of instructions, tools and the client's system messages."""

from harmony.messages import (
    Author,
    DeveloperContent,
    FunctionTool,
    Message,
    ResponseFormat,
    Role,
    SystemContent,
    ToolNamespace,
)
from server.replay.conversation import conversation, developer

SYSTEM = SystemContent(start_date="2026-01-31")
USER = Message(Author(Role.USER), "hi")
TOOLS = (ToolNamespace("functions", tools=(FunctionTool("f"),)),)
FORMATS = (ResponseFormat("n", {}),)


def test_a_user_message_alone_has_no_developer_message() -> None:
    assert conversation(SYSTEM, [USER]).messages == (Message(Author(Role.SYSTEM), SYSTEM), USER)


def test_leading_instructions_are_one_developer_message() -> None:
    read = conversation(
        SYSTEM,
        [developer("one"), developer("two"), USER, developer("three")],
        instructions="zero",
        tools=TOOLS,
        formats=FORMATS,
    )
    assert read.messages[1:] == (
        Message(Author(Role.DEVELOPER), DeveloperContent("zero\n\none\n\ntwo", TOOLS, FORMATS)),
        USER,
        developer("three"),
    )


def test_empty_instructions_are_omitted() -> None:
    read = conversation(SYSTEM, [developer(""), USER], instructions="", tools=TOOLS)
    assert read.messages[1].content == DeveloperContent(None, TOOLS)
