"""From a checkpoint's name to a model on a device."""

import contextlib
import io
import logging
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig
from transformers.utils import logging as transformers_logging
from transformers.utils.quantization_config import Mxfp4Config

from adapters.errors import BackendFailed
from adapters.local.options import Options

logger = logging.getLogger(__name__)

Progress = Callable[[str, float], None]

_HOPPER = (9, 0)
# The one flash attention for Hopper that knows attention sinks; it comes from the kernels hub.
_HOPPER_ATTENTION = "kernels-community/vllm-flash-attn3"


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
    with _reported(progress):
        result: Any = AutoModelForCausalLM.from_pretrained(
            model,
            config=config,
            dtype=options.dtype,
            attn_implementation=options.attention or pick_attention(device),
            device_map={"": device},
            output_loading_info=True,
            **_quantization(config, device),
        )
    loaded, report = result
    missing = sorted(report["missing_keys"])
    if missing:  # and filled with noise by transformers
        raise BackendFailed(f"{model} lacks the weights {', '.join(missing)}")
    progress("weights loaded", 1.0)
    return loaded.eval()


def pick_device(name: str) -> torch.device:
    """`auto` is the first CUDA device, else Apple's, else the CPU."""
    if name != "auto":
        return torch.device(name)
    if torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def pick_attention(device: torch.device) -> str:
    """Flash attention where one knows gpt-oss's attention sinks, else plain paged attention."""
    if (
        device.type == "cuda"
        and torch.cuda.get_device_capability(device) == _HOPPER
        and find_spec("kernels") is not None
    ):
        return _HOPPER_ATTENTION
    return "eager"


def keeps_mxfp4(device: torch.device) -> bool:
    """True where kernels can compute with packed MXFP4 weights, so that they stay packed."""
    return (
        device.type == "cuda"
        and torch.cuda.get_device_capability(device) >= (7, 5)
        and find_spec("triton") is not None
        and find_spec("kernels") is not None
    )


def _quantization(config: PreTrainedConfig, device: torch.device) -> dict[str, Any]:
    stored = getattr(config, "quantization_config", None)
    if stored is None or stored.get("quant_method") != "mxfp4" or keeps_mxfp4(device):
        return {}
    hint = " (the packages triton and kernels have them)" if device.type == "cuda" else ""
    logger.warning(
        "no MXFP4 kernels for %s%s: the experts' weights are dequantised, to four times the memory",
        device.type,
        hint,
    )
    return {"quantization_config": Mxfp4Config(dequantize=True)}


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
