"""CKKS parameters as text: one line a level, then sizes and security."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ren.schemes.rlwe import security as bounds

if TYPE_CHECKING:
    from ren.schemes.ckks.parameters.parameters import Parameters


def security_text(p: Parameters) -> str:
    return "INSECURE" if p.is_insecure else f"{p.security_bits}-bit security"


def summary(p: Parameters) -> str:
    """`repr(parameters)`."""
    return (
        f"Parameters(n={p.n}, depth={p.depth}, scale=2^{p.scale_bits}, "
        f"log_qp={p.log_qp:.1f}, {security_text(p)})"
    )


def header_of(p: Parameters) -> dict[str, Any]:
    """Header fields of the parameters in a saved object; INSECURE where they are."""
    return {"params": p.to_dict(), "security": security_text(p)}


def table(p: Parameters) -> list[str]:
    """The lines of `str(parameters)`."""
    lines = [
        f"CKKS parameters: {security_text(p)}, n = {p.n}, {p.slots} slots, depth {p.depth}",
        "level  moduli   log2 Q  log2 scale  ciphertext",
    ]
    for level, moduli, bits, scale, size in level_rows(p):
        lines.append(f"{level:>5}{moduli:>8}{bits:>9}{scale:>12}{size:>12}")
    return [
        *lines,
        *(f"{name}: {what}" for name, what in fact_rows(p)),
        "key                            in memory       saved",
        *(f"{name:<26}{held:>14}{kept:>12}" for name, held, kept in key_rows(p)),
    ]


def level_rows(p: Parameters) -> list[tuple[str, ...]]:
    """Rows of the levels, the highest first: number, moduli, log2 Q, log2 scale, ciphertext."""
    rows = []
    for level in range(p.depth, -1, -1):
        ring, size = p.ring(level), _bytes_text(p.ciphertext_nbytes(level))
        scale = math.log2(p.scale(level))
        row = (str(level), str(ring.limbs), f"{ring.log2_q:.1f}", f"{scale:.3f}", size)
        rows.append(row)
    return rows


def fact_rows(p: Parameters) -> list[tuple[str, str]]:
    """Rows (name, text) of the other facts: bases, special primes, secret, keys."""
    target = p.security_bits or 128
    bound = bounds.max_log_qp(p.n, target)
    widest = max(map(len, p.digits))
    margin = f"the {target}-bit bound is {bound:.0f}, margin {bound - p.log_qp:.1f}"
    secret = f"{p.secret}; noise: sigma {p.sigma}; |message| < 2^{p.integer_bits - 1}"
    return [
        ("union of bases", f"{len(p.union)} moduli, {p.log_q:.1f} bits"),
        ("special primes", f"{len(p.specials)}, {math.log2(p.special_product):.1f} bits"),
        ("union times P", f"{p.log_qp:.1f} bits; {margin}"),
        ("secret", secret),
        ("keys", f"{p.dnum} digit{'s' * (p.dnum > 1)} of up to {widest} moduli"),
    ]


def key_rows(p: Parameters) -> list[tuple[str, ...]]:
    """Rows of the kinds of key: bytes held, and saved with uniform halves as 32-byte seeds."""
    switching, public = p.key_nbytes(), 2 * (len(p.union) + 1) * p.n * 4
    limbs = len(p.union) + len(p.specials)
    rows = [
        ("relinearization", switching, switching // 2 + 32),
        ("each rotation, conjugation", switching, switching // 2 + 32),
        ("public", public, public // 2 + 32),
        ("secret", (4 * limbs + 1) * p.n, p.n),
    ]
    return [(name, _bytes_text(held), _bytes_text(kept)) for name, held, kept in rows]


def _bytes_text(count: int) -> str:
    return f"{count / 2**20:.2f} MiB" if count >= 2**20 else f"{count / 2**10:.1f} KiB"
