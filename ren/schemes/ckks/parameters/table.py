"""CKKS parameters as rows of text, and the lines made of them: levels, facts, keys."""

from __future__ import annotations

import math
from fractions import Fraction

import attrs

from ren.core.ring import RingSpec

Row = tuple[str, ...]


@attrs.frozen
class Report:
    """The rows that show a parameter set.

    Attributes:
        security: see `security_text`.
        n, slots, depth, scale_bits: as in the parameters.
        log_qp: log2 of the union of bases times P, in bits.
        levels: see `level_row`; the highest level first.
        facts: names, and what is to be said of each.
        keys: see `key_rows`.
    """

    security: str
    n: int
    slots: int
    depth: int
    scale_bits: int
    log_qp: float
    levels: tuple[Row, ...]
    facts: tuple[tuple[str, str], ...]
    keys: tuple[Row, ...]

    def __str__(self) -> str:
        lines = [
            f"CKKS parameters: {self.security}, n = {self.n}, {self.slots} slots, "
            f"depth {self.depth}",
            "level  moduli   log2 Q  log2 scale  ciphertext",
        ]
        for level, moduli, bits, scale, size in self.levels:
            lines.append(f"{level:>5}{moduli:>8}{bits:>9}{scale:>12}{size:>12}")
        lines += [f"{name}: {what}" for name, what in self.facts]
        lines.append("key                            in memory       saved")
        lines += [f"{name:<26}{held:>14}{kept:>12}" for name, held, kept in self.keys]
        return "\n".join(lines)


def security_text(bits: int) -> str:
    """The security in words: INSECURE for 0 bits."""
    return f"{bits}-bit security" if bits else "INSECURE"


def level_row(level: int, ring: RingSpec, scale: Fraction, nbytes: int) -> Row:
    """The number of a level, its moduli, log2 Q, log2 scale, and the size of a ciphertext."""
    size = _bytes_text(nbytes)
    return (str(level), str(ring.limbs), f"{ring.log2_q:.1f}", f"{math.log2(scale):.3f}", size)


def key_rows(n: int, union: int, specials: int, switching: int) -> tuple[Row, ...]:
    """Each kind of key, its bytes, and those saved: uniform halves as seeds of 32 bytes.

    Args:
        n: ring degree.
        union: how many moduli the union of bases has.
        specials: how many special moduli there are.
        switching: bytes of a key for key switching.
    """
    public = 2 * (union + 1) * n * 4
    rows = (
        ("relinearization", switching, switching // 2 + 32),
        ("each rotation, conjugation", switching, switching // 2 + 32),
        ("public", public, public // 2 + 32),
        ("secret", (4 * (union + specials) + 1) * n, n),
    )
    return tuple((name, _bytes_text(held), _bytes_text(kept)) for name, held, kept in rows)


def _bytes_text(count: int) -> str:
    return f"{count / 2**20:.2f} MiB" if count >= 2**20 else f"{count / 2**10:.1f} KiB"
