import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from adapters import registry
from server.settings import DEMO_NAME, REMOTE_NAME, Settings


def problem(**options: Any) -> str:
    """What is wrong with the options, in pydantic's words."""
    with pytest.raises(ValidationError) as refusal:
        Settings(**options)
    (error,) = refusal.value.errors()
    return ".".join(map(str, error["loc"])) + ": " + error["msg"]


def test_every_option_has_a_default_and_a_description() -> None:
    Settings()
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


def test_the_option_that_hides_reasoning_lists_what_it_refuses() -> None:
    description = Settings.model_fields["raw_reasoning"].description or ""
    assert all(
        name in description for name in ("/v1/completions", "rendered prompts", "return_token_ids")
    )


def test_the_backends_that_an_option_names_are_those_that_there_are() -> None:
    def named(option: str) -> set[str]:
        words = re.split(r"[,: ]+", Settings.model_fields[option].description or "")
        return set(words) & set(registry.names())

    assert named("backend") == {*registry.BUILT_IN} >= {"sglang", "llama-cpp", "vllm-http"}
    assert named("backend_url") == {"sglang", "llama-cpp", "vllm-http"}


KEY = "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LTMyISE="

VARIABLES = {
    "hosted_tools": ("none", "none"),
    "max_tool_rounds": ("3", 3),
    "tool_timeout": ("python=3", "python=3"),
    "answer_timeout": ("2.5", 2.5),
    "model": ("m", "m"),
    "served_model_name": ("a, b,", ("a", "b")),
    "backend": ("plug-in", "plug-in"),
    "backend_option": ("a=1,b=2", ("a=1", "b=2")),
    "backend_url": ("http://a, http://b", ("http://a", "http://b")),
    "engine_arg": ("a=1,b=2", ("a=1", "b=2")),
    "host": ("::", "::"),
    "port": ("1", 1),
    "api_key": ("k1,k2", ("k1", "k2")),
    "api_key_file": (__file__, Path(__file__)),
    "allow_anonymous": ("true", True),
    "share_cache": ("true", True),
    "allowed_host": ("a.example, *.b.example:1", ("a.example", "*.b.example:1")),
    "cors_origin": ("*", ("*",)),
    "playground": ("true", True),
    "raw_reasoning": ("hide", "hide"),
    "unsupported_input": ("error", "error"),
    "constrain": ("always", "always"),
    "default_max_output_tokens": ("7", 7),
    "repetition_guard": ("off", "off"),
    "reasoning_summary": ("model", "model"),
    "summary_patience": ("0.5", 0.5),
    "parallel_calls": ("true", True),
    "search": ("brave, files:/docs", ("brave", "files:/docs")),
    "fetch_allow_private": ("10.1.2.3/16, fd00::/8", ("10.1.0.0/16", "fd00::/8")),
    "fetch_allow_domain": ("a.example:8080", ("a.example:8080",)),
    "egress_proxy": ("http://user:pass@proxy:3128", "http://user:pass@proxy:3128"),
    "robots": ("false", False),
    "reasoning_content": ("true", True),
    "store": ("sqlite:///x.db", "sqlite:///x.db"),
    "store_ttl": ("1", 1),
    "store_patience": ("5", 5),
    "store_connections": ("3", 3),
    "files": ("folder", "folder"),
    "max_file_bytes": ("1", 1),
    "max_owner_file_bytes": ("1", 1),
    "max_containers": ("1", 1),
    "max_container_memory": ("64g", "64g"),
    "encryption_key": (f"{KEY}, {KEY}", (KEY, KEY)),
    "python_sandbox": ("http://sandbox:8001", "http://sandbox:8001"),
    "python_sandbox_key": ("k", "k"),
    "python_folder": ("/srv/python", Path("/srv/python")),
    "python_sessions": ("5", 5),
    "max_running": ("2", 2),
    "max_waiting": ("0", 0),
    "max_connections": ("1", 1),
    "max_connections_per_address": ("1", 1),
    "limit_concurrency": ("1", 1),
    "max_body_bytes": ("1", 1),
    "max_body_memory": ("200000000", 200_000_000),
    "max_unread": ("1", 1),
    "drain_seconds": ("0.5", 0.5),
    "log_level": ("debug", "debug"),
}


@pytest.mark.parametrize(
    ("variable", "items"),
    [
        ("""["a={\\"x\\": 1, \\"y\\": 2}", "b=1,2"]""", ('a={"x": 1, "y": 2}', "b=1,2")),
        (' [ "a=1" ] ', ("a=1",)),
        ("[]", ()),
    ],
)
def test_a_variable_may_hold_a_json_array(
    variable: str, items: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPT_OSS_BACKEND_OPTION", variable)
    assert Settings().backend_option == items


def test_an_ipv6_address_is_no_json_array(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPT_OSS_ALLOWED_HOST", "[::1]:80, a.example")
    assert Settings().allowed_host == ("[::1]:80", "a.example")


@pytest.mark.parametrize("name", ["api_key", "encryption_key"])
@pytest.mark.parametrize("variable", [" , ", " ", "[]"])
def test_a_variable_of_keys_has_one(
    name: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"GPT_OSS_{name.upper()}", variable)
    assert problem().startswith(f"{name}: Value error, the variable has no key in it")


def test_keys_come_from_a_file_too(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_bytes(b"\xef\xbb\xbfk1\r\n\n k\xff2 ")
    assert Settings(api_key=("k0",), api_key_file=file).api_keys == ("k0", "k1", "k\udcff2")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "the file cannot be read: No such file or directory"),
        (b" \n\n", "the file has no key in it"),
        (b"a\0b", "a key must not have control characters"),
    ],
)
def test_a_file_without_keys_is_refused(content: bytes | None, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    if content is not None:
        file.write_bytes(content)
    assert problem(api_key_file=file) == f": Value error, --api-key-file: {reason}"


def test_a_port_that_kubernetes_sets_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPT_OSS_PORT", "tcp://10.0.0.1:8000")
    assert problem().endswith("set enableServiceLinks: false in the spec of the pod")


@pytest.mark.parametrize(
    ("variable", "reason"), [('["a=1"', "cannot be read"), ('["a=1", 2]', "has to be a string")]
)
def test_a_broken_json_array_is_refused(
    variable: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPT_OSS_ENGINE_ARG", variable)
    assert reason in problem()


@pytest.mark.parametrize("name", VARIABLES)
def test_every_option_is_a_variable(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    value, meant = VARIABLES[name]
    monkeypatch.setenv(f"GPT_OSS_{name.upper()}", value)
    if name in (backends := {"engine_arg": "vllm", "backend_url": "sglang"}):
        monkeypatch.setenv("GPT_OSS_BACKEND", backends[name])  # others do not take it
    assert getattr(Settings(), name) == meant


SUMMARY_OPTIONS = {
    "summary_model": "guard",
    "summary_url": "http://guard:8000/v1",
    "summary_key": "k",
}


def test_the_options_of_a_model_that_writes_summaries_are_variables_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.md"
    policy.write_text("Be kind.")
    for name, value in {**SUMMARY_OPTIONS, "summary_policy": str(policy)}.items():
        monkeypatch.setenv(f"GPT_OSS_{name.upper()}", value)
    settings = Settings(reasoning_summary="model")
    assert {name: getattr(settings, name) for name in SUMMARY_OPTIONS} == SUMMARY_OPTIONS
    assert settings.summary_policy == policy
    assert "summary_key" not in repr(settings)


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({}, "extractive"),
        ({"raw_reasoning": "hide"}, "off"),
        ({"raw_reasoning": "hide", "reasoning_summary": "model"}, "model"),
        ({"raw_reasoning": "hide", "reasoning_summary": "off"}, "off"),
        ({"reasoning_summary": "off"}, "off"),
        ({"reasoning_summary": "model", "summary_model": DEMO_NAME}, "model"),
    ],
)
def test_who_writes_summaries_depends_on_what_is_shown(options: Any, kind: str) -> None:
    assert Settings(**options).summary_kind == kind


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            {"raw_reasoning": "hide", "reasoning_summary": "extractive"},
            "extractive would show the reasoning that --raw-reasoning hide hides",
        ),
        ({"summary_model": "m"}, "--summary-model needs --reasoning-summary model"),
        (
            {"reasoning_summary": "model", "summary_model": "m", "summary_url": "http://a:0"},
            "expected a URL such as http://host:8000/v1",
        ),
        (
            {"raw_reasoning": "hide", "summary_url": "http://a"},
            "--summary-url needs --reasoning-summary model",
        ),
        (
            {"reasoning_summary": "model", "summary_url": "http://a"},
            "--summary-url needs --summary-model",
        ),
        ({"reasoning_summary": "model", "summary_key": "k"}, "--summary-key needs --summary-url"),
        (
            {"reasoning_summary": "model", "summary_model": "m"},
            "--summary-model names a model that this server does not have",
        ),
        ({"reasoning_summary": "model", "summary_url": "ftp://a"}, "expected a URL"),
        ({"reasoning_summary": "model", "summary_policy": "/none.md"}, "cannot be read"),
        ({"summary_patience": -1}, "summary_patience: Input should be greater"),
        ({"reasoning_summary": "raw"}, "reasoning_summary: Input should be"),
    ],
)
def test_options_of_summaries_that_do_not_fit_are_refused(options: Any, reason: str) -> None:
    assert reason in problem(**options)


def test_the_script_is_a_variable_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPT_OSS_SCRIPT", "s.jsonl")
    monkeypatch.setenv("GPT_OSS_BACKEND", "scripted")
    assert Settings().script == "s.jsonl"
    assert {*VARIABLES, "script", "mcp", "summary_policy", *SUMMARY_OPTIONS} == {
        *Settings.model_fields
    }


def test_the_file_of_mcp_servers_is_read_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mcp.toml"
    file.write_text('[servers.docs]\nurl = "https://docs.example/mcp"\n')
    monkeypatch.setenv("GPT_OSS_MCP", str(file))
    assert Settings().mcp == file
    file.write_text('[servers.container]\nurl = "https://docs.example/mcp"\n')
    assert "this label names a built-in tool" in problem()
    monkeypatch.setenv("GPT_OSS_MCP", str(tmp_path / "none.toml"))
    assert "none.toml cannot be read: No such file" in problem()


def test_a_sandbox_is_a_process_or_a_url() -> None:
    assert Settings(python_sandbox="https://sandbox").python_sandbox == "https://sandbox"
    with pytest.raises(ValidationError, match="process, or a URL"):
        Settings(python_sandbox="docker")


def test_a_body_fits_into_the_memory_for_bodies_compressed_and_decoded() -> None:
    Settings(max_body_bytes=10, max_body_memory=30)
    assert "at least three times" in problem(max_body_bytes=10, max_body_memory=29)


def test_an_empty_variable_of_tools_names_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPT_OSS_HOSTED_TOOLS", "")
    assert Settings().hosted_tool_names == ()
    assert Settings(hosted_tools="python").hosted_tool_names == ("python",)


@pytest.mark.parametrize("url", ["http://x:99999", "http://x:0", "http://xn--"])
def test_a_url_has_a_host_and_a_port_that_can_be(url: str) -> None:
    with pytest.raises(ValidationError, match="process, or a URL"):
        Settings(python_sandbox=url)


@pytest.mark.parametrize("name", sorted(set(VARIABLES) - {"hosted_tools"}))
def test_an_empty_variable_is_not_set(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"GPT_OSS_{name.upper()}", "")
    assert Settings() == Settings.model_construct()


def test_an_option_wins_over_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPT_OSS_API_KEY", "variable")
    monkeypatch.setenv("GPT_OSS_PORT", "1")
    settings = Settings(api_key=("flag",), port=2)
    assert (settings.api_key, settings.port) == (("flag",), 2)


def test_the_value_of_an_option_may_contain_commas() -> None:
    assert Settings(backend_option=('a={"b":1,"c":2}',)).backend_options == {"a": '{"b":1,"c":2}'}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"port": "70000"}, "port: Input should be less than or equal to 65535"),
        ({"port": "http"}, "port: Input should be a valid integer"),
        ({"raw_reasoning": "maybe"}, "raw_reasoning: Input should be 'show' or 'hide'"),
        ({"max_running": 0}, "max_running: Input should be greater than or equal to 1"),
        ({"max_waiting": -1}, "max_waiting: Input should be greater than or equal to 0"),
        ({"max_connections": 0}, "max_connections: Input should be greater than or equal to 1"),
        ({"limit_concurrency": 0}, "limit_concurrency: Input should be greater than or equal"),
        ({"drain_seconds": "inf"}, "drain_seconds: Input should be a finite number"),
        ({"log_level": "loud"}, "log_level: Input should be 'debug'"),
        ({"backend_option": ["x"]}, "backend_option: Value error, 'x' is not NAME=VALUE"),
        ({"engine_arg": ["x"]}, "engine_arg: Value error, 'x' is not NAME=VALUE"),
        ({"engine_arg": ["x=1"]}, ": Value error, --engine-arg is for --backend vllm; other"),
        ({"backend_url": ["http://a"]}, ": Value error, --backend-url is for the backends"),
        ({"backend": "scripted"}, ": Value error, --backend scripted and --script FILE"),
        ({"script": "s.jsonl"}, ": Value error, --backend scripted and --script FILE"),
        ({"search": ["gogle"]}, "search: Value error, 'gogle' is no search provider; there are"),
        ({"search": ["searxng"]}, "search: Value error, searxng needs a URL, as in searxng:http"),
        ({"search": ["brave:foo"]}, "search: Value error, brave needs a URL, as in brave:http"),
        ({"fetch_allow_private": ["x"]}, "fetch_allow_private: Value error, 'x' does not appear"),
        ({"fetch_allow_domain": ["a:b"]}, "fetch_allow_domain: Value error, 'a:b' is not a domain"),
        ({"egress_proxy": "proxy:1"}, "egress_proxy: Value error, the proxy is a URL such as"),
        ({"egress_proxy": "http://h\n"}, "egress_proxy: Value error, the proxy is a URL such as"),
        ({"egress_proxy": "http://u:p@"}, "egress_proxy: Value error, the proxy is a URL such as"),
        ({"egress_proxy": "http://h/p"}, "egress_proxy: Value error, the proxy is a URL such as"),
        ({"egress_proxy": "http://h?q"}, "egress_proxy: Value error, the proxy is a URL such as"),
        ({"python_sandbox": "http://"}, "python_sandbox: Value error, process, or a URL such as"),
        ({"python_sandbox": "http://h\n"}, "python_sandbox: Value error, process, or a URL such"),
        ({"api_key": [""]}, "api_key: Value error, a key must not be empty"),
        ({"api_key": ["k", "k\n"]}, "api_key: Value error, a key must not be empty, or begin"),
        ({"api_key": ["a\nb"]}, "api_key: Value error, a key must not have control characters"),
        ({"allowed_host": ["https://a.example"]}, "allowed_host: Value error, expected a name"),
        ({"allowed_host": [""]}, "allowed_host: Value error, expected a name such as"),
        ({"served_model_name": [""]}, "served_model_name: Value error, a name must not be empty"),
        ({"served_model_name": ["a\nb"]}, "served_model_name: Value error, a name must not"),
        ({"cors_origin": ["a.example"]}, "cors_origin: Value error, expected * or an origin"),
        ({"cors_origin": ["https://a.example/"]}, "cors_origin: Value error, expected * or an"),
        ({"cors_origin": ["https://:443"]}, "cors_origin: Value error, expected * or an"),
        ({"cors_origin": ["https://:8443"]}, "cors_origin: Value error, expected * or an"),
        ({"cors_origin": ["https://u@a"]}, "cors_origin: Value error, expected * or an"),
        ({"tool_timeout": "pyhton=9"}, "tool_timeout: Value error, unknown hosted tool 'pyhton'"),
        ({"colour": "red"}, "colour: Extra inputs are not permitted"),
    ],
)
def test_a_bad_value_is_refused_by_name(options: dict[str, Any], reason: str) -> None:
    assert problem(**options).startswith(reason)


def test_origins_are_compared_as_browsers_write_them() -> None:
    origins = ("*", "null", "https://A.example:8443", "chrome-extension://abc")
    assert Settings(cors_origin=origins).cors_origin == tuple(map(str.lower, origins))


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("https://a.example:443", "https://a.example"),
        ("http://[::1]:80", "http://[::1]"),
        ("http://a.example:443", "http://a.example:443"),
        ("https://a.example:8443", "https://a.example:8443"),
        ("https://a.example:1443", "https://a.example:1443"),
    ],
)
def test_the_default_port_of_an_origin_is_left_out(written: str, sent: str) -> None:
    assert Settings(cors_origin=(written,)).cors_origin == (sent,)


def test_keys_are_never_shown() -> None:
    proxy = "http://user:hunter2@proxy:1"
    shown = repr(Settings(api_key=("hunter2",), encryption_key=(KEY,), egress_proxy=proxy))
    assert "hunter2" not in shown
    assert KEY not in shown
    with pytest.raises(ValidationError) as refusal:
        Settings(api_key=("hunter2",), script="s.jsonl")
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize(
    "options",
    [
        {"backend_option": ("api_key=hunter2",)},
        {"backend": "sglang", "backend_url": ("http://user:hunter2@engine",)},
        {"backend": "vllm", "engine_arg": ("hf_token=hunter2",)},
    ],
)
def test_secrets_of_engines_are_never_shown(options: Any) -> None:
    assert "hunter2" not in repr(Settings(**options))


def test_served_names_are_the_names_that_clients_use() -> None:
    assert Settings(
        model="m",
        served_model_name=(
            "a",
            "b",
            "a",
        ),
    ).model_names == ("a", "b")


@pytest.mark.parametrize("model", ["openai/gpt-oss-20b", "a" * 300])
def test_the_default_name_of_what_is_no_folder_is_the_models(model: str) -> None:
    assert Settings(model=model).model_names == (model,)


def test_the_default_name_of_a_folder_is_the_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "checkpoint-7"
    folder.mkdir()
    assert Settings(model=f"{folder}/").model_names == ("checkpoint-7",)
    monkeypatch.chdir(folder)
    assert Settings(model=".").model_names == ("checkpoint-7",)


def test_without_a_model_the_name_depends_on_the_backend() -> None:
    assert Settings().model_names == (DEMO_NAME,)
    assert Settings(backend="scripted", script="s.jsonl").model_names == ("scripted",)
    assert Settings(backend="vllm-http", backend_url=("http://a",)).model_names == (REMOTE_NAME,)
    # The URL may be an option of the engine, too.
    assert Settings(backend="vllm-http").model_names == (REMOTE_NAME,)


def test_the_script_is_an_option_of_its_backend() -> None:
    settings = Settings(backend="scripted", script="s.jsonl", backend_option=("a=b=c",))
    assert settings.backend_options == {"a": "b=c", "script": "s.jsonl"}


@pytest.mark.parametrize("backend", registry.REMOTE)
def test_an_engine_without_a_url_is_not_given_the_demo_checkpoint(backend: str) -> None:
    assert not Settings(backend=backend).is_demo


def test_engine_arguments_and_urls_are_options_of_the_backend() -> None:
    settings = Settings(backend="vllm", engine_arg=('x={"a":1,"b":2}',))
    assert settings.backend_options == {"x": '{"a":1,"b":2}'}
    settings = Settings(backend="sglang", backend_url=("http://a", "http://b"))
    assert settings.backend_options == {"url": "http://a,http://b"}


def test_an_option_of_the_engine_is_set_in_one_way() -> None:
    both = {"backend_option": ("max-num-seqs=1",), "engine_arg": ("max_num_seqs=2", "dtype=auto")}
    reason = "--backend-option and --engine-arg both set max_num_seqs"
    assert problem(backend="vllm", **both) == f": Value error, {reason}"


@pytest.mark.parametrize(("host", "name"), [("::1", "[::1]"), ("box.lan", "box.lan")])
def test_the_address_to_listen_on_is_an_allowed_host(host: str, name: str) -> None:
    assert Settings(host=host, allowed_host=("a",)).allowed_hosts == (name, "a")


@pytest.mark.parametrize(
    ("host", "playground", "is_served"),
    [
        ("127.0.0.1", None, True),
        ("::1", None, True),
        ("0.0.0.0", None, False),
        ("127.0.0.1", False, False),
        ("0.0.0.0", True, True),
    ],
)
def test_the_playground_is_served_to_this_machine_alone_unless_it_is_set(
    host: str, playground: bool | None, is_served: bool
) -> None:
    assert Settings(host=host, playground=playground).serves_playground is is_served


def test_the_bounds_on_connections_are_options() -> None:
    limits = Settings(max_connections=1, max_connections_per_address=2, limit_concurrency=3).limits
    assert (limits.connections, limits.connections_per_address, limits.requests) == (1, 2, 3)


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({}, 1024),
        ({"default_max_output_tokens": 5}, 5),
        ({"default_max_output_tokens": 131_072}, 131_072),
        ({"model": "openai/gpt-oss-20b"}, None),
        ({"model": "openai/gpt-oss-20b", "default_max_output_tokens": 5}, 5),
        ({"backend": "vllm-http", "backend_url": ("http://a",)}, None),
        ({"backend": "scripted", "script": "s"}, None),
    ],
)
def test_only_the_demo_checkpoint_has_a_limit_of_its_own(
    options: dict[str, Any], limit: int | None
) -> None:
    assert Settings(**options).max_output_tokens == limit


def test_a_default_limit_is_at_least_one() -> None:
    assert problem(default_max_output_tokens=0).startswith("default_max_output_tokens")


@pytest.mark.parametrize(
    ("value", "names"),
    [(None, None), ("none", ()), ("", ()), ("python, python", ("python",))],
)
def test_hosted_tools_are_names(value: str | None, names: tuple[str, ...] | None) -> None:
    assert Settings(hosted_tools=value).hosted_tool_names == names


def test_an_unknown_hosted_tool_is_refused() -> None:
    assert "unknown hosted tool 'a'; there are python" in problem(hosted_tools="python,a")


def test_time_limits_of_tools_have_names() -> None:
    assert Settings().tool_timeouts["python"] == 120
    limits = Settings(tool_timeout="mcp=5, mcp.label=4, python=1.5").tool_timeouts
    assert (limits["mcp"], limits["mcp.label"], limits["python"]) == (5, 4, 1.5)


@pytest.mark.parametrize("value", ["python", "python=x", "python=0", "python=inf", "python=nan"])
def test_a_time_limit_is_a_name_and_seconds(value: str) -> None:
    assert "is not NAME=SECONDS" in problem(tool_timeout=value)


def test_files_are_found_again_as_their_rows_are(tmp_path: Path) -> None:
    assert Settings(store="memory").files_folder is None
    assert Settings(files=str(tmp_path)).files_folder == tmp_path
    folder = Settings().files_folder
    assert folder is not None
    assert folder.parts[-2:] == ("gpt-oss-server", "files")
    assert "--store memory" in problem(store="memory", files="x")


@pytest.mark.parametrize("option", ["files", "python_folder"])
def test_a_folder_without_a_name_is_not_the_current_one(option: str) -> None:
    assert "expected the name of a folder" in problem(**{option: ""})
