"""The documentation's examples, run as they stand against a real server process."""

import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from openai import OpenAI

from tests.clients.conftest import DEFAULTS, url_of
from tests.documentation import README, ROOT, blocks, commands
from tests.forks import Forks

BACKENDS = ROOT / "docs/backends.md"
BROWSER = ROOT / "docs/browser.md"
CHAT = ROOT / "docs/chat.md"
CLIENTS = ROOT / "docs/clients.md"
FILES = ROOT / "docs/files.md"
QUICKSTART = ROOT / "docs/quickstart.md"
REASONING_PAGE = ROOT / "docs/reasoning.md"
RESPONSES = ROOT / "docs/responses.md"
TOOLS = ROOT / "docs/tools.md"
ADDRESS = "http://localhost:8000/v1"
MODEL = "gpt-oss-demo"
START = "<|start|>assistant"
REASONING = f"<|channel|>analysis<|message|>Think.<|end|>{START}"


def reply(text: str) -> str:
    return f"{REASONING}<|channel|>final<|message|>{text}<|return|>"


SCRIPT = [
    {"prompt_contains": "<|message|>1267650600228229401496703205376", "completion": reply("Much.")},
    {
        "prompt_contains": "2 to the power of 100",
        "completion": f"{REASONING}<|channel|>analysis to=python code<|message|>2**100<|call|>",
    },
    {"prompt_contains": "salt,1", "completion": reply("Salt.")},
    {
        "prompt_contains": "the cheapest",
        "completion": f"{REASONING}<|channel|>analysis to=python code"
        "<|message|>print(open('/mnt/data/prices.csv').read())<|call|>",
    },
    {"prompt_contains": '{"degrees": 22}', "completion": reply("It is warm in Paris.")},
    {
        "prompt_contains": "type get_weather",
        "completion": f"{REASONING}<|channel|>commentary to=functions.get_weather <|constrain|>json"
        '<|message|>{"city":"Paris"}<|call|>',
    },
    {"prompt_contains": "Ada is 36", "completion": reply('{"name":"Ada","age":36}')},
    {"prompt_contains": "22 degrees in Paris", "completion": reply("It is warm!")},
    {
        "prompt_contains": "the weather in Paris",
        "completion": f"{REASONING}<|channel|>commentary to=functions.weather <|constrain|>json"
        '<|message|>{"city":"Paris"}<|call|>',
    },
    {"prompt_contains": "What is my name?", "completion": reply("Your name is Ada.")},
    {"prompt_contains": "an API key", "completion": reply("With --api-key.")},
    {"prompt_contains": "12 plus 30", "completion": reply("It is 42.")},
    {"prompt_contains": "Hello!", "completion": reply("Welcome!")},
]
GREETED = ["Think.Welcome!ChatCompletionMessage(content='Welcome!'", "reasoning='Think.'"]
EXAMPLES = [
    (README, 0, GREETED),
    (QUICKSTART, 0, GREETED),
    (CLIENTS, 0, ["Welcome!\nYour name is Ada.\n"]),
    (CLIENTS, 1, ["Think.\nWelcome!\n"]),
    (CLIENTS, 2, ["2**100 1267650600228229401496703205376\n", "Much.\n"]),
    (CLIENTS, 3, ["It is warm!\n"]),
    (CLIENTS, 4, ["Welcome!\n"]),
]
FOR_CURL = {
    README: "Welcome!",
    BROWSER: "With --api-key.",
    CHAT: "Welcome!",
    CLIENTS: "Welcome!",
    QUICKSTART: "Welcome!",
    REASONING_PAGE: "It is 42.",
    RESPONSES: "Welcome!",
    TOOLS: "Much.",
}


@pytest.fixture(scope="module")
def base_url(serve: Callable[..., str]) -> str:
    return serve(SCRIPT, "--served-model-name", MODEL, "--hosted-tools", "python,browser")


def test_every_example_is_run() -> None:
    pages = {page for page, _, _ in EXAMPLES}
    there = {(page, index) for page in pages for index, _ in enumerate(blocks(page, "python"))}
    assert there == {(page, index) for page, index, _ in EXAMPLES}


@pytest.fixture(scope="module")
def programs() -> Iterator[Forks]:
    """Runs programs with a package that all import, which takes most of their time."""
    opened = Forks("openai.resources")
    yield opened
    opened.close()


def output(code: str, base_url: str, programs: Forks, folder: Path = ROOT) -> str:
    """What the code prints. folder: where it runs."""
    assert ADDRESS in code
    program = programs.start(program=code.replace(ADDRESS, base_url), folder=folder)
    status, out, err = program.end()
    program.kill()
    assert status == 0, err
    return out


@pytest.mark.parametrize(
    ("page", "index", "shown"), EXAMPLES, ids=[f"{page.stem}-{n}" for page, n, _ in EXAMPLES]
)
def test_an_example_in_python(
    page: Path, index: int, shown: list[str], base_url: str, programs: Forks
) -> None:
    out = output(blocks(page, "python")[index], base_url, programs)
    for part in shown:
        assert part in out


def test_the_examples_of_files(base_url: str, programs: Forks, tmp_path: Path) -> None:
    """The second one has the client and the file of the first."""
    (tmp_path / "prices.csv").write_text("tea,3\nsalt,1\n")
    upload, use = blocks(FILES, "python")
    code = f"{upload}\n{use}\nprint(response.output_text)"
    assert output(code, base_url, programs, tmp_path) == "b'tea,3\\nsalt,1\\n'\nSalt.\n"


def test_the_examples_of_tools(base_url: str, programs: Forks) -> None:
    """The second one has the client and the model of the first."""
    call, schema, _ = blocks(TOOLS, "python")
    said = ["get_weather {'city': 'Paris'}", "It is warm in Paris.", "{'name': 'Ada', 'age': 36}"]
    assert output(f"{call}\n{schema}", base_url, programs).splitlines() == said


def test_an_example_in_javascript(install: Callable[[str], Path], base_url: str) -> None:
    (code,) = blocks(CLIENTS, "js")
    done = subprocess.run(
        ["node", "--input-type=module"],
        input=code.replace(ADDRESS, base_url),
        cwd=install("js"),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "Think.\nWelcome!\n"), done.stderr


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
@pytest.mark.parametrize(("page", "shown"), FOR_CURL.items(), ids=[page.stem for page in FOR_CURL])
def test_an_example_for_curl(page: Path, shown: str, base_url: str) -> None:
    (command,) = (words for words in commands(page) if words[0] == "curl")
    words = shlex.split(shlex.join(command).replace(ADDRESS, base_url))
    assert words != command
    done = subprocess.run(
        [*words, "--fail", "--silent"], capture_output=True, text=True, timeout=60, check=True
    )
    assert shown in done.stdout


@contextmanager
def serving(*options: str) -> Iterator[str]:
    """The base URL of a server whose interpreter is started for it."""
    options = ("--port", "0", *DEFAULTS, *options)
    command = [sys.executable, "-m", "server", "serve", *options]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield url_of(process)
        finally:
            process.terminate()


def test_the_example_of_a_backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = blocks(BACKENDS, "python")
    (toml,) = blocks(BACKENDS, "toml")
    ((group, entries),) = tomllib.loads(toml)["project"]["entry-points"].items()
    ((name, target),) = entries.items()
    (tmp_path / f"{target.split(':')[0]}.py").write_text(code)
    installed = tmp_path / "count_backend-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: count-backend\nVersion: 1\n")
    (installed / "entry_points.txt").write_text(f"[{group}]\n{name} = {target}\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with (
        serving("--backend", name, "--model", "any", "--store", "memory") as url,
        OpenAI(base_url=url, api_key="none") as client,
    ):
        whole = client.responses.create(model="any", input="Hello!")
        assert whole.usage is not None
        assert whole.output_text == f"{whole.usage.input_tokens} tokens"
        cut = client.responses.create(model="any", input="Hello!", max_output_tokens=4)
        assert cut.usage is not None
        assert (cut.status, cut.usage.output_tokens) == ("incomplete", 4)
