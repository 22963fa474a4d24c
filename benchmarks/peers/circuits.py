"""Products with a matrix, for libraries that have single operations.

Of a vector by baby and giant steps, and of ciphertexts side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any


def split(size: int) -> int:
    """How many baby steps a matrix takes: about the square root, and a power of two."""
    return 1 << ((size.bit_length()) // 2)


def steps(size: int) -> list[int]:
    """The rotations that `product` uses."""
    stride = split(size)
    return sorted({*range(1, stride), *range(stride, size, stride)})


def diagonals(matrix: Sequence[Sequence[float]], slots: int) -> list[list[float]]:
    """The diagonals, repeated over all slots, each rotated back by its giant step."""
    size, stride = len(matrix), split(len(matrix))
    made = []
    for d in range(size):
        row = [matrix[i][(i + d) % size] for i in range(size)]
        back = d // stride * stride
        turned = [row[(i - back) % size] for i in range(size)]
        made.append(turned * (slots // size))
    return made


def product(
    babies: Callable[[int], Sequence[Any]],
    encoded: Sequence[Any],
    multiply: Callable[[Any, Any], Any],
    add: Callable[[Any, Any], Any],
    rotate: Callable[[Any, int], Any],
) -> Any:
    """sum_g rot_g(sum_b d_(g+b) rot_b(x)); the vector is repeated over all slots.

    Args:
        babies: the rotations of x by 0 .. count - 1.
        encoded: the diagonals of `diagonals`, as plaintexts.
        multiply, add, rotate: of the library; `multiply` does not rescale.
    """
    stride = split(len(encoded))
    turned = babies(stride)
    total = None
    for giant in range(0, len(encoded), stride):
        terms = [
            multiply(x, p) for x, p in zip(turned, encoded[giant : giant + stride], strict=True)
        ]
        inner = terms[0]
        for term in terms[1:]:
            inner = add(inner, term)
        inner = rotate(inner, giant) if giant else inner
        total = inner if total is None else add(total, inner)
    return total


def mixed(
    vectors: Sequence[Any],
    encoded: Sequence[Sequence[Any]],
    multiply: Callable[[Any, Any], Any],
    add: Callable[[Any, Any], Any],
) -> list[Any]:
    """y_i = sum_j M_ij x_j of whole ciphertexts.

    Args:
        vectors: the x_j.
        encoded: the M_ij, as `multiply` takes numbers.
        multiply, add: of the library; `multiply` does not rescale.
    """
    return [reduce(add, map(multiply, vectors, row)) for row in encoded]
