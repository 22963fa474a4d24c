"""Count what 120 programs on ciphertexts cost: levels, rotations, keys, products, limb-NTTs.

`make golden` writes the counts to `tests/counted_programs.txt`. `tests/test_counted_programs.py`
asks that no count is above that of the file. A change that lowers one rewrites the file.

A line is a program in Python, on the arguments that `ARGUMENTS` has by name. Others are functions
of the examples, with a name. All are recorded at the least depth that suffices, for n = 2^12 and
without a check of security, so that the counts do not depend on a search for parameters.

Counts are those of the recorded graph, with equal nodes once:

- levels: the least depth;
- rotations: automorphisms of two polynomials, conjugations too;
- keys: different rotation keys;
- relinearizations: key switches without an automorphism;
- limb-NTTs: of the plan, after all passes, with those of bootstraps;
- bootstraps: ciphertexts that are bootstrapped. Their other counts are not in the row.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np

import ren
from benchmarks import models
from examples import scoring, training
from ren.core import op as ops
from ren.core.node import toposort
from ren.demo import scorer
from ren.lowering.plan.cost import graph_work
from ren.lowering.runtime.planning import plan_of
from ren.schemes import ckks
from ren.schemes.ckks.analysis import planning
from ren.schemes.ckks.circuits.linear import encoded
from ren.schemes.ckks.noise.around import with_around
from ren.schemes.rlwe.keyswitch import conjugation_element

FILE = Path(__file__).resolve().with_suffix(".txt")
N = 1 << 12
FIELDS = ("levels", "rotations", "keys", "relinearizations", "limb-NTTs", "bootstraps")
Counts = tuple[int, ...]

_rng = np.random.default_rng(7)
_CLEAR = {
    "w": _rng.uniform(-1, 1, 1000),
    "u": _rng.uniform(-1, 1, 32),
    "f": _rng.uniform(-1, 1, 2048),
    "W": _rng.uniform(-1, 1, (128, 128)) / 11,
    "V": _rng.uniform(-1, 1, (10, 128)) / 11,
    "M": _rng.uniform(-1, 1, (32, 32)) / 6,
    "B": np.triu(np.tril(np.ones((500, 500)), 2), -2),
    "K": _rng.uniform(-1, 1, (3, 3)),
    "np": np,
    "ckks": ckks,
}
ARGUMENTS = {
    "x": ckks.spec(2048),  # all slots
    "y": ckks.spec(2048),
    "z": ckks.spec(2048, complex),
    "p": ckks.spec(1000),
    "q": ckks.spec(1000),
    "r": ckks.spec(32),
    "h": ckks.spec(128),
    "k": ckks.spec(500),
    "s": ckks.spec(()),
    "t": ckks.spec((32, 32)),
    "g": ckks.spec((20, 7)),
    "i": ckks.spec((28, 28)),
    "a": ckks.spec((16, 16)),
    "b": ckks.spec((16, 16)),
    "R": ckks.spec((4, 256), pack="rows"),
    "C": ckks.spec((200, 4), pack="columns"),
    "D": ckks.spec((200, 4), pack="columns"),
    "L": ckks.spec(5000),  # cut into blocks
    "T": ckks.spec(16, bool),
}
LINES = """
x + y
x - 0.5
2 * x + y
x * y
x * x - 0.5
x * y + y * y - x
x * f + 1
(x + y) * (x - y)
x * y * x * y
x ** 5
x ** 8 + x
x * 0.5 * 0.25
x * y + z
z * z.conj()
z.real * z.imag
s * x + s
x * x.rotate(1) + y * y.rotate(1)
x.rotate(1)
x.rotate(-5) + x.rotate(7)
sum(x.rotate(i) for i in range(8))
x.rotate(3).rotate(-3)
p.rotate(2)
p.rotate(-2) * q
x.sum()
x.mean()
p.sum()
p.mean()
p - p.mean()
x.mean() * 0.5
ckks.stats.standardize(p, interval=(0.1, 1), degree=12)
p.var()
p.dot(q)
p.dot(w)
p.dot(p)
p.cumsum()
k.cumsum()
r.cumsum()
p.roll(3)
x.roll(3)
p[100:300]
p[1:] - p[:-1]
p[100:300].sum()
p[:500] * p[500:]
(p + 1)[10:20]
(p * w)[10:20].sum()
np.eye(1000)[::2] @ p
p.mask()
p.mask(w)
k * (np.arange(500) < 100)
r.tile(4)
h.tile(16)
ckks.concat([p, q])
ckks.concat([r, h, r])
ckks.concat([p[:10], q[5:20]])
ckks.pad(p, 1500)
ckks.strided_sum(x, 32)
ckks.strided_sum(x, 64, 32)
ckks.strided_sum(p, 7, 3)
t.reshape(16, 64)
t.sum()
t.sum(axis=0)
t.sum(axis=1)
t.mean(axis=0)
t.mean(axis=1)
t - t.mean(axis=0, keepdims=True)
t - t.mean(axis=1, keepdims=True)
t.var(axis=0)
t.var(axis=1)
t + r
t * u
t * r + r
t + t.sum(axis=1, keepdims=True)
g.sum(axis=0)
g.sum(axis=1)
g.mean(axis=0)
g.var(axis=1)
t[3:5]
t @ M
M @ t
t @ u
u @ t
W @ h
h @ W
V @ h
V.T @ (V @ h)
(W @ h) * h
W @ (W @ h)
B @ k
np.fft.fft(np.eye(64)) @ ckks.pad(r, 64)
ckks.matmul(a, b)
ckks.conv2d(i, K)
ckks.conv1d(k, np.ones(5))
R.sum(axis=1)
R.sum(axis=0)
R * R + 1
R @ np.ones((256, 3))
R.mean(axis=1) - 1
C.sum(axis=0)
C.sum(axis=1)
C.mean(axis=0)
C - C.mean(axis=0)
C.var(axis=0)
C * D + D
C @ np.arange(4.0)
ckks.mix(M[:4, :4], C, axis=1)
ckks.stats.cov(C)
C[:, 0] * D[:, 1]
L + L * 0.5
L.sum()
L.mean()
L.dot(L)
L[100:3000]
ckks.poly(x, [1.0, 0.5, 0.25, 0.125])
ckks.chebyshev(x, np.exp, (-1, 1), 15)
ckks.math.exp(x, interval=(-1, 1), degree=12)
ckks.math.sigmoid(x, interval=(-4, 4), degree=31)
ckks.math.tanh(p, interval=(-4, 4), degree=27)
ckks.math.sqrt(x, interval=(0.1, 1), degree=24)
ckks.math.log(x, interval=(0.1, 1), degree=20)
ckks.math.inverse(x, interval=(0.5, 1.5), degree=15)
ckks.math.sign(x, gap=0.1)
ckks.math.relu(x, interval=(-1, 1), degree=27)
ckks.math.abs(p, gap=0.1)
ckks.math.max(x, y, gap=0.1)
ckks.math.greater(p, q, gap=0.1)
ckks.math.all(T)
ckks.math.any(T)
ckks.stack([p, q]).sum(axis=0)
""".strip().splitlines()


def lola(x: Any) -> Any:
    """LoLa: a convolution of 5 maps with stride 2, 100 and 10 numbers, squares between them."""
    first, second, third = (layer.placed for layer in models.lola(np.random.default_rng(0)))
    x = encoded(first, x.params, x.level) @ x
    x = encoded(second, x.params, max(x.level - 1, 0)) @ (x * x)
    return encoded(third, x.params, max(x.level - 1, 0)) @ (x * x)


def descent(w: Any, x: Any) -> Any:
    """Three steps of gradient descent with momentum, each of a product and a mean."""
    v = w
    for _ in range(3):
        v = 0.9 * v - 0.1 * (x * (x * w)).mean()
        w = w + v
    return w


RECIPE = training.Recipe(100, 7)
_LAYER = tuple((_CLEAR["f"], _CLEAR["f"] / 2) for _ in range(4)), _CLEAR["f"]
FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "examples/scoring": (
        lambda samples: scoring.scores(samples, np.ones(scoring.SLOTS), 1.0),
        (ckks.spec(scoring.SLOTS),),
    ),
    "examples/training": (lambda z: training.train(z, RECIPE), (ckks.spec(RECIPE.slots),)),
    "demo, one layer": (
        lambda *x: scorer.affine(x, _LAYER, 32),
        tuple(ckks.spec(2048) for _ in range(2)),
    ),
    "perceptron 128-128-10": (
        lambda h: _CLEAR["V"] @ (_CLEAR["W"] @ h) ** 2,
        (ckks.spec(128),),
    ),
    "LoLa": (lola, (ckks.spec(784),)),
    "descent with momentum": (descent, (ckks.spec(()), ckks.spec(1000))),
}
BOOTSTRAPPED: dict[str, Callable[..., Any]] = {
    "x.bootstrap() ** 4": lambda x: x.bootstrap() ** 4,
    "x ** 4, then y, in one run": lambda x: sum(ckks.bootstrap([x**4, x * 2])),
}


@attrs.frozen
class Counted:
    """A program and what it is recorded with."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    is_bootstrapped: bool = False


def programs() -> list[Counted]:
    """All programs, in the order of the file."""
    made = []
    for line in LINES:
        code = compile(line, line, "eval")
        names = [name for name in code.co_names + _inner_names(code) if name in ARGUMENTS]
        names = list(dict.fromkeys(names))

        def function(*args: Any, code: Any = code, names: Any = names) -> Any:
            return eval(code, {**_CLEAR, **dict(zip(names, args, strict=True))})

        made.append(Counted(line, function, tuple(ARGUMENTS[name] for name in names)))
    made += [Counted(name, *given) for name, given in FUNCTIONS.items()]
    return made + [Counted(name, f, (ckks.spec(2048),), True) for name, f in BOOTSTRAPPED.items()]


def _inner_names(code: Any) -> tuple[str, ...]:
    return tuple(n for c in code.co_consts if hasattr(c, "co_names") for n in c.co_names)


def counts(program: Counted) -> Counts:
    """The counts of one program, in the order of `FIELDS`."""
    wishes: dict[str, Any] = {"scale_bits": 40, "security": None, "slots": None}
    ntts = bootstraps = 0
    if program.is_bootstrapped:
        found = ren.plan(program.function, *program.args, bootstrapping=True)
        wishes, ntts, bootstraps = {"bootstrapping": True}, found.limb_ntts, found.bootstraps
    n = None if program.is_bootstrapped else N
    with with_around(bootstraps=[]):
        trial, recording = planning.least_depth(program.function, program.args, n, wishes)
    nodes = toposort(recording.sink)
    switches = sum(node.op is ops.MODDOWN for node in nodes) // 2
    rotations = sum(node.op is ops.AUTOMORPHISM for node in nodes) // 2
    keys = set(trial.levels()) - {conjugation_element(trial.params.n)}
    depth, products = trial.params.depth, switches - rotations
    source = plan_of(recording.sink).source
    ntts = ntts or graph_work(source.sink).limb_ntts
    return depth, rotations, len(keys), products, ntts, bootstraps


def text() -> str:
    """The file: a row for each program."""
    rows = [", ".join(FIELDS)]
    for program in programs():
        rows.append(f"{' '.join(map(str, counts(program)))} | {program.name}")
    return "\n".join(rows) + "\n"


def recorded() -> dict[str, Counts]:
    """The counts of the file, by name."""
    rows = [row.partition(" | ") for row in FILE.read_text().splitlines()[1:]]
    return {name: tuple(map(int, numbers.split())) for numbers, _, name in rows}


if __name__ == "__main__":
    FILE.write_text(text())
