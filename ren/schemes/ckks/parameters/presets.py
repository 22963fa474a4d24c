"""Named parameter sets: what a name asks of the planner, worked out when it is used."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import attrs


@attrs.frozen
class Preset:
    """The arguments of `Parameters.for_depth` that a name stands for."""

    depth: int
    n: int
    scale_bits: int = 40
    security: int = 128


def _named(*presets: Preset) -> Mapping[str, Preset]:
    return MappingProxyType({f"n{p.n.bit_length() - 1}-depth{p.depth}": p for p in presets})


# The name says n and depth; the scale is 2^40 and the security 128 bits.
PRESETS: Mapping[str, Preset] = _named(
    Preset(depth=2, n=1 << 13),
    Preset(depth=3, n=1 << 13),
    Preset(depth=4, n=1 << 14),
    Preset(depth=7, n=1 << 14),
    Preset(depth=12, n=1 << 15),
    Preset(depth=19, n=1 << 15),
    Preset(depth=30, n=1 << 16),
)
