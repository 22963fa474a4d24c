"""Linear maps as bytes, and back with every field checked: a server loads what another encoded.

After the header come the places int32 [diagonal, 4], then each batch of diagonals, then the norm.
A batch is its limbs, or the words of its coefficients where those are kept, and its noise. Limbs
are those of the smaller ring where the slots repeat.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ren.core.ring import Domain, RingSpec
from ren.poly.integers import of_moduli, plain
from ren.schemes.ckks.encoding import serialization
from ren.schemes.ckks.encoding.ciphertext_data import DTYPES
from ren.schemes.ckks.encoding.layout import MOST_SLOTS, Layout
from ren.schemes.ckks.encoding.plaintext import Plaintext, integer_ring, periodic_ring, ring_of
from ren.schemes.ckks.noise.bounds import LARGEST
from ren.schemes.ckks.parameters.parameters import FRAME, Parameters, header_of, parameters_of
from ren.schemes.rlwe.frame import Reader, damaged, limbs_of
from ren.schemes.rlwe.keys import from_residues
from ren.schemes.slots.diagonals import Split, doublings

LINEAR_MAP = "linear map"
_OF_SPLITS = (
    "stride", "first", "unit", "is_chained", "is_walked", "is_wide", "copies", "period"
)  # fmt: skip


def map_parts(m: Any) -> Iterator[bytes | memoryview]:
    """The bytes of a `LinearMap`, part by part: one batch of diagonals at a time is copied."""
    split, first = m.split, m.plaintexts[0]
    header = {
        **header_of(first.params),
        "level": first.level,
        "map": list(m.shape),
        "is_complex": int(m.is_complex),
        **{name: int(getattr(split, name)) for name in _OF_SPLITS},
        "folds": list(split.folds),
        "batches": [[p.wide.shape[0], p.bits, _form(p)] for p in m.plaintexts],
        **({"shape": list(m.label)} if m.label else {}),
        **({"pairs": list(split.babies)} if split.is_paired else {}),
        **({"number_type": m.number_type} if m.number_type else {}),
    }

    def arrays() -> Iterator[NDArray]:
        yield np.array(m.places, np.int32)
        for p in m.plaintexts:
            (limbs,) = limbs_of(p.wide, is_ntt=False)
            yield limbs
            yield serialization.noise_array(p.noise, limbs)
        yield np.asarray(m.norm, np.float32)

    return FRAME.parts(LINEAR_MAP, first.params.digest, header, arrays())


def read_map(data: bytes) -> dict[str, Any]:
    """The fields of the map that `map_parts` wrote.

    Raises:
        SerializationError: truncated, altered or foreign bytes.
    """
    reader = FRAME.unpack(LINEAR_MAP, data)
    params = parameters_of(reader)
    level = reader.integer("level", min(1, params.depth), params.depth)
    shape, is_complex = _sizes(reader), reader.boolean("is_complex")
    batches = _batches(reader)
    places = reader.array((sum(count for count, *_ in batches), 4), "<i4")
    split = _split(reader, places, shape, params.slots)
    if is_complex and split.is_paired:
        raise damaged(LINEAR_MAP, "the diagonals of a complex matrix are paired")
    layout = Layout(params.slots, is_complex or split.is_paired)
    rings = {
        0: integer_ring(params.n, True), 1: ring_of(params, level, split.is_wide),
        2: integer_ring(params.n, False), 3: periodic_ring(params, level, split.is_wide),
    }  # fmt: skip
    plaintexts = tuple(_plaintext(reader, params, level, rings, layout, *b) for b in batches)
    number_type = reader.header.get("number_type")
    if number_type not in (None, *DTYPES):
        raise damaged(LINEAR_MAP, f"the type of its numbers is {number_type!r:.80}")
    norm = reader.array((), "<f4").astype(np.float32)
    if not 0 <= norm <= LARGEST:
        raise damaged(LINEAR_MAP, "the largest row is out of range")
    reader.finish()
    return {
        "plaintexts": plaintexts, "places": tuple(map(tuple, places.tolist())), "split": split,
        "shape": shape, "is_complex": is_complex, "norm": norm,
        "label": serialization.read_label(reader, shape[0]), "number_type": number_type,
    }  # fmt: skip


def _form(p: Plaintext) -> int:
    """1 for residues, 3 for those of slots that repeat; else the coefficients alone.

    0 for those of 8 bytes, 2 for those of 4.
    """
    if p.wide.domain is Domain.NTT:
        return 1 if p.wide.ring.n == p.params.n else 3
    return 0 if p.wide.ring.has_wide else 2


def _sizes(reader: Reader) -> tuple[int, int]:
    """The shape (m, k) of the matrix."""
    held = reader.items("map")
    if len(held) != 2 or not all(type(v) is int and 0 < v < 1 << 31 for v in held):
        raise damaged(LINEAR_MAP, f"the shape of the matrix is {held!r:.80}")
    return held[0], held[1]


def _batches(reader: Reader) -> list[tuple[int, int, int]]:
    """The number of diagonals of each batch, their bits, and their form."""
    held, most = reader.items("batches"), len(reader.body)
    for batch in held:
        is_whole = isinstance(batch, list) and len(batch) == 3 and {*map(type, batch)} == {int}
        if not (is_whole and 0 < batch[0] <= most and batch[1] >= 0 and 0 <= batch[2] <= 3):
            raise damaged(LINEAR_MAP, f"a batch of diagonals is {batch!r:.80}")
    if not held:
        raise damaged(LINEAR_MAP, "it has no diagonals")
    return [(count, bits, form) for count, bits, form in held]


def _split(reader: Reader, places: NDArray[np.int32], shape: tuple[int, int], slots: int) -> Split:
    """The split of the steps; blocks and steps of all places fit it."""
    blocks = -(-shape[0] // slots), -(-shape[1] // slots)
    stride, unit = (reader.integer(name, 1, MOST_SLOTS) for name in ("stride", "unit"))
    first = reader.integer("first", -stride, 0)
    copies = reader.integer("copies", 1, slots)
    period = reader.integer("period", -(slots // copies) if copies <= 2 else 1, slots // copies)
    row, column, giant, baby = places.T.astype(np.int64)
    is_walked = reader.boolean("is_walked")
    room = 2 * slots * max(blocks)
    fits = (
        set(row.tolist()) == {*range(min(blocks[0], len(row) + 1))}
        and ((column >= 0) & (column < blocks[1])).all()
        and ((first <= baby) & (baby < first + stride) & (baby % unit == 0)).all()
        and ((giant % stride == 0) & (abs(giant) <= room)).all()
        and stride % unit == 0
        and not (is_walked and first)
        and (copies == 1 or shape[1] <= abs(period))
    )
    folds, is_chained = reader.items("folds"), reader.boolean("is_chained")
    last = folds[-1] if folds else 1
    are_ints = all(type(step) is int and 0 < step < slots for step in folds)
    if not (fits and are_ints and folds == doublings(1 << len(folds), last)):
        raise damaged(LINEAR_MAP, "the rotations do not fit the diagonals")
    # Maps of before it was written are wide.
    is_wide = "is_wide" not in reader.header or reader.boolean("is_wide")
    babies, giants = (tuple(sorted({*steps.tolist()})) for steps in (baby, giant))
    is_paired = "pairs" in reader.header
    if is_paired:
        firsts, babies = babies, _paired_babies(reader, stride, first, unit)
        if not {*firsts} <= {*babies[::2]}:
            raise damaged(LINEAR_MAP, "the pairs do not fit the diagonals")
    return Split(
        stride, first, babies, giants, is_chained, is_walked, unit, tuple(folds), blocks, copies,
        period, is_paired, is_wide,
    )  # fmt: skip


def _paired_babies(reader: Reader, stride: int, first: int, unit: int) -> tuple[int, ...]:
    """The baby steps of paired diagonals, ascending: one pair after another."""
    held, room = reader.items("pairs"), range(first, first + stride)
    fits = all(type(step) is int and step in room and step % unit == 0 for step in held)
    if not fits or held != sorted({*held}):
        raise damaged(LINEAR_MAP, f"the pairs are {held!r:.80}")
    return tuple(held)


def _plaintext(
    reader: Reader, params: Parameters, level: int, rings: Mapping[int, RingSpec | None],
    layout: Layout, count: int, bits: int, form: int,
) -> Plaintext:  # fmt: skip
    """A batch of diagonals in the ring of its form: limbs, or coefficients below 2^bits."""
    domain, ring = Domain.NTT if form in (1, 3) else Domain.COEFF, rings[form]
    if ring is None:
        raise damaged(LINEAR_MAP, "diagonals are of slots that repeat, and these do not")
    limbs = reader.residues(ring, (count,))
    if domain is Domain.COEFF:
        values = of_moduli(plain(limbs, ring.moduli), ring.moduli)
        if np.any(np.minimum(values, np.uint64(ring.q) - values) >> np.uint64(min(bits, 60))):
            raise damaged(LINEAR_MAP, "a coefficient is out of range")
    if bits > params.ring(level).q.bit_length():
        raise damaged(LINEAR_MAP, f"{bits} bits are more than the level has")
    noise, poly = serialization.read_noise(reader, (count,)), from_residues(limbs, ring, domain)
    return Plaintext(poly, level, layout, params, bits, noise, is_zero=not limbs.any())
