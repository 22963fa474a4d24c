"""`make bench BENCH=estimates`: how far tracked error bounds are above true errors, in bits.

Each line is a result of a program of the notebooks or examples. Its truth is NumPy's. Pessimism is
log2(`estimate.error_bound` / largest true error) of three runs. The bound is 6.5 standard
deviations, so that one bit is the least for thousands of slots, and two or three for one number.
Prints a table, and the median of the lines and of the programs. The command fails where an error
passes its bound, or a median is above 4 bits.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes

import ren
from benchmarks.rows import aligned
from examples import scoring, training
from ren.demo import model, packing, scorer
from ren.progress import Progress
from ren.schemes import ckks

MOST_BITS = 4.0  # of the medians
RUNS = 3

Result = tuple[str, ckks.Ciphertext, Any]
Program = Callable[[], Iterator[Result]]


@attrs.frozen
class Line:
    """One result: its level, true error and tracked bound; its largest number and their bound."""

    name: str
    level: int
    error: float
    bound: float
    largest: float
    message: float

    @property
    def pessimism(self) -> float:
        """log2(bound / error)."""
        return math.log2(self.bound / self.error)

    def cells(self, program: str) -> tuple[str, ...]:
        """A row of the table."""
        figures = f"{self.error:.1e}", f"{self.bound:.1e}", f"{self.pessimism:.1f} bits"
        return (
            program,
            self.name,
            str(self.level),
            *figures,
            f"{self.largest:.3g}",
            (f"{self.message:.3g}"),
        )


def first_steps() -> Iterator[Result]:
    """Lines of notebook 4."""
    ctx = ckks.context(depth=4)
    a, b = np.linspace(0, 1, 1000), np.linspace(1, 2, 1000)
    x, y = ctx.encrypt(a), ctx.encrypt(b)
    yield "x", x, a
    yield "x * y + x.rotate(1) - 0.5", x * y + x.rotate(1) - 0.5, a * b + np.append(a[1:], 0) - 0.5
    yield "3 * x", 3 * x, 3 * a
    yield "x * y", x * y, a * b
    yield "x * y + x * x", x * y + x * x, a * b + a * a
    yield "x * y * x", x * y * x, a * b * a
    yield "x**8", x**8, a**8
    yield "x**16", x**16, a**16
    yield "x.sum()", x.sum(), a.sum()
    yield "x.mean()", x.mean(), a.mean()
    yield "x.dot(b)", x.dot(b), a @ b
    matrix = np.random.default_rng(0).normal(size=(16, 1000))
    yield "matrix @ x", matrix @ x, matrix @ a
    v = ctx.encrypt([1.0, 2.0, 3.0, 4.0, 5.0])
    yield "v.roll(1)", v.roll(1), [5, 1, 2, 3, 4]
    yield "v[2:]", v[2:], [3, 4, 5]
    t = np.linspace(-6, 6, 1000)
    computed = ckks.math.sigmoid(ctx.encrypt(t).within(6), interval=(-6, 6), degree=7)
    yield "sigmoid of degree 7", computed, 1 / (1 + np.exp(-t))


def scales() -> Iterator[Result]:
    """Squares of notebook 4 at three scales, and its score."""
    a = np.linspace(0, 1, 1000)
    for scale_bits in (30, 40, 50):
        ctx = ckks.context(depth=2, scale_bits=scale_bits)
        u = ctx.encrypt(a)
        yield f"u * u, scale_bits={scale_bits}", u * u, a * a
    ctx = ckks.context(depth=2)
    u = ctx.encrypt(a)
    wanted = np.append((a * a)[2:], [0, 0]) * 0.25 + a
    yield "score", (u * u).rotate(2) * 0.25 + u, wanted


def digits() -> Iterator[Result]:
    """The networks of notebook 5 and of the demo, on one batch."""
    images = model.load()
    ctx = ckks.context(depth=3)
    size = packing.segment_length(ctx.slots)
    ctx.rotation_keys(size)
    batch = images.test_images[:size]
    for net in (model.train_linear(images), model.train_square(images)):
        level = 2 * len(net.layers) - 1
        pixels = tuple(ctx.encrypt(v, level=level) for v in packing.pack(batch, ctx.slots))
        _, scores = scorer.score(ctx, net, pixels)
        wanted = np.zeros((size, packing.SEGMENTS))
        wanted[:, : model.CLASSES] = net.scores(batch)
        yield net.name, scores, wanted.T.ravel()


def statistics_of_patients() -> Iterator[Result]:
    """Means, variances and covariances of notebook 6."""
    raw = load_diabetes(scaled=False)
    table = np.stack([raw.data[:, 0], raw.data[:, 2], raw.data[:, 3], raw.target])
    scaled = table / np.array([[50], [25], [100], [150]])
    pairs = [(i, j) for i in range(4) for j in range(i)]

    def moments(columns: ckks.Ciphertext) -> tuple[ckks.Ciphertext, ...]:
        mean = columns.mean(axis=-1, keepdims=True)
        away = columns - mean
        variance = (away * away).mean(axis=-1)
        rows = ckks.unstack(away)
        return mean, variance, ckks.stack([(rows[i] * rows[j]).mean() for i, j in pairs])

    ctx = ckks.context(ren.plan(moments, ckks.spec(table.shape, pack="rows")))
    one, two = scaled.copy(), scaled.copy()
    one[:, 200:], two[:, :200] = 0, 0
    everybody = ctx.encrypt(one, bound=4, pack="rows") + ctx.encrypt(two, bound=4, pack="rows")
    mean, variance, covariance = ren.jit(moments)(everybody)
    found = np.cov(scaled, bias=True)
    yield "means", mean, scaled.mean(axis=1, keepdims=True)
    yield "variances", variance, scaled.var(axis=1)
    yield "covariances", covariance, np.array([found[i, j] for i, j in pairs])


def histogram() -> Iterator[Result]:
    """Counts of ages above edges, of notebook 6."""
    ages, block = np.asarray(load_diabetes(scaled=False).data[:, 0]), 512
    edges = np.arange(17.5, 80, 2)

    def older(ages: ckks.Ciphertext, edges: NDArray) -> ckks.Ciphertext:
        return ckks.math.greater(ages, edges, interval=(0, 1), gap=0.5 / 80, precision=12)

    questions = np.repeat(edges, block) / 80
    plan = ren.plan(
        lambda a, q: ckks.strided_sum(older(a, q), block), ckks.spec(questions.size), questions
    )
    ctx, values = ckks.context(plan), np.zeros(block)
    values[: len(ages)] = ages / 80
    values = np.tile(values, len(edges))
    steps = older(ctx.encrypt(values, bound=1), questions)
    wanted = (values > questions).astype(float)
    yield "ages above edges", steps, wanted
    counts = ckks.strided_sum(steps, block)
    yield "counts", counts, sum(np.roll(wanted, -k) for k in range(block))


def learning() -> Iterator[Result]:
    """Training of notebook 7, after one, two and three steps."""
    data = load_breast_cancer()
    order = np.random.default_rng(0).permutation(len(data.target))
    x, benign, seen = data.data[order], data.target[order], 456
    x = training.scaled(x, x[:seen].mean(axis=0), x[:seen].std(axis=0))
    z = training.signed(x, benign)[:seen]
    recipe = training.Recipe(samples=seen, features=30)
    plan = ren.plan(training.train, ckks.spec(recipe.slots), recipe, slots=recipe.slots)
    ctx = ckks.context(plan, slots=recipe.slots)
    samples = ctx.encrypt(training.packed(z, recipe), bound=1)
    for steps in (1, 2, 3):
        short = attrs.evolve(recipe, steps=steps)
        row = np.zeros(recipe.shape[1])
        row[: z.shape[1]] = training.train_in_the_clear(z, short)
        wanted = np.tile(row, recipe.shape[0])
        yield f"training, {steps} steps", ren.jit(training.train)(samples, short), wanted


def requests() -> Iterator[Result]:
    """The batch of notebook 8."""
    ctx, rows = ckks.context(depth=2), np.random.default_rng(0).uniform(-1, 1, (8, 1000))
    x = ctx.encrypt(rows, pack="rows")
    moved = np.roll(np.pad(rows**2, ((0, 0), (0, 1))), -1, axis=1)[:, :1000]
    yield "smooth", (x * x).rotate(1) * 0.5 + x, moved * 0.5 + rows


def descent() -> Iterator[Result]:
    """The descent of notebook 9, after 1, 20 and 60 steps: bootstraps where levels run out."""
    ctx = ckks.context(depth=6, bootstrapping="auto", n=2**12, security=None)
    rng = np.random.default_rng(7)
    a, solution = rng.uniform(0.3, 1, 1000), rng.uniform(-1, 1, 1000)
    b = a * solution
    x, y = ctx.encrypt(a, bound=1.0), ctx.encrypt(b, bound=1.0)
    u, v = (1 - 0.9 * x * x).within(1.0), (0.9 * x * y).within(1.0)
    w, clear = v, 0.9 * a * b
    for step in range(1, 61):
        w = (u * w + v).within(1.0)
        clear = (1 - 0.9 * a * a) * clear + 0.9 * a * b
        if step in (1, 20, 60):
            yield f"descent, {step} steps", w, clear


def tables() -> Iterator[Result]:
    """The table of notebook 11."""
    rng = np.random.default_rng(7)
    data = rng.normal(size=(1000, 30)) @ (np.eye(30) + rng.normal(size=(30, 30)) / 12)
    weights = rng.normal(size=30)
    ctx = ckks.context(depth=7, slots=1024)
    table = ctx.encrypt(data, pack="columns", bound=6)
    standard = (data - data.mean(0)) / data.std(0)
    yield "means of columns", table.drop_to(1).mean(axis=0), data.mean(axis=0)
    yield "covariance", ckks.stats.cov(table.drop_to(3)), np.cov(data, rowvar=False)
    found = ckks.stats.standardize(table, interval=(0.9, 2.4), degree=7)
    yield "standardised", found, standard
    yield "predicted", found @ weights, standard @ weights


def scored() -> Iterator[Result]:
    """The scores of the example of a client and a server."""
    ctx = ckks.context(depth=scoring.DEPTH, integer_bits=scoring.INTEGER_BITS)
    linear, (samples, _) = scoring.fitted(), scoring.patients(of_the_server=False)
    x = scoring.packed(samples)
    weights = scoring.spread(linear)
    result = scoring.scores(ctx.encrypt(x, bound=scoring.LARGEST), weights, linear.bias)
    wanted = (x * weights).reshape(scoring.ROWS, -1)
    sums = sum(np.roll(np.pad(wanted, ((0, 16), (0, 0))), -k, 0) for k in range(16))
    yield "linear model", result, sums[: scoring.ROWS].ravel() + linear.bias


PROGRAMS: dict[str, Program] = {
    "04": first_steps, "04, scales": scales, "05": digits, "06": statistics_of_patients,
    "06, histogram": histogram, "07": learning, "08": requests, "09": descent,
    "11": tables, "scoring": scored,
}  # fmt: skip


def measured(program: Program) -> Iterator[Line]:
    """The lines of one program, with the largest errors of some runs."""
    for found in zip(*(_lines(program) for _ in range(RUNS)), strict=True):
        yield attrs.evolve(found[0], error=max(line.error for line in found))


def _lines(program: Program) -> list[Line]:
    lines = []
    for name, x, wanted in program():
        got, estimate = x.decrypt(), x.estimate
        error = float(np.abs(got - np.broadcast_to(wanted, got.shape)).max())
        largest = float(np.abs(wanted).max())
        bounds = estimate.error_bound, largest, estimate.message_bound
        lines.append(Line(name, x.level, error, *bounds))
    return lines


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(PROGRAMS)}; all by default")
    names = parser.parse_args().names or list(PROGRAMS)
    rows = [("program", "result", "level", "error", "bound", "pessimism", "largest", "its bound")]
    bits: dict[str, list[float]] = {}
    with Progress(len(names), "estimating") as progress:
        for name in names:
            lines = list(measured(PROGRAMS[name]))
            rows += [line.cells(name) for line in lines]
            bits[name] = [line.pessimism for line in lines]
            progress.step()
    print(aligned(rows))
    every = [b for found in bits.values() for b in found]
    medians = statistics.median(every), statistics.median(map(statistics.median, bits.values()))
    print(f"median of results {medians[0]:.1f} bits, of programs {medians[1]:.1f} bits")
    sys.exit(min(every) < 0 or max(medians) > MOST_BITS)


if __name__ == "__main__":
    main()
