"""The documentation says what is so: its code, commands, options, endpoints, fields and names."""

import ast
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastapi.routing import APIRoute, APIWebSocketRoute

from adapters.base import BackendConfig
from adapters.http import options as http_options
from adapters.local import options as local_options
from adapters.scripted import ScriptedBackend
from server import errors
from server.app import create_app
from server.commands import serve
from server.commands.main import main
from server.commands.option_help import option
from server.generation.hosted_calls import GRACE_SECONDS
from server.http import idempotency
from server.http.answers.sse import PING_SECONDS
from server.http.connections.write_timeout import WRITE_SECONDS
from server.persistence.maintenance import HEARTBEAT_SECONDS, SILENT_SECONDS
from server.replay import recall
from server.responses import lanes, websocket
from server.schemas.chat import CreateChatCompletion
from server.schemas.files import LEAST_LIFETIME, MOST_LIFETIME
from server.schemas.legacy_completions import MAX_BEST_OF
from server.schemas.responses import CreateResponse
from server.settings import Settings
from server.store.approvals.base import KEEP_SECONDS
from server.store.memory_size import CAPACITY, MOST_BYTES
from server.store.responses.sql import _CHECK_BYTES
from tests.documentation import PAGES, README, ROOT, blocks, commands, inline, section, table, text

DOCS = ROOT / "docs"
OTHERS = ("CONTRIBUTING", "SECURITY", "demo/README")
PROSE = [README, *PAGES, *(ROOT / f"{name}.md" for name in OTHERS)]
CONFIG = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]
COMPOSE_TEXT = (ROOT / "docker-compose.yml").read_text()
COMPOSE = yaml.safe_load(COMPOSE_TEXT)
DOCKERFILE = (ROOT / "Dockerfile").read_text()
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
REQUESTS: dict[str, type[CreateResponse | CreateChatCompletion]] = {
    "responses": CreateResponse,
    "chat/completions": CreateChatCompletion,
}
FLAGS = {option(name).flag for name in Settings.model_fields}
OTHERS_FLAGS = {
    "--base-url",
    "--check",
    "--data-parallel-size",
    "--enable-deterministic-inference",
    "--enable-prompt-tokens-details",
    "--enable-scale-out",
    "--grammar-backend",
    "--help",
    "--json",
    "--max-logprobs",
    "--max-num-seqs",
    "--no-enable-chunked-prefill",
    "--only",
    "--parallel",
    "--profile",
    "--scheduling-policy",
    "--strict",
    "--tools",
}
"""Flags of engines and of other commands."""
WRITTEN = [page for page in PROSE if page.name != "modules.md"]
"""What is not made of docstrings, which speak of engines' interfaces, too."""


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


# The site


def test_the_readme_is_short() -> None:
    assert text(README).count("\n") <= 130


def test_every_page_is_in_the_navigation() -> None:
    entries = [
        entry for top in CONFIG["nav"] for value in top.values() for entry in _entries(value)
    ]
    assert sorted(entries) == [page.name for page in PAGES]


def _entries(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [name for each in value for name in each.values()]


@pytest.mark.parametrize("page", PROSE, ids=named)
def test_links_to_files_lead_somewhere(page: Path) -> None:
    """Those between pages are checked, with their anchors, when the site is built."""
    links = re.findall(r"\]\(([^)#\s]+)", text(page))
    files = [link for link in links if not link.startswith(("http://", "https://", "mailto:"))]
    assert [link for link in files if not (page.parent / link).exists()] == []


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A copy of what the site is built from."""
    shutil.copytree(DOCS, tmp_path / "docs")
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    return tmp_path


def build(site: Path) -> subprocess.CompletedProcess[str]:
    program = shutil.which("zensical", path=Path(sys.executable).parent)
    assert program is not None
    command = [program, "build", "--strict"]
    return subprocess.run(command, cwd=site, capture_output=True, text=True, check=False)


def test_a_built_page_loads_nothing_from_elsewhere(site: Path) -> None:
    done = build(site)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = list((site / "build/docs").glob("*.html"))
    assert {page.stem for page in pages} >= {page.stem for page in PAGES}
    for page in pages:
        loaded = re.findall(r"<(?:link|script|img)[^>]*(?:href|src)=\"?([^\s\">]+)", text(page))
        assert [url for url in loaded if url.startswith(("http", "//"))] == []


def test_broken_links_fail_the_build(site: Path) -> None:
    with (site / "docs/index.md").open("a") as page:
        page.write("\n[x](nowhere.md)\n\n[x](errors.md#nowhere)\n")
    done = build(site)
    assert done.returncode != 0
    assert "page does not exist" in done.stdout + done.stderr
    assert "anchor does not exist" in done.stdout + done.stderr


def test_the_generated_parts_are_in_step() -> None:
    command = [sys.executable, "docs/generate.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_options_are_quoted_together_with_their_values() -> None:
    choices = {each.flag: each.choices for each in map(option, Settings.model_fields)}
    apart = re.findall(r"`(--[a-z-]+)` (\w+)", text(DOCS / "options.md"))
    assert [each for each in apart if each[1] in choices[each[0]] or each[1].isupper()] == []


def test_a_page_out_of_step_is_named(tmp_path: Path) -> None:
    for name in ("server", "harmony", "adapters", "demo"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copytree(DOCS, tmp_path / "docs")
    page = tmp_path / "docs/options.md"
    page.write_text(text(page).replace("--max-running", "--most-running"))
    command = [sys.executable, "docs/generate.py"]
    check = [*command, "--check"]
    failed = subprocess.run(check, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (failed.returncode, failed.stderr.split()[0]) == (1, "docs/options.md")
    subprocess.run(command, cwd=tmp_path, check=True)
    assert text(page) == text(DOCS / "options.md")


# Code and commands


@pytest.mark.parametrize("page", PROSE, ids=named)
def test_code_can_be_read(page: Path) -> None:
    """tests/clients/test_docs.py runs that of the pages on clients."""
    for code in blocks(page, "python"):
        compile(code, page.name, "exec")
    for code in blocks(page, "json"):
        json.loads(code)
    for code in blocks(page, "toml"):
        tomllib.loads(code)
    for code in blocks(page, "yaml"):
        yaml.safe_load(code)


def test_no_page_has_code_that_nobody_checks() -> None:
    languages = {
        language
        for page in PROSE
        for language in re.findall(r"^```(.*)$", text(page), re.MULTILINE)
        if language
    }
    assert languages <= {"sh", "python", "json", "toml", "js", "yaml"}


def is_fine(words: list[str]) -> bool:
    """Whether a command of the documentation would be understood."""
    # Variables for the command alone: GPT_OSS_API_KEY=secret docker compose …
    set_for_it = list(takewhile(re.compile(r"\w+=").match, words))
    program, *arguments = words[len(set_for_it) :]
    match [re.sub(r"^\.venv(-vllm)?/bin/", "", program), *arguments]:
        case ["make", *targets]:
            return set(targets) <= TARGETS
        case ["gpt-oss-server", *arguments]:
            return main(arguments) == 0
        case ["export", *variables]:
            return all(
                f"${{{variable.partition('=')[0]}:" in COMPOSE_TEXT for variable in variables
            )
        case ["docker", "compose", *options, "up"]:
            known = {name for each in COMPOSE["services"].values() for name in each["profiles"]}
            return set(options[::2]) == {"--profile"} and set(options[1::2]) <= known
        case ["docker", "build", "-t", _, "--build-arg", choice, "."]:
            name, _, value = choice.partition("=")
            return f"ARG {name}=" in DOCKERFILE and f" AS {value}" in DOCKERFILE
        case ["docker", "build", "-t", _, "."] | ["python3.11", "-m", "venv", ".venv-vllm"]:
            return True
        case ["docker", "run", *arguments] if arguments[-1].startswith("gpt-oss-server:"):
            mounted = re.findall(r"-v \w+:(\S+)", " ".join(arguments))
            return f"\nVOLUME {' '.join(mounted)}\n" in DOCKERFILE
        case ["docker", "run", *arguments]:
            variables = [word for word in arguments if word.startswith("OPENAI_API_")]
            return len(variables) == 2 and arguments[-1].count(":") == 1
        case ["pip", "install", project]:
            extras = project.removeprefix(".[").removesuffix("]").split(",")
            return all(extra in EXTRAS for extra in extras)
        case ["curl", url, *arguments]:
            body = json.loads(arguments[arguments.index("-d") + 1])
            schema = REQUESTS.get(url.removeprefix("http://localhost:8000/v1/"))
            return schema is not None and not schema(**body).model_extra
        case ["vllm", "serve", _, *arguments]:
            (engine,) = {
                tuple(shlex.split(service["command"]))
                for name, service in COMPOSE["services"].items()
                if name.startswith("engine-")
            }
            command_line = " ".join(arguments).replace("=", " ")
            return all(flag.replace("=", " ") in command_line for flag in engine[1:-1])
    return False


@pytest.mark.parametrize("page", PROSE, ids=named)
def test_commands_are_understood(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "serve", lambda settings: None)
    monkeypatch.setattr("server.commands.chat.Chat.run", lambda chat: None)
    monkeypatch.setattr("server.commands.playground.show_playground", lambda options: None)
    monkeypatch.setattr("server.commands.python_sandbox.run_service", lambda options: None)
    assert [" ".join(words) for words in commands(page) if not is_fine(words)] == []


@pytest.mark.parametrize("page", PROSE, ids=named)
def test_commands_in_the_text_exist(page: Path) -> None:
    for code in inline(page):
        if made := re.match(r"make ([\w-]+)", code):
            assert made[1] in TARGETS, code
        if ran := re.match(r"python -m benchmarks\.(\w+)", code):
            folder = ROOT / "benchmarks" / ran[1]
            assert folder.is_dir() or folder.with_suffix(".py").is_file(), code


@pytest.mark.parametrize("page", WRITTEN, ids=named)
def test_options_in_the_text_exist(page: Path) -> None:
    other = ("python -m benchmarks.", "python -m demo.")  # with options of their own
    ours = [code for code in inline(page) if not code.startswith(other)]
    flags = {flag for code in ours for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]+", code)}
    assert flags - FLAGS - OTHERS_FLAGS == set()
    variables = {name.lower() for name in re.findall(r"\bGPT_OSS_([A-Z_]+)\b", text(page))}
    assert variables - set(Settings.model_fields) == set()


# The API


@pytest.fixture(scope="module")
def routes() -> dict[str, set[str]]:
    """The methods of each path that the application serves."""
    config = BackendConfig(None, {}, lambda text: [], lambda ids: "", lambda: None)
    app = create_app(Settings(backend="scripted", script="unused"), ScriptedBackend(config))
    found: dict[str, set[str]] = {}
    for route in app.routes:
        if isinstance(route, APIRoute | APIWebSocketRoute):
            path = re.sub(r"\{(\w+):\w+\}", r"{\1}", route.path)
            methods = route.methods if isinstance(route, APIRoute) else {"WebSocket"}
            found.setdefault(path, set()).update(methods - {"HEAD"})
    return found


def documented() -> dict[str, set[str]]:
    """The methods of each path that the pages name."""
    found: dict[str, set[str]] = {}
    for page in WRITTEN:
        for line in text(page).splitlines():
            methods: set[str] = set()
            for code in re.findall(r"`([^`]+)`(?: \((WebSocket)\))?", line):
                named = re.match(r"(?:(GET|POST|DELETE) ?)?(/[\w/{}.]*)?(?:\?|$)", code[0])
                if named is None:
                    continue
                methods |= {method for method in (named[1], code[1]) if method}
                if named[2]:
                    found.setdefault(named[2], set()).update(methods)
                    methods = set()
    return found


def test_every_endpoint_is_documented(routes: dict[str, set[str]]) -> None:
    pages = documented()
    assert {path: methods - pages.get(path, set()) for path, methods in routes.items()} == {
        path: set() for path in routes
    }


def test_every_endpoint_that_is_documented_exists(routes: dict[str, set[str]]) -> None:
    paths = {path: methods for path, methods in documented().items() if methods}
    assert {path: methods - routes.get(path, set()) for path, methods in paths.items()} == {
        path: set() for path in paths
    }


@pytest.mark.parametrize("field", CreateResponse.model_fields)
def test_the_page_on_responses_describes_each_field(field: str) -> None:
    rows = table(section(DOCS / "responses.md", "Request fields"))
    assert any(f"`{field}`" in row[0] for row in rows)


def strings_and_codes() -> tuple[set[Any], set[Any]]:
    """The literals of the server's sources, and the codes that these give to errors by name."""
    literals: set[Any] = set()
    codes: set[Any] = set()
    for path in (ROOT / "server").rglob("*.py"):
        source = text(path)
        codes |= set(re.findall(r'(?:\bcode=|default_code = |"code": )"(\w+)"', source))
        for node in ast.walk(ast.parse(source)):
            match node:
                case ast.Constant(value=value):
                    literals.add(value)
                case ast.Call(func=ast.Name(id="invalid"), args=[_, _, ast.Constant(value), *_]):
                    codes.add(value)
    return literals, codes


def documented_errors() -> list[tuple[int, list[str]]]:
    """Status and codes of each row."""
    rows = table(section(DOCS / "errors.md", "Statuses and codes"))
    return [(int(row[0]), re.findall(r"`(\w+)`", row[1])) for row in rows]


def test_every_code_of_an_error_is_documented() -> None:
    codes = {code for _, named in documented_errors() for code in named}
    literals, given = strings_and_codes()
    assert given - codes == set()
    assert codes - literals == set()


def expected(source: str) -> set[Any]:
    """The literals that tests expect: those of their assertions, and of their parameters."""
    return {
        literal.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Assert)
        or (isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.parametrize")
        for literal in ast.walk(node)
        if isinstance(literal, ast.Constant)
    }


def test_only_what_a_test_compares_is_expected() -> None:
    row = '@pytest.mark.parametrize("code", [(404, "a")])\ndef test_x(code: str) -> None:\n'
    assert expected(row + '    y = "b"\n    assert code == "c", y\n') == {"code", 404, "a", "c"}


def test_every_code_of_an_error_is_expected_by_a_test() -> None:
    codes = {code for _, named in documented_errors() for code in named}
    tests = (text(path) for path in (ROOT / "tests").rglob("test_*.py"))
    assert codes - set().union(*map(expected, tests)) == set()


def error_kinds() -> list[type[errors.APIError]]:
    kinds = [errors.APIError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    return kinds


def test_every_status_of_an_error_is_documented() -> None:
    statuses = {status for status, _ in documented_errors()}
    assert {kind.status for kind in error_kinds()} - statuses == set()
    for kind in error_kinds():
        if kind.default_code is not None:
            assert (kind.status, kind.default_code) in {
                (status, code) for status, named in documented_errors() for code in named
            }


def test_every_type_of_an_error_is_documented() -> None:
    page = text(DOCS / "errors.md").partition("\n## ")[0]
    assert {kind.type for kind in error_kinds()} - set(re.findall(r"`(\w+)`", page)) == set()


@pytest.mark.parametrize("options", [local_options.Options, http_options.Options])
def test_every_option_of_a_backend_is_documented(options: Any) -> None:
    rows = table(section(DOCS / "backends.md", "Options of an engine"))
    named = {row[0].strip("`") for row in rows}
    assert set(options.__dataclass_fields__) - named == set()


# Numbers

IN_WORDS = {5.0: "five", 3600.0: "an hour"}
NUMBERS = [
    ("chat", f"`best_of` (up to {MAX_BEST_OF})"),
    ("deployment", f"{WRITE_SECONDS / 60:g} minutes in which a client reads nothing"),
    ("errors", f"The WebSocket connection is {IN_WORDS.get(websocket.LIFETIME)} old."),
    ("files", f"with {LEAST_LIFETIME:,} to {MOST_LIFETIME:,} seconds"),
    ("mcp", f"A signed or encrypted `id` is valid for {KEEP_SECONDS / 86_400:g} days."),
    ("responses", f"at most {lanes.MAX_REQUESTS} requests are answered or wait on a connection"),
    ("responses", f"{lanes.MAX_ANSWERS} are answered at once"),
    ("responses", f"a connection has at most {lanes.MAX_LANES} `stream_id`s"),
    ("responses", f"sends the comment `: ping` every {PING_SECONDS:g} seconds"),
    ("responses", f"keeps the last answers, up to {idempotency.CAPACITY >> 20} MiB together"),
    (
        "storage",
        f"holds at most {CAPACITY:,} responses, {CAPACITY:,} conversations and {CAPACITY:,} chat"
        f" completions, and some"
        f" {MOST_BYTES >> 20} MiB of each of the three",
    ),
    ("storage", f"in the memory of the process, up to {recall.CAPACITY:,} tokens"),
    ("storage", f"gateways send one every {HEARTBEAT_SECONDS:g} seconds"),
    ("storage", f"that sends none for {SILENT_SECONDS:g} seconds counts as ended"),
    ("storage", f"has written {_CHECK_BYTES >> 10} KiB to it as a check"),
    ("tools", f"its time limit, and {IN_WORDS.get(GRACE_SECONDS)} seconds more, is stopped"),
]


@pytest.mark.parametrize(("page", "sentence"), NUMBERS)
def test_a_number_in_the_text_is_that_of_the_code(page: str, sentence: str) -> None:
    assert sentence in " ".join(text(DOCS / f"{page}.md").split())


# Names


@pytest.mark.parametrize("page", PROSE, ids=named)
def test_modules_in_the_text_exist(page: Path) -> None:
    found = [code for code in inline(page) if re.fullmatch(r"[a-z]\w*(\.\w+)+", code)]
    ours = [name for name in found if (ROOT / name.split(".")[0]).is_dir()]
    assert [name for name in ours if not exists(name)] == []


def exists(name: str) -> bool:
    """Whether a dotted name is a module of this project, or a name that one defines."""
    path = ROOT.joinpath(*name.split("."))
    if path.is_dir() or path.with_suffix(".py").is_file():
        return True
    module = path.parent.with_suffix(".py")
    if not module.is_file():
        return False
    defined = re.findall(r"^(?:class|def|async def) (\w+)|^(\w+)\b.*?=", text(module), re.M)
    return path.name in {each for pair in defined for each in pair}


def test_files_in_the_text_exist() -> None:
    files = {
        code
        for page in PROSE
        for code in inline(page)
        if re.fullmatch(r"(?:docs|tests|demo|server|harmony|adapters|benchmarks)/[\w./]*", code)
    }
    assert [name for name in files if not (ROOT / name).exists()] == []


WORDS = table(text(DOCS / "glossary.md"))


def test_the_glossary_is_short_and_in_order() -> None:
    words = [row[0] for row in WORDS]
    assert 30 <= len(words) <= 50
    assert words == sorted(words, key=str.lower)
    assert len(words) == len(set(words))


@pytest.mark.parametrize("row", WORDS, ids=lambda row: row[0])
def test_a_word_is_explained_in_one_sentence(row: list[str]) -> None:
    assert re.fullmatch(r"[A-Z][^.]*\.", row[1].replace("functions.weather", ""))
    assert re.fullmatch(r"(?:`[\w.]+`)?", row[2])


def test_every_folder_and_module_has_a_description() -> None:
    page = text(DOCS / "modules.md")
    assert [row[0] for row in table(page) if not row[1]] == []
    folders = re.findall(r"^## (\S+)\n\n(.*)$", page, re.MULTILINE)
    assert len(folders) > 10
    assert [name for name, about in folders if not about.endswith(".")] == []
