"""The rules of the layout: who may import whom, and how long files and functions may be."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("harmony", "adapters", "server", "demo")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))

HTTP = {"fastapi", "httpx", "openai", "sse_starlette", "starlette", "uvicorn"}
ENGINES = {"accelerate", "torch", "transformers", "vllm"}
FORBIDDEN = {
    "harmony": {"adapters", "server", "demo", *HTTP, *ENGINES},
    "adapters": {"harmony", "server", "demo", *(HTTP - {"httpx"})},
    "server": ENGINES,
    "demo": {"adapters", "server"},
}
# What every part of the server may know of adapters; the rest are concrete backends.
SEAM = {"adapters", "adapters.base", "adapters.errors", "adapters.registry"}
KNOWS_BACKENDS = {
    "server/app.py",
    "server/commands/backends.py",
    "server/commands/doctor.py",
    "server/commands/doctor_check.py",
    "server/commands/doctor_gpu.py",
    "server/commands/doctor_network.py",
    "server/commands/main.py",
}

# The folders of server/ and what each may know of the server beside itself. The order is that of
# the layers: none knows one that stands after it.
LAYERS: dict[str, set[str]] = {
    "schemas": {"errors"},
    "store": {"errors", "ids", "threads"},
    "tools": {"errors", "ids", "schemas", "store", "threads"},
    "summaries": {"threads"},
    "generation": {"errors", "ids", "schemas", "summaries", "threads", "tools"},
    "http": {"errors", "generation", "schemas", "threads"},
    "replay": {"errors", "ids", "schemas", "store"},
    "inbound": {
        "errors",
        "generation",
        "ids",
        "replay",
        "schemas",
        "store",
        "summaries",
        "threads",
        "tools",
    },
    "outbound": {
        "errors",
        "generation",
        "ids",
        "replay",
        "schemas",
        "settings",
        "store",
        "summaries",
        "tools",
    },
    "persistence": {"errors", "generation", "outbound", "store"},
    "telemetry": {"generation", "http", "store", "threads"},
    "responses": {
        "tools",
        "context",
        "errors",
        "generation",
        "http",
        "ids",
        "inbound",
        "outbound",
        "persistence",
        "replay",
        "schemas",
        "store",
        "threads",
    },
    "openapi": {"errors", "outbound", "responses", "schemas", "summaries"},
    "web": {"errors", "http", "inbound", "outbound", "schemas", "threads"},
    "routes": {
        "context",
        "errors",
        "generation",
        "http",
        "ids",
        "inbound",
        "openapi",
        "outbound",
        "persistence",
        "replay",
        "responses",
        "schemas",
        "store",
        "telemetry",
        "threads",
        "tools",
        "web",
    },
    "commands": {
        "app",
        "context",
        "errors",
        "generation",
        "http",
        "inbound",
        "replay",
        "schemas",
        "settings",
        "store",
        "threads",
        "tools",
        "web",
    },
}
MOST_ROOT_FILES = 8

MOST_FILE_LINES = 500
MOST_FUNCTION_LINES = 60


def imported_modules(path: Path) -> Iterator[tuple[int, str]]:
    """Line and absolute name of each module that the file imports, wherever it does so.

    `from a import b` yields `a` alone, unless a.b is a module of this project.
    """
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            origin = ".".join([*base, *(node.module or "").split(".")]).rstrip(".")
            yield node.lineno, origin
            for alias in node.names:
                if is_module(f"{origin}.{alias.name}"):
                    yield node.lineno, f"{origin}.{alias.name}"


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_a_package_imports_only_what_its_layer_may(path: Path) -> None:
    forbidden = FORBIDDEN[path.relative_to(ROOT).parts[0]]
    assert [
        f"{relative(path)}:{line} imports {module}"
        for line, module in imported_modules(path)
        if module.split(".")[0] in forbidden
    ] == []


@pytest.mark.parametrize(
    "path",
    [p for p in SOURCES if relative(p).startswith("server/") and relative(p) not in KNOWS_BACKENDS],
    ids=relative,
)
def test_only_what_puts_the_server_together_knows_backends_and_the_demo(path: Path) -> None:
    assert [
        f"{relative(path)}:{line} imports {module}"
        for line, module in imported_modules(path)
        if module.split(".")[0] == "demo"
        or (module.split(".")[0] == "adapters" and module not in SEAM)
    ] == []


@pytest.mark.parametrize("layer", LAYERS)
def test_a_folder_of_the_server_imports_only_what_it_may(layer: str) -> None:
    assert [
        f"{relative(path)}:{line} imports {module}"
        for path in sorted((ROOT / "server" / layer).rglob("*.py"))
        for line, module in imported_modules(path)
        if module.startswith("server.") and module.split(".")[1] not in {layer, *LAYERS[layer]}
    ] == []


def test_every_folder_of_the_server_is_a_layer() -> None:
    folders = {path.parent.name for path in (ROOT / "server").glob("*/__init__.py")}
    assert folders == set(LAYERS)
    assert len(list((ROOT / "server").glob("*.py"))) <= MOST_ROOT_FILES


def test_no_layer_knows_one_above_it() -> None:
    below: set[str] = set()
    for layer, known in LAYERS.items():
        assert known & set(LAYERS) <= below, layer
        below.add(layer)


def test_only_the_application_knows_routes() -> None:
    assert [
        f"{relative(path)}:{line} imports {module}"
        for path in SOURCES
        if relative(path) != "server/app.py"
        for line, module in imported_modules(path)
        if module.split(".")[:2] == ["server", "routes"]
    ] == []


def test_naming_the_backends_loads_no_engine() -> None:
    loaded = subprocess.run(
        [sys.executable, "-c", "import adapters.registry, sys; print(*sys.modules)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert ENGINES.isdisjoint(loaded)


def test_no_package_under_tests_shadows_a_real_one() -> None:
    assert list((ROOT / "tests").rglob("__init__.py")) == []


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_files_and_functions_stay_short(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= MOST_FILE_LINES
    assert [
        f"{relative(path)}:{node.lineno} {node.name}"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno >= MOST_FUNCTION_LINES
    ] == []
