"""Vectors longer than the slots: their blocks one by one, and blocks as one ciphertext again.

Both are steps of programs, so that they work in captured functions, and under JAX's
transformations too: the blocks are the last batch axis.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ren.batching import side_by_side
from ren.poly import Poly
from ren.schemes.ckks import noise as noises
from ren.schemes.ckks.arithmetic import evolve
from ren.schemes.ckks.explicit import normal
from ren.schemes.ckks.layout import Layout

if TYPE_CHECKING:
    from ren.schemes.ckks.ciphertext import Ciphertext


def blocks_of(x: Ciphertext) -> list[Ciphertext]:
    """One ciphertext for each block, all slots in use; `x` itself where it is not cut."""
    count = x.layout.blocks
    if count == 1:
        return [x]
    x = normal(x)
    rank = max(len(p.shape) for p in x.polys)
    layout = Layout(x.slots, x.layout.is_complex)
    return [
        evolve(x, tuple(_item(p, i, rank) for p in x.polys), noises.item(x.noise, i), layout=layout)
        for i in range(count)
    ]


def _item(p: Poly, index: int, rank: int) -> Poly:
    """The polynomial of one block; one without the axis, or of size 1 there, is that of all."""
    if len(p.shape) < rank:
        return p
    return p.item(index if p.shape[-3] > 1 else 0)


def as_blocks(parts: Sequence[Ciphertext], layout: Layout) -> Ciphertext:
    """The blocks, all at one level, as one ciphertext; one block stays as it is."""
    if len(parts) == 1:
        return evolve_layout(parts[0], layout)
    normals = [normal(x) for x in parts]
    polys = tuple(side_by_side(halves) for halves in zip(*(x.polys for x in normals), strict=True))
    noise = noises.side_by_side([x.noise for x in normals])
    return evolve(normals[0], polys, noise, layout=layout)


def evolve_layout(x: Ciphertext, layout: Layout) -> Ciphertext:
    """The same slots, of which those of `layout` are in use; what is pending stays so."""
    return dataclasses.replace(x, layout=layout)
