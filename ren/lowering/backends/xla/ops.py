"""Emitters: each instruction as jax.numpy.

An emitter sees only the structure of its instruction and its tables, never moduli or values. Tests
compare emitters with the reference, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

from ren.lowering.kernels import (
    convert,
    division,
    mixing,
    modular,
    ntt,
    substitution,
    wide_moduli,
)
from ren.lowering.kernels.limb_groups import Parts, limbs
from ren.lowering.program.instructions import Arrays


def _dot(instr: Any, t: list[Arrays], *src: Any) -> Any:
    """Products are summed in 64 bits and reduced once for up to 16 of them."""
    return modular.mul_sum(list(zip(src[::2], src[1::2], strict=True)), *t[0])


def _elementwise(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f(*src, q)` of residues; of wide moduli on the numbers that their limbs are the words of."""

    def emit(instr: Any, t: list[Arrays], *src: Any) -> Any:
        q = t[-1][0]
        return (
            wide_moduli.elementwise(f, instr.structure, *src, q) if instr.structure else f(*src, q)
        )

    return emit


def _flip(instr: Any, t: list[Arrays], x: Any) -> Any:
    return jnp.where(t[0][1], _elementwise(modular.neg)(instr, t, x), x)


_LIFTS = {None: convert.lift, "from": wide_moduli.lift_from_wide, "to": wide_moduli.lift_to_wide}


def _lift(instr: Any, t: list[Arrays], x: Any) -> Any:
    return _LIFTS[instr.structure](x, *t[0])


def _mac(instr: Any, t: list[Arrays], w: Any, *terms: Any) -> Any:
    """Factors are taken at indices that are data, so that kernels are shared."""
    (indices,) = t[1]
    at = [lax.dynamic_index_in_dim(w, indices[j], 0, False) for j in range(len(terms))]
    return modular.mul_sum(list(zip(terms, at, strict=True)), *t[0])


def _at_zero(instr: Any, t: list[Arrays], x: Any) -> Any:
    return jnp.where(jnp.arange(instr.n) == 0, x, jnp.uint32(0))


def _limbs(runs: Any, x: Any) -> Any:
    """The limbs of x in runs (start, length), side by side."""
    parts = [x[..., start : start + length, :] for start, length in runs]
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts, axis=-2)


def _join(instr: Any, t: list[Arrays], *src: Any) -> Any:
    runs = instr.structure
    return Parts(tuple(limbs(src[i], start, start + length) for i, start, length in runs))


def _stack(instr: Any, t: list[Arrays], *src: Any) -> Any:
    """Sources get all batch axes, and a residue for each position."""
    batch = jnp.broadcast_shapes(*(s.shape[:-2] for s in src))
    full = [jnp.broadcast_to(s, (*batch, s.shape[-2], instr.n)) for s in src]
    return jnp.stack(full, axis=-3 if instr.structure else 0)


def _part(instr: Any, t: list[Arrays], x: Any) -> Any:
    index, axis = instr.structure
    return x[..., index, :, :] if axis else x[index]


def _shift(instr: Any, t: list[Arrays], x: Any) -> Any:
    minus_x = _elementwise(modular.neg)(instr, t, x)
    return substitution.shift_coefficients(x, minus_x, t[0][0])


def _embed(instr: Any, t: list[Arrays], x: Any) -> Any:
    if instr.structure is None:
        return substitution.embed_values(x, t[0][0])
    return substitution.embed_coefficients(x, instr.structure)


def _load(instr: Any, t: list[Arrays], array: Any, index: None) -> Any:
    runs, is_permuted = instr.structure
    if runs is not None:
        array = _limbs(runs, array)
    return substitution.permute_evaluations(array, t[0][0]) if is_permuted else array


def _store(instr: Any, t: list[Arrays], place: None, x: Any) -> Any:
    return jnp.broadcast_to(x, (*x.shape[:-2], instr.limbs, instr.n))


def _nothing(*_: Any) -> None:
    """Emit nothing: indices are part of their load, slots are arguments."""


# `(instr, tables, *src) -> array` or `Parts`, under 64-bit types. A SLOT is an argument.
EMIT: dict[str, Callable[..., Any]] = {
    "ADD": _elementwise(modular.add),
    "SUB": _elementwise(modular.sub),
    "MUL": lambda instr, t, a, b: modular.mont_mul(a, b, *t[0]),
    "DOT": _dot,
    "MAC": _mac,
    "NEG": _elementwise(modular.neg),
    "FILL": lambda instr, t: t[0][0],  # uint32[limb, 1], which broadcasts by itself
    "AT_ZERO": _at_zero,
    "DELTA": lambda instr, t: _at_zero(instr, t, t[0][0]),
    "VIEW": lambda instr, t, x: _limbs(instr.structure, x),
    "JOIN": _join,
    "STACK": _stack,
    "PART": _part,
    "MIX": lambda instr, t, x: mixing.mixed(x, instr.structure[0], *t[0], *t[1]),
    "SHIFT": _shift,
    "NTT": lambda instr, t, x: ntt.ntt(x, *t[0]),
    "INTT": lambda instr, t, x: ntt.intt(x, *t[0]),
    "CONVERT": lambda instr, t, x: convert.convert(x, *t[0]),
    "LIFT": _lift,
    "DIVIDE": lambda instr, t, x: division.divided(x, division.Form(*instr.structure), t[0]),
    "PERMUTE": lambda instr, t, x: substitution.permute_evaluations(x, t[0][0]),
    "FLIP": _flip,
    "EMBED": _embed,
    "CONTIGUOUS": lambda instr, t, x: x,
    "LOAD": _load,
    "STORE": _store,
    "GIDX": _nothing,
    "INDEX": _nothing,
}
