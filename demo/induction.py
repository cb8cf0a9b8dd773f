"""Induction heads set by hand: the start from which copying is learned in minutes, not hours.

Layer 0 gets a head that looks at the previous token and writes that token's identity beside the
current one's; layers 1 and 3 get two heads that look for a position whose *previous* token is the
current one and write what stands there to the output's identity. Training moves all of it.
"""

import torch

from demo.embedding import IDENTITY, OUTPUT_AT
from demo.model import Body, Layer, rope_tables

_SKETCH_AT = OUTPUT_AT + IDENTITY
_SHARPNESS = 7.0
_SHARP_PAIRS = 6
_MATCH = 1.2


@torch.no_grad()
def set_induction_heads(body: Body) -> None:
    """Overwrite the heads named above; everything else keeps its random start."""
    layers = body.typed_layers()
    _previous_token(layers[0])
    width = body.shape.hidden - _SKETCH_AT
    _match_and_copy(layers[1], 0, 1.0)
    _match_and_copy(layers[3], width - _stable_pairs(layers[3]) * 2, 0.6)


def _previous_token(layer: Layer) -> None:
    half, dim = layer.shape.head_dim // 2, layer.shape.head_dim
    cos, sin = rope_tables(layer.shape, 2)
    gain = cos[0, 0]
    pairs = torch.arange(_SHARP_PAIRS)
    layer.k[:dim] = 0
    layer.k_bias[pairs] = _SHARPNESS
    layer.q[:dim] = 0
    layer.q_bias[pairs] = _SHARPNESS * cos[1, pairs] / gain
    layer.q_bias[half + pairs] = -_SHARPNESS * sin[1, pairs] / gain
    layer.v[:dim] = 0
    layer.v[:dim, :dim] = torch.eye(dim)
    layer.o[:, :dim] = 0
    layer.o[_SKETCH_AT : _SKETCH_AT + dim, :dim] = torch.eye(dim) * 0.4


def _stable_pairs(layer: Layer) -> int:
    """How many rotary pairs turn by less than about a radian in 300 tokens."""
    return layer.shape.head_dim // 2 - 13


def _match_and_copy(layer: Layer, first: int, gain: float) -> None:
    dim, half = layer.shape.head_dim, layer.shape.head_dim // 2
    group = layer.shape.heads // layer.shape.kv_heads
    stable = torch.arange(half - _stable_pairs(layer), half)
    lanes = torch.cat((stable, stable + half))
    match = torch.arange(first, first + len(lanes))
    for kv, (start, width) in enumerate(((0, dim), (dim, IDENTITY - dim))):
        keys = slice(kv * dim, (kv + 1) * dim)
        head = slice(kv * group * dim, (kv * group + 1) * dim)
        layer.k[keys] = 0
        layer.k[kv * dim + lanes, _SKETCH_AT + match] = _MATCH
        layer.q[head] = 0
        layer.q[head.start + lanes, match] = _MATCH
        layer.v[keys] = 0
        layer.v[kv * dim : kv * dim + width, start : start + width] = torch.eye(width)
        layer.o[:, head] = 0
        layer.o[OUTPUT_AT + start : OUTPUT_AT + start + width, head.start : head.start + width] = (
            torch.eye(width) * gain
        )
