"""From a checkpoint's name to a model on a device."""

import contextlib
import io
import logging
from collections.abc import Callable, Iterator
from typing import Any

import torch
from transformers import AttentionInterface, AutoConfig, AutoModelForCausalLM
from transformers.utils import logging as transformers_logging
from transformers.utils.import_utils import is_kernels_available

from adapters.errors import BackendFailed
from adapters.local import attention, weights
from adapters.local.device import current, describe, pick_device
from adapters.local.kernels import HOPPER_ATTENTION, provide
from adapters.local.options import Options

logger = logging.getLogger(__name__)

Progress = Callable[[str, float], None]

_HOPPER = (9, 0)


def load(model: str, options: Options, progress: Progress) -> Any:
    """The checkpoint `model` (folder or hub name), ready to run, on the device of `options`.

    Raises BackendFailed with the reason: no such checkpoint, not a gpt-oss, out of memory.
    """
    try:
        return _load(model, options, progress)
    except BackendFailed:
        raise
    except Exception as error:  # what goes wrong inside transformers comes as anything
        raise BackendFailed(f"cannot load {model}: {error}") from error


def _load(model: str, options: Options, progress: Progress) -> Any:
    device = pick_device(options.device)
    config = AutoConfig.from_pretrained(model)
    if config.model_type != "gpt_oss":
        raise BackendFailed(f"{model} is a {config.model_type} checkpoint, not a gpt-oss")
    with current(device):
        form = weights.plan(config, device, options)
        if form.packed:
            weights.fetch_mxfp4_kernels()
        with _reported(progress):
            result: Any = AutoModelForCausalLM.from_pretrained(
                model,
                config=config,
                dtype=options.dtype,
                attn_implementation="eager",
                device_map={"": device},
                output_loading_info=True,
                **weights.arguments(form),
            )
        loaded, report = result
        missing = sorted(report["missing_keys"])
        if missing:  # and filled with noise by transformers
            raise BackendFailed(f"{model} lacks the weights {', '.join(missing)}")
        weights.assert_form(loaded, form)
        name = select_attention(loaded, device, options.attention)
    logger.info("%s: attention %s, weights %s", describe(device), name, form)
    progress("weights loaded", 1.0)
    return loaded.eval()


def select_attention(model: Any, device: torch.device, asked: str) -> str:
    """Set the model's attention and return its name.

    asked: the name of one; empty takes the fastest that knows attention sinks and works here.
    Raises BackendFailed where the one that is asked for cannot be used.
    """
    for name in (asked,) if asked else _candidates(device):
        if name == attention.NAME:
            if attention.works(model.config, model.dtype, device):
                # The public setter looks for a package by the name of every flash attention.
                model.config._attn_implementation = name
                return name
            reason: object = "it does not work on this device"
        else:
            try:
                if name == HOPPER_ATTENTION:
                    provide(name)
                model.set_attn_implementation(name)
                found: str = model.config._attn_implementation
                # transformers raises at the first attempt to import a kernel and at no later one.
                if found == "eager" or found in AttentionInterface().valid_keys():
                    return found
                reason = "it was not imported"
            except Exception as error:  # of the hub, of the import, of a package's version
                reason = error
        if asked:
            raise BackendFailed(f"the attention {name} cannot be used: {reason}")
        logger.warning("the attention %s cannot be used: %s", name, reason)
    raise AssertionError("eager attention works everywhere")


def _candidates(device: torch.device) -> list[str]:
    """Names of attention implementations, fastest first."""
    names = []
    if device.type == "cuda":
        capability = torch.cuda.get_device_capability(device)
        if capability == _HOPPER and is_kernels_available():
            names.append(HOPPER_ATTENTION)
        if capability >= attention.LEAST_CAPABILITY:
            names.append(attention.NAME)
    elif device.type == "cpu":
        names.append(attention.NAME)
    return [*names, "eager"]


@contextlib.contextmanager
def _reported(progress: Progress) -> Iterator[None]:
    """Hand transformers' progress to `progress`, and keep its bars off the terminal."""

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
