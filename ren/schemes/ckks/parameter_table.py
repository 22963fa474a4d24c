"""CKKS parameters as text: one line a level, then sizes and security."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ren.schemes.rlwe import security as bounds

if TYPE_CHECKING:
    from ren.schemes.ckks.parameters import Parameters


def security_text(p: Parameters) -> str:
    return "INSECURE" if p.is_insecure else f"{p.security_bits}-bit security"


def table(p: Parameters) -> list[str]:
    """The lines of `str(parameters)`."""
    target = p.security_bits or 128
    bound = bounds.max_log_qp(p.n, target)
    widest = max(map(len, p.digits))
    lines = [
        f"CKKS parameters: {security_text(p)}, n = {p.n}, {p.slots} slots, depth {p.depth}",
        "level  moduli   log2 Q  log2 scale  ciphertext",
    ]
    for level in range(p.depth, -1, -1):
        ring, size = p.ring(level), _bytes_text(p.ciphertext_nbytes(level))
        scale = math.log2(p.scale(level))
        lines.append(f"{level:5}{ring.limbs:8}{ring.log2_q:9.1f}{scale:12.3f}{size:>12}")
    return [
        *lines,
        f"union of bases: {len(p.union)} moduli, {p.log_q:.1f} bits",
        f"special primes: {len(p.specials)}, {math.log2(p.special_product):.1f} bits",
        f"union times P: {p.log_qp:.1f} bits; the {target}-bit bound is {bound:.0f}",
        f"keys: {p.dnum} digits of up to {widest} moduli, {_bytes_text(p.key_nbytes())} each",
        f"secret: {p.secret}; noise: sigma {p.sigma}; |message| < 2^{p.integer_bits - 1}",
    ]


def _bytes_text(count: int) -> str:
    return f"{count / 2**20:.2f} MiB" if count >= 2**20 else f"{count / 2**10:.1f} KiB"
