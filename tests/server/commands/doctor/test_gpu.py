"""GPUs that are too old, too small, busy, gone or fine; all of them are described here."""

import pytest

from adapters.torch_build import Device, Torch
from server.commands.doctor.check import Check, Plan
from server.commands.doctor.gpu import (
    check_driver,
    check_gpu,
    check_packages,
    check_torch,
    keeps_packed,
)

CUDA = Torch("2.13.0", "13.0")
BIG = Plan("transformers", True, True, True, 13_800_000_000)
DEMO = Plan("transformers", True, True, False, 0)
ON_CPU = Plan("transformers", True, False, False, 13_800_000_000)
VLLM = Plan("vllm", True, True, True, 13_800_000_000)
GB = 1_000_000_000


def gpu(total: int = 80, free: int = 79, capability: tuple[int, int] = (9, 0)) -> Device:
    return Device(0, "NVIDIA H100", capability, total * GB, free * GB)


@pytest.mark.parametrize(("plan", "status"), [(BIG, "failed"), (DEMO, "warning"), (VLLM, "failed")])
def test_without_a_driver(plan: Plan, status: str) -> None:
    check = check_driver((None, "no such file"), CUDA, plan)
    assert check.status == status
    assert "--gpus all" in check.advice
    assert ("device=cpu" in check.advice) is (plan.backend == "transformers")


def test_without_a_driver_that_is_needed_all_is_well() -> None:
    fact = "no NVIDIA driver was found, and none is needed"
    assert check_driver((None, "no such file"), CUDA, ON_CPU) == Check("driver", "ok", fact)


def test_a_driver_that_is_too_old_is_named_with_the_oldest_that_would_do() -> None:
    check = check_driver((0, "NVIDIA A100, 550.54.15, 80 GB, 0 GB"), CUDA, BIG)
    assert (check.status, check.fact) == (
        "failed",
        "550.54.15, but torch 2.13.0 (CUDA 13.0) needs 580 or later",
    )


@pytest.mark.parametrize("cuda", ["13.0", "12.8", None, "14.0"])
def test_a_driver_that_suits_torch(cuda: str | None) -> None:
    lines = "NVIDIA A100, 580.65, 80 GB, 0 GB\nNVIDIA A100, 580.65, 80 GB, 0 GB"
    check = check_driver((0, lines), Torch("2.13.0", cuda), BIG)
    assert (check.status, check.fact) == ("ok", "580.65 for 2 GPU(s), NVIDIA A100 first")


def test_a_gpu_that_vanished_is_reported_with_the_drivers_message() -> None:
    words = "Unable to determine the device handle for GPU0: GPU is lost."
    check = check_driver((15, words), CUDA, BIG)
    assert (check.status, check.fact) == ("failed", words)


@pytest.mark.parametrize(
    ("torch", "plan", "status"),
    [
        (CUDA, BIG, "ok"),
        (Torch("2.13.0", "13.0", error="driver too old"), BIG, "failed"),
        (Torch("2.13.0", "13.0", error="driver too old"), DEMO, "warning"),
        (Torch("2.13.0", "13.0", error="driver too old"), ON_CPU, "ok"),
        (Torch("2.13.0+cpu"), BIG, "failed"),
        (Torch("2.13.0+cpu"), ON_CPU, "ok"),
        (Torch("", error="libcudart.so.13: no such file"), DEMO, "failed"),
    ],
)
def test_torch(torch: Torch, plan: Plan, status: str) -> None:
    check = check_torch(torch, plan)
    assert check.status == status
    assert torch.error is None or torch.error in check.fact


@pytest.mark.parametrize(
    ("device", "plan", "packed", "status", "words"),
    [
        (gpu(), BIG, True, "ok", ""),
        (gpu(12, 12), BIG, True, "failed", "needs 15.8 GB on one GPU: use a larger one"),
        (gpu(24, 9), BIG, True, "failed", "needs 15.8 GB: end what uses this GPU"),
        (gpu(24, 24), BIG, False, "failed", "pip install '.[gpu]'"),
        (gpu(48, 47), BIG, False, "ok", ""),
        (gpu(16, 16, (7, 0)), BIG, True, "failed", "capability 7.5 on"),
        (gpu(24, 24, (7, 5)), VLLM, True, "failed", "capability 8.0 on"),
        (gpu(8, 7, (6, 1)), DEMO, False, "ok", ""),
        (Device(0, error="CUDA error: out of memory"), BIG, True, "failed", "CUDA_VISIBLE_DEVICES"),
        (Device(0, error="CUDA error: out of memory"), DEMO, True, "warning", "restart"),
    ],
)
def test_a_gpu(device: Device, plan: Plan, packed: bool, status: str, words: str) -> None:
    check = check_gpu(device, 1, plan, packed=packed)
    assert check.status == status
    assert words in check.advice
    assert (device.error or f"{device.free // GB}.0 of") in check.fact.replace(" GB", "")


def test_weights_of_unknown_size_are_not_judged() -> None:
    assert check_gpu(gpu(1, 1), 1, Plan("vllm", True, True, True, None), packed=True).status == "ok"


@pytest.mark.parametrize(
    ("versions", "plan", "statuses"),
    [
        ({"vllm": "0.32.0+cu130"}, VLLM, ["ok"]),
        ({"vllm": "0.31.0"}, VLLM, ["failed"]),
        ({"vllm": None}, VLLM, ["failed"]),
        ({"triton": "3.4", "kernels": "0.17.2"}, BIG, ["ok", "ok"]),
        ({"triton": None, "kernels": "0.18.0"}, BIG, ["warning", "warning"]),
        ({"triton": None, "kernels": None}, DEMO, ["ok", "ok"]),
        ({}, Plan("sglang", False, False, False, None), []),
    ],
)
def test_packages(versions: dict[str, str | None], plan: Plan, statuses: list[str]) -> None:
    checks = check_packages(versions, plan)
    assert [check.status for check in checks] == statuses


def test_kernels_of_another_version_keep_nothing_packed() -> None:
    assert keeps_packed({"triton": "3.4", "kernels": "0.17.0"})
    assert not keeps_packed({"triton": "3.4", "kernels": "0.18.0"})
    assert not keeps_packed({"triton": None, "kernels": "0.17.0"})
