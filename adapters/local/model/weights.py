"""The format of a checkpoint's weights on a device, and whether they fit its memory."""

import logging
from dataclasses import dataclass
from typing import Any

import torch
from transformers.configuration_utils import PreTrainedConfig
from transformers.integrations.hub_kernels import get_kernel
from transformers.models.auto.modeling_auto import AutoModelForCausalLM
from transformers.utils.import_utils import (
    KERNELS_MAX_VERSION,
    KERNELS_MIN_VERSION,
    is_kernels_available,
    is_triton_available,
)
from transformers.utils.quantization_config import Mxfp4Config

from adapters.errors import BackendFailed
from adapters.local.device import free_memory, gigabytes
from adapters.local.model import kernels, precision
from adapters.local.model.experts import are_computed_at_once
from adapters.local.options import Options
from adapters.requirements import LARGE_ON_CPU, MXFP4_CAPABILITY, MXFP4_KERNELS

logger = logging.getLogger(__name__)

_LEAST_TRITON = "3.4.0"
# Four bits for each value, and one byte of exponent for 32 values.
_MXFP4_BYTES = 0.5 + 1 / 32


@dataclass(frozen=True, slots=True)
class Weights:
    """stored: whether the checkpoint stores the experts as MXFP4. packed: whether they stay MXFP4.

    widened: whether all but the embedding becomes float32 after loading, or float16 where that is
    as exact. size: bytes in the memory of the device, at most.
    """

    stored: bool
    packed: bool
    widened: bool
    size: int

    def __str__(self) -> str:
        form = "dequantised MXFP4" if self.stored else "as stored"
        widened = " and widened to float32" if self.widened else ""
        return f"{'packed MXFP4' if self.packed else form}{widened}, {gigabytes(self.size)}"


def plan(config: PreTrainedConfig, device: torch.device, options: Options) -> Weights:
    """The format of the weights after loading, from the configuration of the checkpoint.

    Raises BackendFailed if the weights do not fit the memory of the device, and if `auto` selected
    a CPU for weights of more than 8 GB.
    """
    quantization = getattr(config, "quantization_config", None) or {}
    mxfp4 = quantization.get("quant_method") == "mxfp4"
    reason = why_no_mxfp4(device) if mxfp4 else None
    packed = mxfp4 and reason is None
    model = _meta_model(config)
    size = _size(model, _width(config, options), packed)
    wide = None if packed else _widened_size(model, device, options)
    weights = Weights(mxfp4, packed, wide is not None, size if wide is None else wide)
    if mxfp4 and reason is not None and device.type != "cpu":
        logger.warning("%s: the experts' weights are dequantised to %s", reason, weights)
    check_size(weights.size, device, options)
    _check_memory(weights.size, device, reason)
    return weights


def check_size(
    size: int, device: torch.device, options: Options, subject: str = "the weights take"
) -> None:
    """Raise BackendFailed if `auto` selected a CPU for weights of more than 8 GB.

    subject: how the message names what has `size` bytes.
    """
    if device.type == "cpu" and options.device != "cpu" and size > LARGE_ON_CPU:
        raise BackendFailed(
            f"no GPU was found, and {subject} {gigabytes(size)}, with which a CPU computes a few "
            "tokens a second: set --backend-option device=cpu if that is meant"
        )


def _check_memory(size: int, device: torch.device, why_not_packed: str | None) -> None:
    """Raises BackendFailed, with a way out, if weights of `size` bytes do not fit `device`."""
    free = free_memory(device)
    if free is None or size <= free:
        return
    if device.type != "cuda":
        raise BackendFailed(
            f"the weights take {gigabytes(size)}, and {device} has {gigabytes(free)} in all: "
            "choose a machine with more memory, or a GPU"
        )
    hint = f" ({why_not_packed})" if why_not_packed else ""
    total = torch.cuda.mem_get_info(device)[1]
    way_out = (
        "end what else uses it (nvidia-smi names it)"
        if size <= total
        else "choose a larger GPU, or several with --backend vllm"
    )
    raise BackendFailed(
        f"the weights take {gigabytes(size)}{hint}, and {device} has {gigabytes(free)} free of "
        f"{gigabytes(total)}: {way_out}"
    )


def arguments(weights: Weights) -> dict[str, Any]:
    """The arguments of transformers' `from_pretrained` that load the weights in this format."""
    if not weights.stored or weights.packed:
        return {}
    return {"quantization_config": Mxfp4Config(dequantize=True)}


def check_format(model: Any, weights: Weights) -> None:
    """Raises BackendFailed if `weights` are packed and the experts of `model` are not."""
    if weights.packed and not has_packed_experts(model):
        raise BackendFailed(
            "transformers has dequantised the experts although this device can compute with "
            "packed ones; its log says why"
        )


def why_no_mxfp4(device: torch.device) -> str | None:
    """The reason why `device` cannot compute with packed MXFP4 weights; None if it can.

    transformers uses the same predicates, which compare the versions of the packages.
    """
    if device.type != "cuda":
        return f"there are no MXFP4 kernels for {device.type}"
    capability = torch.cuda.get_device_capability(device)
    if capability < MXFP4_CAPABILITY:
        version = ".".join(map(str, capability))
        least = ".".join(map(str, MXFP4_CAPABILITY))
        return f"MXFP4 needs compute capability {least} or newer, and {device} has {version}"
    if not is_triton_available(_LEAST_TRITON):
        return f"MXFP4 needs the package triton, version {_LEAST_TRITON} or newer"
    if not is_kernels_available():
        versions = f">={KERNELS_MIN_VERSION},<{KERNELS_MAX_VERSION}"
        return f"MXFP4 needs the package kernels{versions}"
    return None


def fetch_mxfp4_kernels() -> None:
    """Load the kernels for packed MXFP4. Raises BackendFailed with the name of the repository."""
    kernels.provide(MXFP4_KERNELS)
    try:
        get_kernel(MXFP4_KERNELS, version=1)
    except Exception as error:  # from the import, or from triton's compiler
        raise BackendFailed(f"the kernels {MXFP4_KERNELS} cannot be loaded: {error}") from error


def _widened_size(model: Any, device: torch.device, options: Options) -> int | None:
    """The bytes of weights that are better widened to float32; None for others.

    These are bfloat16 weights on a CPU that does not multiply them, if they fit its memory.
    """
    if options.dtype != "auto" or device.type != "cpu" or precision.multiplies_bfloat16():
        return None
    width = _width(model.config, options)
    if width != torch.bfloat16.itemsize:
        return None
    embedding = model.get_input_embeddings().weight.numel()
    # The output layer is a matrix of its own, also if it is stored as the embedding.
    wide = model.num_parameters() - (0 if model.config.tie_word_embeddings else embedding)
    twice = _expert_values(model) if are_computed_at_once(model.config) else 0
    size = wide * torch.float32.itemsize + (embedding + twice) * width
    return size if size <= min(LARGE_ON_CPU, free_memory(device) or LARGE_ON_CPU) else None


def _width(config: PreTrainedConfig, options: Options) -> int:
    """The bytes of a value that is not packed."""
    dtype = config.dtype if options.dtype == "auto" else getattr(torch, options.dtype)
    return dtype.itemsize if isinstance(dtype, torch.dtype) else torch.bfloat16.itemsize


def _meta_model(config: PreTrainedConfig) -> Any:
    """The model without its values."""
    build: Any = AutoModelForCausalLM.from_config
    with torch.device("meta"):
        return build(config)


def _size(model: Any, width: int, packed: bool) -> int:
    experts = _expert_values(model) if packed else 0
    return int(experts * _MXFP4_BYTES + (model.num_parameters() - experts) * width)


def _expert_values(model: Any) -> int:
    """The number of values in the matrices of the experts."""
    return sum(
        parameter.numel()
        for name, parameter in model.named_parameters()
        if ".experts." in name and name.endswith("_proj")
    )


def has_packed_experts(model: Any) -> bool:
    """Whether the experts of `model` compute with packed MXFP4 weights."""
    return any(type(module).__name__ == "Mxfp4GptOssExperts" for module in model.modules())
