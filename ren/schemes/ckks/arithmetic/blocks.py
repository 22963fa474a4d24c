"""Vectors longer than the slots: their blocks one by one, and blocks as one ciphertext again.

Both are steps of programs. So they work in captured functions, and under JAX's transformations too:
the blocks are the last batch axis.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from ren.poly import Poly
from ren.poly.batching import side_by_side
from ren.schemes.ckks.arithmetic.automatic import evolve
from ren.schemes.ckks.arithmetic.manual import normal
from ren.schemes.ckks.arithmetic.operation_hooks import operation
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextT
from ren.schemes.ckks.encoding.layout import Layout
from ren.schemes.ckks.noise import bounds as noises


def blocks_of(x: CiphertextT) -> list[CiphertextT]:
    """One ciphertext for each block, all slots in use; `x` itself where it is not cut."""
    if x.layout.blocks == 1:
        return [x]
    x = normal(x)
    return [_block(x, i) for i in range(x.layout.blocks)]


@operation("a block", lambda x, index: x[..., index, :])
def _block(x: CiphertextT, index: int) -> CiphertextT:
    rank = max(len(p.shape) for p in x.polys)
    polys = tuple(_item(p, index, rank) for p in x.polys)
    layout = Layout(x.slots, x.layout.is_complex)  # what the last one holds beyond is data here
    return evolve(x, polys, noises.item(x.noise, index), layout=layout)


def _item(p: Poly, index: int, rank: int) -> Poly:
    """The polynomial of one block; one without the axis, or of size 1 there, is that of all."""
    if len(p.shape) < rank:
        return p
    return p.item(index if p.shape[-3] > 1 else 0)


def as_blocks(parts: Sequence[CiphertextT], layout: Layout) -> CiphertextT:
    """The blocks, all at one level, as one ciphertext; one block stays as it is."""
    result = parts[0] if len(parts) == 1 else _beside(*parts)
    return evolve_layout(result, layout)


@operation("blocks", lambda *parts: np.stack(parts, -2))
def _beside(first: CiphertextT, *rest: CiphertextT) -> CiphertextT:
    normals = [normal(x) for x in (first, *rest)]
    polys = tuple(side_by_side(halves) for halves in zip(*(x.polys for x in normals), strict=True))
    noise = noises.side_by_side([x.noise for x in normals])
    count = len(normals)
    layout = Layout(count * first.slots, first.layout.is_complex, count)
    return evolve(normals[0], polys, noise, layout=layout)


@operation("a change of shape", lambda x, layout: x)
def evolve_layout(x: CiphertextT, layout: Layout) -> CiphertextT:
    """The same slots, of which those of `layout` are in use; what is pending stays so."""
    return dataclasses.replace(x, layout=layout)
