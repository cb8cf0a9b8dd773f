"""The checks together: which of them there are, and what they make of each other."""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from adapters.torch_build import Device, Torch
from demo import checkpoint
from server.commands.doctor import examine as module
from server.commands.doctor.check import Check, plan
from server.commands.doctor.examine import examine
from server.commands.main import main
from server.settings import Settings
from tests.adapters import gpt_oss_layout

H200 = Device(0, "NVIDIA H200", (9, 0), 140_000_000_000, 139_000_000_000)
A40 = Device(1, "NVIDIA A40", (8, 6), 45_000_000_000, 44_000_000_000)


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing here depends on this machine's driver, packages, hub or folders."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(module, "ask_driver", lambda: (0, "NVIDIA H200, 580.1, 140 GB, 1 GB"))
    packages = {"vllm": "0.32.0", "triton": "3.4", "kernels": "0.17.1"}
    monkeypatch.setattr(module, "installed_packages", lambda: packages)


def named(torch: Torch, **options: Any) -> dict[str, Check]:
    found = examine(Settings(**{"port": 0, **options}), lambda: torch)
    return {check.name: check for check in found}


def test_a_real_run_leaves_nothing_behind(tmp_path: Path) -> None:
    main(["doctor", "--port", "0", "--json"])
    assert not (tmp_path / "data").exists()


def test_variables_that_are_no_options_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert named(Torch("2.13.0"))["variables"].status == "ok"
    monkeypatch.setenv("GPT_OSS_API_KEYS", "secret")
    check = named(Torch("2.13.0"))["variables"]
    assert check.status == "warning"
    assert check.fact == "not options, and ignored: GPT_OSS_API_KEYS"


def test_the_demo_needs_no_gpu() -> None:
    checks = named(Torch("2.13.0"))
    assert checks["torch"].status == "ok"
    assert "GPU 0" not in checks
    assert checks["memory"].status == "ok"


@pytest.mark.parametrize(("cuda", "status"), [(None, "ok"), ("13.0", "warning")])
def test_a_torch_for_cpus_needs_nothing_that_compiles_for_a_gpu(
    cuda: str | None, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert named(Torch("2.13.0", cuda))["C compiler"].status == status


def test_a_large_model_needs_one() -> None:
    checks = named(Torch("2.13.0", "13.0", error="no device"), model="openai/gpt-oss-20b")
    assert checks["torch"].status == "failed"
    assert "device=cpu" in checks["torch"].advice


def test_a_gpu_that_cannot_be_used_is_no_reason_to_take_the_cpu() -> None:
    broken = Torch("2.13.0", "13.0", error="the driver is too old")
    assert named(broken)["torch"].status == "failed"
    assert named(broken, backend_option=("device=cpu",))["torch"].status == "ok"


def test_only_the_gpu_that_is_used_is_judged() -> None:
    torch = Torch("2.13.0", "13.0", (H200, A40))
    checks = named(torch, model="openai/gpt-oss-20b", backend_option=("device=cuda:1",))
    assert "GPU 0" not in checks
    assert checks["GPU 1"].status == "ok"


def test_gpus_share_the_weights_with_vllm() -> None:
    torch = Torch("2.13.0", "13.0", (A40, A40))
    one = named(torch, model="openai/gpt-oss-120b", backend="vllm")
    assert one["GPU 1"].status == "failed"
    both = {"backend": "vllm", "engine_arg": ("tensor_parallel_size=2",)}
    assert named(torch, model="openai/gpt-oss-120b", **both)["GPU 1"].status == "ok"


def test_more_gpus_than_there_are_cannot_share() -> None:
    torch = Torch("2.13.0", "13.0", (A40,))
    checks = named(torch, model="m", backend="vllm", engine_arg=("tensor_parallel_size=4",))
    assert (checks["GPUs"].status, checks["GPUs"].fact) == (
        "failed",
        "1, but tensor_parallel_size is 4",
    )


def test_an_engine_elsewhere_needs_nothing_of_this_machine() -> None:
    options = {"backend": "vllm-http", "backend_url": ("http://127.0.0.1:9",)}
    checks = named(Torch("", error="no torch"), **options)
    assert checks["torch"].status == "warning"
    assert checks["engine http://127.0.0.1:9"].status == "failed"


def test_weights_for_other_programs_are_not_counted(tmp_path: Path) -> None:
    """A folder with all files of the repository of gpt-oss-20b."""
    for name in gpt_oss_layout.FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"w" * 1000)
    assert plan(Settings(model=str(tmp_path))).weights == 3000


def test_weights_that_were_removed_from_a_cache_are_not_counted(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(b"w" * 1000)
    (tmp_path / "b.safetensors").symlink_to(tmp_path / "removed")
    assert plan(Settings(model=str(tmp_path))).weights == 1000


def forbid_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)


def test_a_cache_is_needed_for_a_model_of_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    forbid_writing(monkeypatch)
    assert named(Torch("2.13"), model="org/model")["disk"].status == "failed"


@pytest.mark.parametrize(("free", "status"), [(14_300_000_000, "failed"), (15_000_000_000, "ok")])
def test_a_disk_has_the_room_that_a_download_asks_for(
    free: int, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")._replace(free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    assert named(Torch("2.13"), model="openai/gpt-oss-20b")["disk"].status == status


def test_no_cache_is_needed_for_a_model_that_is_in_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "hub/models--org--model/snapshots/1"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").touch()
    forbid_writing(monkeypatch)
    assert "disk" not in named(Torch("2.13"), model="org/model")


def test_no_cache_is_needed_for_a_model_of_this_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    forbid_writing(monkeypatch)
    assert "disk" not in named(Torch("2.13"), model=str(tmp_path))


def test_no_cache_is_needed_for_a_script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "script.jsonl"
    script.touch()
    forbid_writing(monkeypatch)
    assert "disk" not in named(Torch("2.13"), backend="scripted", script=str(script))


def test_no_cache_is_needed_for_an_engine_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    forbid_writing(monkeypatch)
    options = {"backend": "vllm-http", "backend_url": ("http://127.0.0.1:9",), "model": "org/model"}
    assert "disk" not in named(Torch("2.13"), **options)


def test_a_cache_is_needed_until_the_demo_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    forbid_writing(monkeypatch)
    assert named(Torch("2.13"))["disk"].status == "failed"
    monkeypatch.setattr(checkpoint, "_write_trained", lambda folder, _: (folder / "a").touch())
    folder = checkpoint.ensure()
    assert named(Torch("2.13"))["disk"].status == "ok"
    (folder / "a").unlink()
    assert named(Torch("2.13"))["disk"].status == "failed"


@pytest.mark.parametrize("name", ["file", "a" * 300])
def test_the_cache_of_the_demo_must_be_a_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
    check = named(Torch("2.13"))["disk"]
    assert (check.status, str(tmp_path / name) in check.fact) == ("failed", True)
    assert "XDG_CACHE_HOME" in check.advice


def backend(**options: Any) -> Check:
    return named(Torch("2.13"), **options)["backend"]


def test_a_known_backend() -> None:
    assert backend() == Check("backend", "ok", "transformers")


def test_an_unknown_backend_fails_and_the_known_ones_are_named() -> None:
    check = backend(backend="nosuch")
    assert check.status == "failed"
    assert "'nosuch'" in check.fact
    assert "vllm-http" in check.fact


def test_a_remote_backend_needs_an_engine() -> None:
    assert backend(backend="sglang").status == "failed"
    assert backend(backend="sglang", backend_url=("http://127.0.0.1:9",)).status == "ok"


def test_the_url_of_an_engine_may_be_an_option_of_the_backend() -> None:
    options = {"backend": "vllm-http", "backend_option": ("url=http://127.0.0.1:9",)}
    assert backend(**options).status == "ok"
    assert named(Torch("2.13"), **options)["engine http://127.0.0.1:9"].status == "failed"


def test_an_option_that_the_backend_does_not_have_fails() -> None:
    options = {"backend_url": ("http://127.0.0.1:9",), "backend_option": ("colour=red",)}
    check = backend(backend="sglang", **options)
    assert (check.status, "no option colour" in check.fact) == ("failed", True)


def test_a_script_that_can_be_read(tmp_path: Path) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text('{"completion": "a"}\n\n{"completion": "b"}\n')
    check = backend(backend="scripted", script=str(script))
    assert (check.status, check.fact) == ("ok", f"scripted: 2 completions in {script}")


@pytest.mark.parametrize("content", [None, "{", '{"prompt_contains": "a"}'])
def test_a_script_that_cannot_be_read(content: str | None, tmp_path: Path) -> None:
    script = tmp_path / "script.jsonl"
    if content is not None:
        script.write_text(content)
    check = backend(backend="scripted", script=str(script))
    assert (check.status, str(script) in check.fact) == ("failed", True)


def test_kernels_are_looked_for_where_a_gpu_needs_them() -> None:
    torch = Torch("2.13", "13.0", (H200,))
    packed = named(torch, model="openai/gpt-oss-20b")
    assert packed["compiled kernels"].status == "failed"  # offline
    assert "compiled kernels" not in named(torch)
    assert "compiled kernels" not in named(Torch("2.13"), model="openai/gpt-oss-20b")


@pytest.mark.skipif(sys.platform != "linux", reason="root may write to other folders")
def test_folders_that_take_no_files() -> None:
    options: Any = {"files": "/proc/files", "python_folder": "/proc/python"}
    checks = named(Torch("2.13.0"), **options)
    assert (checks["files"].status, checks["files"].fact) == ("failed", "/proc cannot be written")
    assert checks["Python folder"].status == "warning"
    assert "--python-folder" in checks["Python folder"].advice


def test_folders_that_will_be_made(tmp_path: Path) -> None:
    options: Any = {"files": str(tmp_path / "a/b"), "python_folder": str(tmp_path / "c")}
    checks = named(Torch("2.13.0"), **options)
    assert {checks[name].status for name in ("files", "Python folder")} <= {"ok", "warning"}
    assert not list(tmp_path.glob("[ac]"))
