"""Keys of a bootstrap: which there are, over which gadgets, and how they are made.

Each has a label: the gadget that it is for, and the galois element. For an element g the key leads
from s to sigma_g^-1(s), as every rotation key, so that the permutation follows the products.

    low g            from the floor down, for SlotToCoeff
    sparse           from s to the sparse secret, modulo q_0 and one special prime
    raised g         from the sparse secret back, for what was raised: the babies of the first
                     matrix of CoeffToSlot, g = 1 among them. One digit.
    full g           over all moduli, for CoeffToSlot and the conjugation
    full square      the relinearization key over all moduli

The sparse secret is derived from the secret and forgotten: it is in no keychain and no bytes. The
chain of keys from s to it and back rests on circular security, as all bootstrapping does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ren.poly import Poly
from ren.progress import Progress
from ren.sampling import Xof, sparse_ternary
from ren.schemes.ckks.bootstrapping import matrices
from ren.schemes.ckks.bootstrapping.chain import Chain
from ren.schemes.rlwe.keychain import key_entropy
from ren.schemes.rlwe.keys import (
    Secret,
    SwitchingKey,
    automorphism_of,
    make_switching_key,
    secret_from,
    square_of,
)
from ren.schemes.rlwe.keyswitch import Gadget, conjugation_element, galois_element

SPARSE, SQUARE = "sparse", "full square"
_PREFIX = b"bootstrapping/"


def low(steps: int, chain: Chain) -> str:
    """The label of a rotation in SlotToCoeff."""
    return f"low {galois_element(steps, chain.params.n)}"


def raised(steps: int, chain: Chain) -> str:
    """The label of a rotation of what was raised; 0 leads back to the secret alone."""
    return f"raised {galois_element(steps, chain.params.n)}"


def full(steps: int, chain: Chain) -> str:
    """The label of a rotation in CoeffToSlot."""
    return f"full {galois_element(steps, chain.params.n)}"


def conjugation(chain: Chain) -> str:
    """The label of the conjugation."""
    return f"full {conjugation_element(chain.params.n)}"


@lru_cache(maxsize=8)
def labels(chain: Chain) -> tuple[str, ...]:
    """All keys that a bootstrap takes, each once."""
    down, up = products(chain)
    found: dict[str, None] = {}
    for place, m in enumerate(down.matrices):
        offset = 0 if place else down.offset
        found |= dict.fromkeys(low(k, chain) for k in _steps(m, offset) if k % (chain.params.n // 2))
    found[SPARSE] = None
    first, *rest = up.matrices
    found |= dict.fromkeys(raised(up.offset + first.unit * j, chain) for j in range(first.babies))
    steps = [first.giant_step] * (first.giants > 1)
    steps += [k for m in rest for k in _steps(m, 0)]
    found |= dict.fromkeys(full(k, chain) for k in steps if k % (chain.params.n // 2))
    return (*found, conjugation(chain), SQUARE)


def products(chain: Chain) -> tuple[matrices.Product, matrices.Product]:
    """SlotToCoeff and CoeffToSlot."""
    slots = chain.params.slots
    return (
        matrices.slot_to_coeff(slots, chain.above.floor),
        matrices.coeff_to_slot(slots, chain.top - chain.first),
    )


def _steps(m: matrices.Matrix, offset: int) -> Iterator[int]:
    yield from (offset + m.unit * j for j in range(m.babies))
    if m.giants > 1:
        yield m.giant_step


def gadget_of(label: str, chain: Chain) -> Gadget:
    """The gadget of a key; it names the ring and counts the digits."""
    return {"low": chain.low, "sparse": chain.sparse, "raised": chain.raised}.get(
        label.split()[0], chain.full
    )


def nbytes(chain: Chain) -> int:
    """Bytes of all keys in memory."""
    gadgets = [gadget_of(label, chain) for label in labels(chain)]
    return sum(8 * len(g.digits) * g.ring.limbs * g.n for g in gadgets)


def make(
    wanted: Iterable[str], secret: Secret, chain: Chain
) -> Mapping[str, SwitchingKey]:
    """The keys with these labels, computed at once; equal secrets have equal ones."""
    wanted = list(wanted)
    params, made = chain.params, dict[str, SwitchingKey]()
    dense = {g: secret_from(secret.coefficients, g.ring) for g in {gadget_of(k, chain) for k in wanted}}
    short = _sparse_secret(secret, chain)
    with Progress(len(wanted), "making bootstrapping keys") as progress:
        for label in wanted:
            gadget = gadget_of(label, chain)
            own = dense[gadget]
            source, target = _ends(label, own, short, gadget)
            name = _PREFIX + label.encode()
            made[label] = make_switching_key(
                source, target, gadget.factors, params.digest, name, params.sigma,
                key_entropy(secret, params.digest, name),
            )  # fmt: skip
            progress.step()
    return made


def key_label(label: str) -> bytes:
    """The label that separates the seed of a key from that of another."""
    return _PREFIX + label.encode()


def _ends(
    label: str, own: Secret, short: NDArray[np.int8], gadget: Gadget
) -> tuple[Poly, Poly]:
    """The secret that a key leads from, and that which it leads to."""
    kind, *rest = label.split()
    if kind == "sparse":
        return own.poly, secret_from(short, gadget.ring).poly
    if label == SQUARE:
        return square_of(own), own.poly
    element = pow(int(rest[0]), -1, 2 * gadget.n)
    target = own.poly if element == 1 else automorphism_of(own, element)
    source = secret_from(short, gadget.ring).poly if kind == "raised" else own.poly
    return source, target


def _sparse_secret(secret: Secret, chain: Chain) -> NDArray[np.int8]:
    """The sparse secret of a secret: int8 [n], `weight` coefficients +-1."""
    n, count = chain.params.n, chain.above.weight
    draws = key_entropy(secret, chain.params.digest, _PREFIX + b"secret")
    return sparse_ternary(Xof(draws(), b"ren/ckks/bootstrapping/sparse"), n, count)
