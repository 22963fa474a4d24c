"""Random programs over batches: axes that are broadcast, stacked and read in part."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np

from ren import Poly, RingSpec
from ren.poly.batching import item, stacked, unstacked
from tests.lowering.plans import poly
from tests.rings import primes

LARGEST = 24  # polynomials in one batch


def batched_inputs(seed: int, n: int, leading: tuple[int, ...] = ()) -> list[Poly]:
    """The inputs of `batched_program`; of each, one in two has the leading axes."""
    rng = random.Random(seed)
    ring = RingSpec(n, tuple(primes(n)[-rng.randint(2, 3) :]))
    axes = [rng.choice((1, 2, 3)) for _ in range(2)]
    found = []
    for i in range(rng.randint(2, 4)):
        own = tuple(rng.choice((k, k, 1)) for k in axes[rng.randint(0, 2) :])
        ahead = leading if i == 0 or rng.random() < 0.5 else ()
        found.append(poly(seed + i, ring, batch=(*ahead, *own)))
    return found


def batched_program(seed: int, length: int, inputs: Sequence[Poly]) -> list[Poly]:
    """The results of the program of `length` steps that belongs to `seed`, by their shapes."""
    rng = random.Random(seed)
    values = list(inputs)
    for _ in range(length):
        made = _step(rng, values)
        if made is not None and np.prod(made.shape[:-2]) <= LARGEST:
            values.append(made)
    return values[-rng.randint(1, 3) :]


def _step(rng: random.Random, values: Sequence[Poly]) -> Poly | None:
    x = rng.choice(values[-4:])
    fitting = [v for v in values if v.ring == x.ring and _meets(v, x)]
    y = rng.choice(fitting)
    batch = x.shape[:-2]
    steps: dict[str, Callable[[], Poly | None]] = {
        "add": lambda: x + y,
        "sub": lambda: x - y,
        "mul": lambda: x * y,
        "ntt": lambda: x.ntt() * 3 + 1,
        "turn": lambda: x.rotate(rng.choice((1, 3))),
        "rescale": lambda: x.rescale(x.ring.moduli[:-1]) if x.ring.limbs > 1 else None,
        "stack": lambda: stacked([x.ntt(), y.ntt(), x.ntt()]),
        "beside": lambda: stacked([x.intt(), y.intt()], -1),
        "part": lambda: rng.choice(unstacked(x)) if batch else None,
        "item": lambda: item(x, rng.randrange(batch[-1])) if batch else None,
    }
    return steps[rng.choice([*steps, "stack", "part", "item", "mul"])]()


def _meets(x: Poly, y: Poly) -> bool:
    pairs = zip(reversed(x.shape[:-2]), reversed(y.shape[:-2]), strict=False)
    return all(a == b or 1 in (a, b) for a, b in pairs)
