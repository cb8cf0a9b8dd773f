import contextlib
import json
import logging
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM
from transformers.utils import logging as transformers_logging

from adapters.base import BackendConfig
from adapters.errors import BackendFailed
from adapters.local.backend import LocalBackend
from adapters.local.engine import engine as engines
from adapters.local.model import attention, loading, precision, weights
from adapters.local.model.kernels import HOPPER_ATTENTION
from adapters.local.model.loading import load, select_attention
from adapters.local.options import Options
from adapters.requirements import MXFP4_KERNELS as MXFP4
from tests.adapters.gpt_oss_layout import Layout
from tests.adapters.local.tiny import write_tiny

CPU = Options(device="cpu")


def silent(stage: str, fraction: float) -> None:
    pass


@pytest.mark.parametrize("bfloat16", [True, False])
def test_the_dtype_is_the_checkpoints_if_the_cpu_multiplies_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bfloat16: bool
) -> None:
    write_tiny(tmp_path)
    monkeypatch.setattr(precision, "multiplies_bfloat16", lambda: bfloat16)
    expected = torch.bfloat16 if bfloat16 else torch.float32
    assert load(str(tmp_path), CPU, silent).dtype == expected


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_dtype_is_the_one_that_is_asked_for(tmp_path: Path, dtype: Any) -> None:
    options = Options(device="cpu", dtype=dtype)
    assert load(str(write_tiny(tmp_path)), options, silent).dtype == getattr(torch, dtype)


@pytest.mark.parametrize("dtype", ["auto", "float32"])
def test_float32_on_a_cpu_computes_what_transformers_computes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: Any
) -> None:
    write_tiny(tmp_path)
    monkeypatch.setattr(precision, "multiplies_bfloat16", lambda: False)
    found = load(str(tmp_path), Options(device="cpu", dtype=dtype, attention="eager"), silent)
    expected: Any = AutoModelForCausalLM.from_pretrained(
        tmp_path, dtype=torch.float32, attn_implementation="eager"
    )
    ids = torch.arange(40).view(2, 20)
    with torch.no_grad():  # sums are added up in another order
        torch.testing.assert_close(found(ids).logits, expected(ids).logits, atol=1e-4, rtol=1e-4)


def test_progress_ends_loaded_and_leaves_transformers_bars_as_they_were(tmp_path: Path) -> None:
    stages: list[tuple[str, float]] = []
    load(str(write_tiny(tmp_path)), CPU, lambda *stage: stages.append(stage))
    assert stages[-1] == ("weights loaded", 1.0)
    assert transformers_logging.set_tqdm_hook(None) is None


def test_float32_weights_are_not_rounded_if_float32_is_asked_for(tmp_path: Path) -> None:
    """The configuration names the type that most weights have."""
    write_tiny(tmp_path)
    file = tmp_path / "model.safetensors"
    tensors = {name: tensor.float() for name, tensor in load_file(file).items()}
    name = "model.layers.0.mlp.experts.gate_up_proj"
    tensors[name] += 1e-4
    save_file(tensors, file, metadata={"format": "pt"})
    loaded = load(str(tmp_path), Options(device="cpu", dtype="float32"), silent)
    assert torch.equal(loaded.get_parameter(name), tensors[name])


def test_another_kind_of_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    with pytest.raises(BackendFailed, match="a gpt2 checkpoint, not a gpt-oss"):
        load(str(tmp_path), CPU, silent)


def test_a_missing_checkpoint_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(BackendFailed, match=r"cannot load .*nowhere"):
        load(str(tmp_path / "nowhere"), CPU, silent)


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    write_tiny(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"no tensors here")
    with pytest.raises(BackendFailed, match="cannot load"):
        load(str(tmp_path), CPU, silent)


def test_missing_weights_are_refused(tmp_path: Path) -> None:
    """transformers would fill them with noise and warn."""
    write_tiny(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors.pop("model.norm.weight")
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(BackendFailed, match=r"lacks .*model\.norm\.weight"):
        load(str(tmp_path), CPU, silent)


def test_folders_of_other_formats_are_not_looked_at(tmp_path: Path) -> None:
    """The published checkpoints have `original/` and `metal/` beside the weights."""
    write_tiny(tmp_path)
    for name in ("original/model.safetensors", "original/dtypes.json", "metal/model.bin"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"not for transformers")
    load(str(tmp_path), CPU, silent)


def test_what_was_loaded_is_logged(layout: Layout, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "adapters.local"):
        load(str(layout.folder), CPU, silent)
    assert "cpu (" in caplog.text
    assert f"attention {attention.NAME}, weights dequantised MXFP4" in caplog.text


async def test_the_device_is_current_while_the_weights_and_the_cache_are_made(
    small_config: BackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """transformers reads the free memory of the current device, by default the first GPU."""
    current: list[torch.device] = []
    made: dict[str, list[torch.device]] = {}

    @contextlib.contextmanager
    def watched(device: torch.device) -> Iterator[None]:
        current.append(device)
        yield
        current.pop()

    def watch(name: str, owner: Any, attribute: str) -> None:
        original = getattr(owner, attribute)

        def call(*arguments: Any, **keywords: Any) -> Any:
            made[name] = list(current)
            return original(*arguments, **keywords)

        monkeypatch.setattr(owner, attribute, call)

    for module in (loading, engines):
        monkeypatch.setattr(module, "current", watched)
    watch("weights", AutoModelForCausalLM, "from_pretrained")
    watch("cache", engines.Engine, "_make_manager")
    watch("first steps", engines.Engine, "_warm_up")
    backend = LocalBackend(small_config)
    await backend.start()
    await backend.stop()
    expected = [torch.device(small_config.options["device"])]
    assert made == dict.fromkeys(("weights", "cache", "first steps"), expected)


@pytest.fixture
def model(tmp_path: Path) -> Any:
    return load(str(write_tiny(tmp_path)), CPU, silent)


def test_a_cpu_uses_flash_kernels_where_they_compute_what_they_should(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert select_attention(model, torch.device("cpu"), "") == attention.NAME
    assert model.config._attn_implementation == attention.NAME
    monkeypatch.setattr(attention, "works", lambda *_: False)
    assert select_attention(model, torch.device("cpu"), "") == "eager"
    assert model.config._attn_implementation == "eager"


@pytest.mark.parametrize("device", ["mps", "meta"])
def test_devices_without_kernels_use_eager_attention(model: Any, device: str) -> None:
    assert select_attention(model, torch.device(device), "") == "eager"


@pytest.mark.parametrize(
    ("capability", "kernels", "names"),
    [
        ((9, 0), True, [attention.NAME, HOPPER_ATTENTION, "eager"]),
        ((9, 0), False, [attention.NAME, "eager"]),
        ((10, 0), True, [attention.NAME, "eager"]),
        ((8, 9), True, [attention.NAME, "eager"]),
        ((8, 0), True, [attention.NAME, "eager"]),
        ((7, 5), True, ["eager"]),
    ],
)
def test_attention_is_one_that_the_gpu_and_the_packages_allow(
    monkeypatch: pytest.MonkeyPatch,
    capability: tuple[int, int],
    kernels: bool,
    names: list[str],
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(loading, "is_kernels_available", lambda: kernels)
    assert loading._candidates(torch.device("cuda", 1), torch.bfloat16) == names
    assert loading._candidates(torch.device("cuda", 1), torch.float32) == ["eager"]


def test_kernels_that_the_hub_does_not_give_are_done_without(
    model: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(
        loading, "_candidates", lambda *_: [HOPPER_ATTENTION, attention.NAME, "eager"]
    )
    with caplog.at_level(logging.WARNING, "adapters.local"):
        assert select_attention(model, torch.device("cpu"), "") == attention.NAME
    assert f"the attention {HOPPER_ATTENTION} cannot be used" in caplog.text


@pytest.mark.parametrize("name", ["no_such_attention", HOPPER_ATTENTION])
def test_an_attention_that_was_asked_for_is_used_or_refused(model: Any, name: str) -> None:
    with pytest.raises(BackendFailed, match=f"the attention {name} cannot be used: .+"):
        select_attention(model, torch.device("cpu"), name)
    assert select_attention(model, torch.device("cpu"), "eager") == "eager"


def test_a_check_that_fails_refuses_what_was_asked_for(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "works", lambda *_: False)
    with pytest.raises(BackendFailed, match="does not work on this device"):
        select_attention(model, torch.device("cpu"), attention.NAME)


def test_kernels_of_packed_weights_are_fetched_before_any_weights(
    tmp_path: Path, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(layout.folder / "config.json", tmp_path)
    monkeypatch.setattr(weights, "why_no_mxfp4", lambda device: None)
    with pytest.raises(BackendFailed, match=MXFP4):
        load(str(tmp_path), CPU, silent)


COMMIT = "a" * 40


@contextlib.contextmanager
def hub(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """A hub with one repository; gives its address and the names of the files it was asked for."""
    asked: list[str] = []

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(body=True)

        def do_HEAD(self) -> None:
            self.answer(body=False)

        def answer(self, *, body: bool) -> None:
            _, found, name = self.path.partition(f"/resolve/{COMMIT}/")
            if not found:
                _, found, name = self.path.partition("/resolve/main/")
            file = folder / name
            if found and file.is_file():
                asked.append(name)
                content = file.read_bytes()
                self.send_response(200)
                self.send_header("ETag", f'"{name}-{len(content)}"')
                self.send_header("X-Repo-Commit", COMMIT)
            else:
                content = b'{"error": "Entry not found"}'
                self.send_response(404)
                self.send_header("X-Error-Code", "EntryNotFound")
                self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if body:
                self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


def test_nothing_but_the_weights_is_downloaded(tmp_path: Path) -> None:
    """The published repositories hold the same weights two times more, in other formats."""
    folder = write_tiny(tmp_path / "repository")
    for name in ("original/model.safetensors", "original/config.json", "metal/model.bin"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"not for transformers")
    code = (
        "import adapters.local.opening\n"  # as the server imports it, which takes half the time
        "from adapters.local.model.loading import load\n"
        "from adapters.local.options import Options\n"
        "load('owner/gpt-oss', Options(device='cpu'), lambda *_: None)\n"
    )
    with hub(folder) as (address, asked):
        environment = {
            **os.environ,
            "HF_ENDPOINT": address,
            "HF_HOME": str(tmp_path / "cache"),
            "HF_HUB_OFFLINE": "0",
        }
        subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=120)
    assert "model.safetensors" in asked
    assert not [name for name in asked if "/" in name]
