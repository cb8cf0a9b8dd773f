"""The operator's file of servers."""

from pathlib import Path

import pytest

from server.tools.mcp.servers import Server, load_servers


def load(tmp_path: Path, text: str) -> dict[str, Server]:
    path = tmp_path / "mcp.toml"
    path.write_text(text, encoding="utf-8")
    return load_servers(path)


def test_each_table_is_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCS_TOKEN", "secret")

    servers = load(
        tmp_path,
        """
        [servers.docs]
        url = "http://10.0.0.1/mcp"
        headers = { Authorization = "Bearer ${DOCS_TOKEN}" }
        allowed_tools = ["search"]
        require_approval = { never = { read_only = true } }
        timeout = 5.0
        allow_private = true

        [servers.files]
        command = "npx -y 'a server'"
        args = ["/data"]
        env = { LEVEL = "info" }
        """,
    )

    docs, files = servers["docs"], servers["files"]
    assert docs.headers == {"authorization": "Bearer secret"}
    assert (docs.timeout, docs.allow_private) == (5.0, True)
    assert docs.allows("search", read_only=False)
    assert not docs.allows("other", read_only=True)
    assert not docs.needs_approval("search", read_only=True)
    assert files.command == ("npx", "-y", "a server", "/data")
    assert files.env == {"LEVEL": "info"}
    assert files.origin is None
    assert "secret" not in repr(docs)


def test_a_file_without_servers_is_empty(tmp_path: Path) -> None:
    assert load(tmp_path, "") == {}


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    assert load(tmp_path, '\ufeff[servers.a]\nurl = "https://a"').keys() == {"a"}


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mcp.toml"

    with pytest.raises(ValueError, match=rf"^{path} cannot be read: No such file"):
        load_servers(path)


INVALID = {
    "no TOML": ("[", "is not TOML (at end of document)"),
    "a line that is no TOML": ("a = 1\nhunter2\n", "is not TOML (at line 2, column 8)"),
    "another table": ("[other]", "expected tables"),
    "servers that are no tables": ("servers = 1", "expected tables"),
    "a label": ('[servers."a b"]\nurl = "https://a"', "letters"),
    "a label of a built-in tool": ('[servers.container]\nurl = "https://a"', "a built-in tool"),
    "neither url nor command": ("[servers.a]", "either url or command"),
    "both": ('[servers.a]\nurl = "https://a"\ncommand = "b"', "either url or command"),
    "an unknown key": ('[servers.a]\nurl = "https://a"\ntoken = "hunter2"', "token"),
    "a wrong type": ('[servers.a]\nurl = "https://a"\nheaders = { a = 7 }', "headers.a"),
    "no port": ('[servers.a]\nurl = "https://me:hunter2"', "a valid host and port"),
    "http": ('[servers.a]\nurl = "http://a"', "https"),
    "headers for a program": ('[servers.a]\ncommand = "b"\nheaders = { a = "b" }', "with url"),
    "env for a URL": ('[servers.a]\nurl = "https://a"\nenv = { a = "b" }', "with command"),
    "a rule": ('[servers.a]\nurl = "https://a"\nrequire_approval = "some"', "'always'"),
    "a filter": ('[servers.a]\nurl = "https://a"\nallowed_tools = 7', "array of names"),
    "a timeout": ('[servers.a]\nurl = "https://a"\ntimeout = 0.0', "timeout"),
    "an unset variable": (
        '[servers.a]\nurl = "https://a"\nheaders = { a = "${NOT_SET_ANYWHERE}" }',
        "NOT_SET_ANYWHERE",
    ),
    "a header": ('[servers.a]\nurl = "https://a"\nheaders = { a = "hunter2\\n" }', "header"),
}


@pytest.mark.parametrize("case", INVALID)
def test_an_invalid_file_is_refused_without_its_values(case: str, tmp_path: Path) -> None:
    text, words = INVALID[case]

    with pytest.raises(ValueError, match=r"mcp\.toml") as error:
        load(tmp_path, text)

    assert words in str(error.value)
    assert "hunter2" not in str(error.value)


def test_the_identity_depends_on_headers_and_the_address_does_not() -> None:
    one = Server("a", url="https://a", headers={"authorization": "1"})
    two = Server("a", url="https://a", headers={"authorization": "2"})

    assert one.identity != two.identity
    assert one.address == two.address


def test_the_origin_has_no_path_and_no_query() -> None:
    server = Server("a", url="https://mcp.example:8443/team/mcp?key=secret-key")

    assert server.origin == "https://mcp.example:8443"


def test_headers_variables_and_the_query_are_secrets() -> None:
    web = Server(
        "a", url="https://a/mcp?key=secret%20key&b=1", headers={"authorization": "Bearer token-1"}
    )
    program = Server("b", command=("b",), env={"KEY": "variable"})

    assert web.redactor.clean("secret key, key=secret%20key&b=1") == "[redacted], [redacted]"
    assert web.redactor.clean("token-1 of https://a/mcp") == "[redacted] of https://a/mcp"
    assert program.redactor.clean("variable") == "[redacted]"
