"""The rules of the layout: who may import whom, and how long files and functions may be."""

import ast
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import cache
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
SEAM = {
    "adapters",
    "adapters.base",
    "adapters.cancel_safe",
    "adapters.completion",
    "adapters.container_memory",
    "adapters.errors",
    "adapters.freed_memory",
    "adapters.mask_limits",
    "adapters.registry",
}
KNOWS_BACKENDS = {
    "server/app.py",
    "server/commands/backends.py",
    "server/commands/doctor/check.py",
    "server/commands/doctor/examine.py",
    "server/commands/doctor/gpu.py",
    "server/commands/doctor/network.py",
    "server/commands/main.py",
}

# The folders of server/ and what each may know of the server beside itself. The order is that of
# the layers: none knows one that stands after it.
LAYERS: dict[str, set[str]] = {
    "encoding": set(),
    "schemas": {"errors"},
    "store": {"encoding", "errors", "ids", "threads"},
    "tools": {"errors", "ids", "schemas", "store", "threads"},
    "summaries": {"threads"},
    "generation": {"encoding", "errors", "ids", "schemas", "summaries", "threads", "tools"},
    "http": {"encoding", "errors", "generation", "schemas", "threads"},
    "replay": {"errors", "ids", "schemas", "store"},
    "options": {"replay", "store", "summaries", "tools"},
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
        "encoding",
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
    "persistence": {"errors", "generation", "outbound", "store", "threads"},
    "telemetry": {"errors", "generation", "http", "store", "threads"},
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
        "options",
        "replay",
        "schemas",
        "settings",
        "store",
        "telemetry",
        "threads",
        "tools",
        "web",
    },
}
MOST_ROOT_FILES = 8

MOST_FILE_LINES = 500
MOST_FUNCTION_LINES = 60


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """What the rules look at: imports and functions. Each file is parsed once for all rules."""
    kinds = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return tuple(node for node in ast.walk(tree) if isinstance(node, kinds))


@cache
def imported_modules(path: Path) -> tuple[tuple[int, str], ...]:
    """Line and absolute name of each module that the file imports, wherever it does so.

    `from a import b` names `a` alone, unless a.b is a module of this project.
    """
    package = path.relative_to(ROOT).parent.parts
    found = []
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            origin = ".".join([*base, *(node.module or "").split(".")]).rstrip(".")
            names = (f"{origin}.{alias.name}" for alias in node.names)
            found += [(node.lineno, name) for name in (origin, *filter(is_module, names))]
    return tuple(found)


@cache
def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports(paths: Iterable[Path], is_forbidden: Callable[[str], bool]) -> list[str]:
    """The imports of the files that a rule forbids."""
    return [
        f"{relative(path)}:{line} imports {module}"
        for path in paths
        for line, module in imported_modules(path)
        if is_forbidden(module)
    ]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_only_what_its_layer_may(package: str) -> None:
    files = [path for path in SOURCES if relative(path).startswith(f"{package}/")]
    assert files
    assert imports(files, lambda module: module.split(".")[0] in FORBIDDEN[package]) == []


def test_only_what_puts_the_server_together_knows_backends_and_the_demo() -> None:
    others = [p for p in SOURCES if relative(p).startswith("server/")]
    others = [path for path in others if relative(path) not in KNOWS_BACKENDS]

    def is_concrete(module: str) -> bool:
        package = module.split(".")[0]
        return package == "demo" or (package == "adapters" and module not in SEAM)

    assert imports(others, is_concrete) == []


@pytest.mark.parametrize("layer", LAYERS)
def test_a_folder_of_the_server_imports_only_what_it_may(layer: str) -> None:
    files = sorted((ROOT / "server" / layer).rglob("*.py"))
    known = {layer, *LAYERS[layer]}
    assert files
    assert (
        imports(files, lambda name: name.startswith("server.") and name.split(".")[1] not in known)
        == []
    )


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
    others = [path for path in SOURCES if relative(path) != "server/app.py"]
    assert imports(others, lambda module: module.split(".")[:2] == ["server", "routes"]) == []


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


def test_files_stay_short() -> None:
    lines = {relative(path): path.read_text(encoding="utf-8").count("\n") for path in SOURCES}
    assert {name: count for name, count in lines.items() if count > MOST_FILE_LINES} == {}


def test_functions_stay_short() -> None:
    assert [
        f"{relative(path)}:{node.lineno} {node.name}"
        for path in SOURCES
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno >= MOST_FUNCTION_LINES
    ] == []
