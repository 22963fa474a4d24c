"""Emitters: each instruction as jax.numpy.

An emitter sees only the structure of its instruction and its tables, never moduli or values. Tests
compare emitters with the reference, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from ren.lowering.kernels import automorphism, convert, embedding, modular, ntt
from ren.lowering.kernels.limb_groups import Parts, limbs
from ren.lowering.program.instructions import Arrays

# ------------------------------------------------------------------- elementwise


def _add(instr: Any, t: list[Arrays], a: Any, b: Any) -> Any:
    return modular.add(a, b, t[0][0])


def _sub(instr: Any, t: list[Arrays], a: Any, b: Any) -> Any:
    return modular.sub(a, b, t[0][0])


def _neg(instr: Any, t: list[Arrays], a: Any) -> Any:
    return modular.neg(a, t[0][0])


def _mul(instr: Any, t: list[Arrays], a: Any, b: Any) -> Any:
    return modular.mont_mul(a, b, *t[0])


def _dot(instr: Any, t: list[Arrays], *src: Any) -> Any:
    """Products are summed in 64 bits and reduced once for up to 16 of them."""
    return modular.mul_sum(list(zip(src[::2], src[1::2], strict=True)), *t[0])


# ------------------------------------------------------------------- constants


def _fill(instr: Any, t: list[Arrays]) -> Any:
    """`uint32[limb, 1]` of equal values, which broadcasts by itself."""
    return t[0][0]


def _delta(instr: Any, t: list[Arrays]) -> Any:
    return jnp.where(jnp.arange(instr.n) == 0, t[0][0], jnp.uint32(0))


def _at_zero(instr: Any, t: list[Arrays], x: Any) -> Any:
    return jnp.where(jnp.arange(instr.n) == 0, x, jnp.uint32(0))


# ------------------------------------------------------------------- limbs


def _view(instr: Any, t: list[Arrays], x: Any) -> Any:
    parts = [x[..., start : start + length, :] for start, length in instr.structure]
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts, axis=-2)


def _full(instr: Any, src: Arrays) -> list[Any]:
    """Sources with all batch axes, and a residue for each position."""
    batch = jnp.broadcast_shapes(*(s.shape[:-2] for s in src))
    return [jnp.broadcast_to(s, (*batch, s.shape[-2], instr.n)) for s in src]


def _join(instr: Any, t: list[Arrays], *src: Any) -> Any:
    runs = instr.structure
    return Parts(tuple(limbs(src[i], start, start + length) for i, start, length in runs))


# ------------------------------------------------------------------- batch axes


def _stack(instr: Any, t: list[Arrays], *src: Any) -> Any:
    return jnp.stack(_full(instr, src), axis=-3 if instr.structure else 0)


def _part(instr: Any, t: list[Arrays], x: Any) -> Any:
    index, axis = instr.structure
    return x[..., index, :, :] if axis else x[index]


# ------------------------------------------------------------------- transforms


def _ntt(instr: Any, t: list[Arrays], x: Any) -> Any:
    return ntt.ntt(x, *t[0])


def _intt(instr: Any, t: list[Arrays], x: Any) -> Any:
    return ntt.intt(x, *t[0])


def _convert(instr: Any, t: list[Arrays], x: Any) -> Any:
    return convert.convert(x, *t[0])


def _lift(instr: Any, t: list[Arrays], x: Any) -> Any:
    return convert.lift(x, *t[0])


def _embed(instr: Any, t: list[Arrays], x: Any) -> Any:
    if instr.structure is None:
        return embedding.embed_values(x, t[0][0])
    return embedding.embed_coefficients(x, instr.structure)


# ------------------------------------------------------------------- loads and stores


def _load(instr: Any, t: list[Arrays], array: Any, index: None) -> Any:
    runs, is_permuted = instr.structure
    if runs is not None:
        parts = [array[..., start : start + length, :] for start, length in runs]
        array = parts[0] if len(parts) == 1 else jnp.concatenate(parts, axis=-2)
    return automorphism.permute_evaluations(array, t[0][0]) if is_permuted else array


def _permute(instr: Any, t: list[Arrays], x: Any) -> Any:
    return automorphism.permute_evaluations(x, t[0][0])


def _flip(instr: Any, t: list[Arrays], x: Any) -> Any:
    return jnp.where(t[0][1], modular.neg(x, t[1][0]), x)


def _store(instr: Any, t: list[Arrays], place: None, x: Any) -> Any:
    return jnp.broadcast_to(x, (*x.shape[:-2], instr.limbs, instr.n))


def _identity(instr: Any, t: list[Arrays], x: Any) -> Any:
    return x


def _nothing(*_: Any) -> None:
    """Emit nothing: indices are part of their load, slots are arguments."""


# `(instr, tables, *src) -> array` or `Parts`, under 64-bit types. A SLOT is an argument.
EMIT: dict[str, Callable[..., Any]] = {
    "ADD": _add,
    "SUB": _sub,
    "MUL": _mul,
    "DOT": _dot,
    "NEG": _neg,
    "FILL": _fill,
    "AT_ZERO": _at_zero,
    "DELTA": _delta,
    "VIEW": _view,
    "JOIN": _join,
    "STACK": _stack,
    "PART": _part,
    "NTT": _ntt,
    "INTT": _intt,
    "CONVERT": _convert,
    "LIFT": _lift,
    "PERMUTE": _permute,
    "FLIP": _flip,
    "EMBED": _embed,
    "CONTIGUOUS": _identity,
    "LOAD": _load,
    "STORE": _store,
    "GIDX": _nothing,
    "INDEX": _nothing,
}
