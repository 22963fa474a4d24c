"""Polynomials: the lazy `Poly`, its operators, constructors, realization, bytes and display."""

from ren.poly.poly import Poly, equal, realize_polys

__all__ = ["Poly", "equal", "realize_polys"]
