"""Eight small programs, and the text of every stage that the compiler takes them through.

`make golden` writes them to `tests/golden/`; `tests/test_golden.py` compares. A refactor leaves the
files as they are; whoever changes a pass on purpose rewrites them, and reads the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import attrs

import ren
from ren.lowering.backends.native import phases
from ren.poly import Poly
from ren.ring import RingSpec

FOLDER = Path(__file__).resolve().parent / "golden"

RING = RingSpec(8, (17, 97, 113, 193))
PART = RingSpec(8, (17, 97, 113))
WIDE = RingSpec(8, (17, 97, 113, 193, 241, 257))
X = Poly([1, 2, 3, 4, 5, 6, 7, 8], RING)
Y = Poly([8, 7, 6, 5, 4, 3, 2, 1], RING)


@attrs.frozen
class GoldenProgram:
    """A function of polynomials, what it shows, and what it is captured with."""

    name: str
    about: str
    function: Callable[..., Any]
    args: tuple[Any, ...]


def polynomial_arithmetic(x: Poly, y: Poly) -> Poly:
    return (x + y) * (x - y) - x


def mixed_domains(x: Poly, y: Poly) -> Poly:
    return (x.ntt() + y) * y - x.ntt().intt()


def rescale(x: Poly, y: Poly) -> Poly:
    return (x * y).rescale(PART.moduli)


def view_elementwise(x: Poly, y: Poly) -> Poly:
    return x.to_ring(PART) + y - 1


def rotation_sum(x: Poly, y: Poly) -> Poly:
    return x * y + (x * y).rotate(1) + (x * y).rotate(2) + (x * y).rotate(4)


def key_switch(c: Poly, keys: tuple[tuple[Poly, Poly], ...]) -> tuple[Poly, Poly]:
    digits = [c.mod_up(c.ring.moduli[i : i + 2], WIDE) for i in (0, 2)]
    halves = ([d * key[half] for d, key in zip(digits, keys, strict=True)] for half in (0, 1))
    first, second = ((a + b).mod_down(c.ring) for a, b in halves)
    return first, second


def shared_roots(x: Poly, y: Poly) -> tuple[Poly, Poly]:
    shared = x * y + x
    return shared * shared, shared.rotate(1) - y


def constants(x: Poly) -> tuple[Poly, Poly]:
    two = Poly.const(2, RING)
    return two * 3 * x + (x * 0 - 5) + (1 - two), Poly.const(7, RING) * two


KEYS = tuple((Poly([i, 1], WIDE).ntt(), Poly([1, i], WIDE).ntt()) for i in (3, 5))

PROGRAMS = (
    GoldenProgram(
        "polynomial_arithmetic", "Sums, differences, a product.", polynomial_arithmetic, (X, Y)
    ),
    GoldenProgram("mixed_domains", "Operands in two domains.", mixed_domains, (X, Y)),
    GoldenProgram("rescale", "A product divided by the last modulus.", rescale, (X, Y)),
    GoldenProgram(
        "view_elementwise", "A part of the basis, then elementwise work.", view_elementwise,
        (X, Poly([1], PART)),
    ),
    GoldenProgram("rotation_sum", "A sum of rotations of one product.", rotation_sum, (X, Y)),
    GoldenProgram(
        "key_switch", "Key switching with two digits, in raw Poly operations.", key_switch,
        (X.ntt(), KEYS),
    ),
    GoldenProgram("shared_roots", "Two results with common parts.", shared_roots, (X, Y)),
    GoldenProgram("constants", "Constants that fold, one of them a result.", constants, (X,)),
)  # fmt: skip


def text_of(program: GoldenProgram) -> str:
    """The program as `ren.xpr` prints it, then every stage; a stage like the last says so."""
    parts = [program.about, ren.xpr(program.function, *program.args)]
    shown = ""
    with patch.object(phases, "threads", lambda: 2):  # phases depend on it
        stages = ren.stages(program.function, *program.args)
    for stage, text in stages.items():
        parts.append(f"== {stage}\n{'(as before)' if text == shown else text}")
        shown = text
    return "\n\n".join(parts) + "\n"


def write(programs: Iterable[GoldenProgram] = PROGRAMS) -> None:
    """Rewrites the golden files, and removes those of programs that are gone."""
    FOLDER.mkdir(exist_ok=True)
    wanted = {FOLDER / f"{p.name}.txt": text_of(p) for p in programs}
    for path in set(FOLDER.glob("*.txt")) - set(wanted):
        path.unlink()
    for path, text in wanted.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
