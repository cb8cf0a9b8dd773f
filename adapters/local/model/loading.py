"""Loads a checkpoint onto a device, and selects its attention."""

import contextlib
import io
import logging
from collections.abc import Callable, Iterator
from typing import Any

import torch
from transformers.modeling_utils import AttentionInterface
from transformers.models.auto.configuration_auto import AutoConfig
from transformers.models.auto.modeling_auto import AutoModelForCausalLM
from transformers.utils import logging as transformers_logging
from transformers.utils.import_utils import is_kernels_available

from adapters.base import Progress
from adapters.errors import BackendFailed
from adapters.local.device import current, describe, pick_device
from adapters.local.importing.imports import without_compiler
from adapters.local.importing.meta import without_symbols
from adapters.local.memory import bound_kernel_caches
from adapters.local.model import attention, weights
from adapters.local.model.experts import select_experts
from adapters.local.model.joint_attention import join_projections
from adapters.local.model.kernels import HOPPER_ATTENTION, provide
from adapters.local.model.norm import replace_norms
from adapters.local.model.output_layer import pack_output_layer
from adapters.local.model.precision import compute_in_float32
from adapters.local.options import Options

logger = logging.getLogger(__name__)

_HOPPER = (9, 0)
_HALF = (torch.bfloat16, torch.float16)


def load(model: str, options: Options, progress: Progress) -> Any:
    """Load the checkpoint `model` (folder or hub name) onto the device of `options`.

    Raises BackendFailed with the reason: no such checkpoint, not a gpt-oss model, out of memory.
    """
    try:
        return _load(model, options, progress)
    except BackendFailed:
        raise
    except Exception as error:  # transformers raises errors of any type
        raise BackendFailed(f"cannot load {model}: {error}") from error


def _load(model: str, options: Options, progress: Progress) -> Any:
    device = pick_device(options.device)
    if device.type == "cpu":
        bound_kernel_caches()
    config = AutoConfig.from_pretrained(model)
    if config.model_type != "gpt_oss":
        raise BackendFailed(f"{model} is a {config.model_type} checkpoint, not a gpt-oss")
    with current(device), without_compiler(device.type), without_symbols(device.type):
        weights_plan = weights.plan(config, device, options)
        if weights_plan.packed:
            weights.fetch_mxfp4_kernels()
        with _progress_reported(progress):
            result: Any = AutoModelForCausalLM.from_pretrained(
                model,
                config=config,
                dtype=options.dtype,
                attn_implementation="eager",
                device_map={"": device},
                output_loading_info=True,
                **weights.arguments(weights_plan),
            )
        loaded, report = result
        missing = sorted(report["missing_keys"])
        if missing:  # transformers fills them with random values
            raise BackendFailed(f"{model} lacks the weights {', '.join(missing)}")
        weights.check_format(loaded, weights_plan)
        if device.type == "cpu":
            dtype = torch.float32 if weights_plan.widened else loaded.dtype
            pack_output_layer(loaded, dtype)
            select_experts(loaded, dtype)
            join_projections(loaded, dtype)
            replace_norms(loaded)
        if weights_plan.widened:
            # Last: the others look at the weights as they are stored.
            compute_in_float32(loaded)
        name = select_attention(loaded, device, options.attention)
    logger.info("%s: attention %s, weights %s", describe(device), name, weights_plan)
    progress("weights loaded", 1.0)
    return loaded.eval()


def select_attention(model: Any, device: torch.device, requested: str) -> str:
    """Set the attention implementation of `model` and return its name.

    requested: its name; empty selects the first candidate that works on the device. Raises
    BackendFailed if the requested one cannot be used.
    """
    for name in (requested,) if requested else _candidates(device, model.dtype):
        if name == attention.NAME:
            if attention.works(model.config, model.dtype, device):
                # The public setter requires a package for every name of a flash attention.
                model.config._attn_implementation = name
                return name
            reason: object = "it does not work on this device"
        else:
            try:
                if name == HOPPER_ATTENTION:
                    provide(name)
                model.set_attn_implementation(name)
                found: str = model.config._attn_implementation
                # Only the first failed import of a kernel raises; later ones keep the attention.
                if found == "eager" or found in AttentionInterface().valid_keys():
                    return found
                reason = "it was not imported"
            except Exception as error:  # from the hub, the import or the version of a package
                reason = error
        if requested:
            raise BackendFailed(f"the attention {name} cannot be used: {reason}")
        logger.warning("the attention %s cannot be used: %s", name, reason)
    raise AssertionError("eager attention works everywhere")


def _candidates(device: torch.device, dtype: torch.dtype) -> list[str]:
    """The names of possible attention implementations, those first that have been measured."""
    names = []
    if device.type == "cuda" and dtype in _HALF:  # the kernels have no others
        capability = torch.cuda.get_device_capability(device)
        if capability >= attention.LEAST_CAPABILITY:
            names.append(attention.NAME)
        if capability == _HOPPER and is_kernels_available():
            names.append(HOPPER_ATTENTION)
    elif device.type == "cpu":
        names.append(attention.NAME)
    return [*names, "eager"]


@contextlib.contextmanager
def _progress_reported(progress: Progress) -> Iterator[None]:
    """Report the progress of transformers to `progress` instead of the terminal."""

    def make(factory: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        bar = factory(*args, **{**kwargs, "file": io.StringIO()})

        def report(*_: object, **__: object) -> None:
            if bar.total:
                progress((bar.desc or "loading").rstrip(": ").lower(), bar.n / bar.total)

        bar.display = report
        return bar

    previous = transformers_logging.set_tqdm_hook(make)
    try:
        yield
    finally:
        transformers_logging.set_tqdm_hook(previous)
