"""Polynomials: the lazy `Poly`, its operators, constructors, realization, bytes and display."""

from ren.poly.poly import Poly, equal

__all__ = ["Poly", "equal"]


def __dir__() -> list[str]:
    return __all__
