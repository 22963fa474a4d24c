"""Random polynomials: where their bytes come from.

Without a seed a polynomial is drawn from fresh operating-system entropy and is never merged with
another. Under `ren.jit` it becomes an input that is drawn anew at every replay. Under a JAX
transformation it raises, as one traced draw would be reused for every run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ren import sampling
from ren.core.errors import RandomnessError
from ren.core.node import Node, buffer, placeholder
from ren.core.ring import Domain, RingSpec
from ren.core.spec import Spec
from ren.core.user_frame import user_line
from ren.lowering.devices.trace_inputs import is_transforming
from ren.lowering.runtime.host_arrays import placed
from ren.poly.checks import as_batch
from ren.poly.integers import as_coefficients, in_limbs, montgomery, to_limbs
from ren.poly.realization import is_capturing
from ren.sampling import Xof


def draw(
    ring: RingSpec,
    distribution: str,
    sample: Callable[[Xof], NDArray],
    seed: bytes | None,
    device: Any,
    batch: Any,
) -> Node:
    """The node of a random polynomial in coefficients.

    Args:
        ring: of the polynomial.
        distribution: its name; streams of two distributions are independent.
        sample: reads the stream and nothing else, and gives n integers, or residues [limb, n]. Of
            wide moduli they are uint64 [modulus, n].
        seed: None for fresh entropy; bytes are expanded with SHAKE-256, the same everywhere.
        device: where the limbs go.
        batch: leading axes of independent draws: a tuple of lengths, or one of them.

    Raises:
        DomainError: another batch.
        RandomnessError: no seed under a JAX transformation; a seed that is not bytes.
    """

    batch = as_batch(batch)

    def limbs(entropy: bytes) -> Any:
        if not all(batch):
            return placed(np.zeros((*batch, ring.limbs, ring.n), np.uint32), device)
        xof = Xof(entropy, b"ren/poly/" + distribution.encode())
        each = [_limbs(sample(xof), ring) for _ in range(math.prod(batch))]
        return placed(np.stack(each).reshape(*batch, *each[0].shape) if batch else each[0], device)

    if seed is not None:
        return buffer(limbs(seed), ring, Domain.COEFF)
    if is_transforming():
        raise RandomnessError(
            f"{user_line()} draws a random polynomial inside a JAX transformation.",
            "A draw made while tracing would be the same at every run and for every batch entry.",
            "Draw outside and pass the polynomial in, or give a bytes seed.",
        )
    if not is_capturing():
        return buffer(limbs(sampling.fresh_seed()), ring, Domain.COEFF)
    sample(Xof(b"check", b"ren/poly"))  # a bad distribution raises at the user's line
    claim = device if device == "python" else None
    spec = Spec(ring, Domain.COEFF, batch)
    return placeholder(spec, claim, lambda values: limbs(sampling.fresh_seed()), "DRAW")


def _limbs(values: NDArray, ring: RingSpec) -> NDArray[np.uint32]:
    if values.dtype == np.uint64 and values.ndim == 2:  # of wide moduli
        return montgomery(in_limbs(values, ring.moduli), ring.moduli)
    if values.ndim == 2:
        return montgomery(values, ring.moduli)
    return to_limbs(as_coefficients(values, ring.n), ring.moduli)
