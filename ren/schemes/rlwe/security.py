"""Largest modulus that a ring degree can bear: the bound on union times P."""

from __future__ import annotations

import math
import numbers

from ren.core.errors import InsecureParametersError, ParameterError, shown

LEVELS = (128, 192, 256)
SIGMA = 3.2
SECRET = "ternary"
KNOWN_SECRET = "ternary, of a known seed"  # that of ckks.testing: no bound covers it

# log2 of the largest modulus for a uniform ternary secret and classical attacks, in the order of
# LEVELS. 0: no modulus is safe there. eprint 2024/463 (Bossuat et al., "Security Guidelines for
# Implementing Homomorphic Encryption"), Table 5.2.
MAX_LOG_QP: dict[int, tuple[int, int, int]] = {
    1 << 10: (26, 0, 0),
    1 << 11: (53, 36, 27),
    1 << 12: (106, 73, 56),
    1 << 13: (214, 147, 114),
    1 << 14: (430, 297, 230),
    1 << 15: (868, 597, 462),
    1 << 16: (1747, 1199, 929),
    1 << 17: (3523, 2411, 1866),
}


def check_security_target(security: object) -> int | None:
    """`security` when it is 128, 192, 256 or None; ParameterError for anything else."""
    if security is None:
        return None
    if isinstance(security, numbers.Integral) and int(security) in LEVELS:
        return int(security)
    raise ParameterError(
        f"The security target is {shown(security)}.",
        "It is one of 128, 192 and 256 (bits), or None for insecure experiments.",
        "Write security=128, or say security=None aloud.",
    )


def max_log_qp(n: int, security_bits: int | None) -> float:
    """The largest log2(Q P) at degree `n` for 128, 192 or 256 bits: eprint 2024/463, Table 5.2.

    It is 0.0 where no modulus is safe, infinity for None.

    Raises:
        ParameterError: `security_bits` is not one of these.
    """
    if check_security_target(security_bits) is None:
        return math.inf
    row = MAX_LOG_QP.get(n, (0, 0, 0))
    return float(row[LEVELS.index(security_bits)])  # type: ignore[arg-type]


def security_bits(n: int, log_qp: float, secret: str = SECRET, sigma: float = SIGMA) -> int:
    """The highest of 128, 192, 256 whose bound covers `log_qp` at degree `n`; 0 when INSECURE.

    Args:
        log_qp: log2 of the largest modulus that any key uses (union of bases times P), in bits.
        secret, sigma: of the secret and the noise; only "ternary" (uniform) and 3.2 are listed.
    """
    if secret != SECRET or sigma != SIGMA:
        return 0
    return max((bits for bits in LEVELS if log_qp <= max_log_qp(n, bits)), default=0)


# log2 of the largest modulus for a ternary secret of 32 nonzero coefficients, at 128 bits. Found by
# the lattice estimator (commit 27a581b, MATZOV), meet-in-the-middle included. The primal hybrid
# attack takes 2^178 at n = 2^16 and 2^157 at 2^15; the dual one takes 2^167 and 2^149. An attacker
# has n rotations of one secret, at most log2(n) bits less. See also eprint 2022/024, section 3.
SPARSE_MAX_LOG_Q = {1 << 15: 90.0, 1 << 16: 110.0}


def require_sparse_security(n: int, log_q: float, target: int | None) -> None:
    """Raise unless a secret of 32 nonzero coefficients bears `log_q` bits, or `target` is None.

    Raises:
        InsecureParametersError: another degree, another target than 128 bits, or too many bits.
    """
    bound = SPARSE_MAX_LOG_Q.get(n, 0.0)
    if target is None or (target == LEVELS[0] and log_q <= bound):
        return
    degrees = " and ".join(f"2^{d.bit_length() - 1}" for d in SPARSE_MAX_LOG_Q)
    raise InsecureParametersError(
        f"Bootstrapping was asked for at n={n} with {target}-bit security.",
        f"Its sparse secret is known to have 128 bits at n = {degrees}, up to "
        f"{min(SPARSE_MAX_LOG_Q.values()):.0f} and {max(SPARSE_MAX_LOG_Q.values()):.0f} bits of "
        f"modulus; here it has {log_q:.0f}.",
        "Use n=2**16 and security=128, or security=None for insecure experiments.",
    )


def smallest_secure_degree(log_qp: float, target: int) -> int | None:
    """The least n whose bound for `target` bits covers `log_qp`, or None beyond the table."""
    return next((n for n in sorted(MAX_LOG_QP) if log_qp <= max_log_qp(n, target)), None)


def require_security(
    n: int, log_qp: float, target: int | None, secret: str = SECRET, sigma: float = SIGMA
) -> None:
    """Raise unless security_bits(n, log_qp, secret, sigma) >= `target`, or `target` is None.

    Raises:
        InsecureParametersError: says by how much the bound is passed and which n would do.
    """
    if (target := check_security_target(target)) is None:
        return
    if secret != SECRET or sigma != SIGMA:
        raise InsecureParametersError(
            f"The secret is {secret!r} and the noise has sigma {sigma}.",
            f"The bounds hold for a {SECRET} secret and sigma {SIGMA} alone.",
            f"Use secret={SECRET!r}, sigma={SIGMA}, or security=None for insecure experiments.",
        )
    if security_bits(n, log_qp) < target:
        bound, larger = max_log_qp(n, target), smallest_secure_degree(log_qp, target)
        remedy = f"Use n={larger}" if larger else "Ask for less depth or smaller scales"
        raise InsecureParametersError(
            f"The moduli have log2(Q P) = {log_qp:.1f} bits at n={n}.",
            f"{target}-bit security allows log2(Q P) <= {bound:.0f} at n={n}."
            if bound
            else f"No modulus has {target}-bit security at n={n} (eprint 2024/463, Table 5.2).",
            f"{remedy}, or security=None for insecure experiments.",
        )
