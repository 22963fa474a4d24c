"""Operators of polynomials, conversions of domain and basis, automorphisms.

Every method records a node and returns; nothing runs here.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, NoReturn, Self

import jax
import numpy as np

from ren.core import op as ops
from ren.core.errors import CoefficientTypeError, DeviceError, DomainError, OperandError
from ren.core.node import Node, const, make
from ren.core.op import Op
from ren.core.ring import Domain, RingSpec
from ren.core.spec import AutomorphismArg, BoundArg, CopyArg, ModUpArg, PartArg, RingArg, RotateArg
from ren.core.user_frame import user_line
from ren.lowering.devices.devices import TRACED, resolve_device
from ren.poly.checks import as_int, check_ring
from ren.poly.numpy_protocols import Protocols
from ren.poly.symbolic import Symbolic


class Arithmetic(Protocols):
    """The operations of `ren.Poly`, over the program that it holds."""

    __slots__ = ()

    @property
    @abstractmethod
    def node(self) -> Node:
        """The program."""

    @property
    def ring(self) -> RingSpec:
        """The ring."""
        return self.node.spec.ring

    @property
    def domain(self) -> Domain:
        """COEFF or NTT."""
        return self.node.spec.domain

    @property
    @abstractmethod
    def device(self) -> Any:
        """Device of the limbs."""

    @property
    def is_constant(self) -> bool:
        """True for a symbol without limbs."""
        return False

    @classmethod
    @abstractmethod
    def from_node(cls, node: Node, *, symbolic: bool = False) -> Self:
        """The polynomial whose program is `node`."""

    # ---------------------------------------------------------------- arithmetic

    def __add__(self, other: Self | int | Symbolic) -> Self:
        return self._binary(ops.ADD, other, "+")

    def __sub__(self, other: Self | int | Symbolic) -> Self:
        return self._binary(ops.SUB, other, "-")

    def __mul__(self, other: Self | int | Symbolic) -> Self:
        return self._binary(ops.MUL, other, "*")

    def __radd__(self, other: int | Symbolic) -> Self:
        return self._binary(ops.ADD, other, "+", reflected=True)

    def __rsub__(self, other: int | Symbolic) -> Self:
        return self._binary(ops.SUB, other, "-", reflected=True)

    def __rmul__(self, other: int | Symbolic) -> Self:
        return self._binary(ops.MUL, other, "*", reflected=True)

    def __neg__(self) -> Self:
        return self._unary(ops.NEG)

    def __pos__(self) -> Self:
        return self

    def __pow__(self, exponent: int) -> Self:
        """self^exponent by squaring, exponent >= 0."""
        e = exponent.__index__() if hasattr(exponent, "__index__") else -1
        if e < 0:
            raise CoefficientTypeError(
                f"A polynomial was raised to the power {exponent!r}.",
                "Powers are integers >= 0.",
                "Inverses in Z_q[X]/(X^n + 1) need not exist and are not provided.",
            )
        if e == 0:
            return self.from_node(const(1, self.ring, self.domain))
        result = self
        for bit in f"{e:b}"[1:]:
            result = result * result
            if bit == "1":
                result = result * self
        return result

    def _no_division(self, *_: Any) -> NoReturn:
        raise OperandError(
            f"{user_line()} divides by or into a polynomial.",
            "Inverses in Z_q[X]/(X^n + 1) need not exist.",
            "x.rescale(moduli) divides and rounds; x * pow(c, -1, x.ring.q) divides by a constant.",
        )

    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _no_division

    def _no_parts(self, *_: Any) -> NoReturn:
        raise OperandError(
            f"{user_line()} reads coefficients of a polynomial one by one.",
            "It is a program: its coefficients are there once it has run.",
            "Write x.tolist(), or x.limbs for the array of residues.",
        )

    __getitem__ = __iter__ = _no_parts

    def _binary(self, op: Op, other: Any, symbol: str, reflected: bool = False) -> Self:
        if isinstance(other, Arithmetic):
            right = other.node
        elif isinstance(other, Symbolic):
            right = other.scalar(self.ring, self.domain)
        elif _is_integer(other):
            right = const(as_int(other), self.ring, self.domain)
        elif isinstance(other, float | complex | np.ndarray | np.generic | jax.Array):
            raise CoefficientTypeError(
                f"poly {symbol} {type(other).__name__} was written.",
                "A polynomial combines with polynomials of its ring and with Python ints.",
                "Make a Poly of it: Poly(coefficients, ring).",
            )
        else:
            return NotImplemented
        src = (right, self.node) if reflected else (self.node, right)
        return self.from_node(make(op, src))

    def _unary(self, op: Op, arg: Any = None) -> Self:
        return self.from_node(
            make(op, (self.node,)) if arg is None else make(op, (self.node,), arg)
        )

    # ---------------------------------------------------------------- conversions

    def ntt(self) -> Self:
        """The same polynomial as values at the roots; itself if it is so already."""
        return self._in_domain(Domain.NTT, ops.NTT)

    def intt(self) -> Self:
        """The same polynomial as coefficients; itself if it is so already."""
        return self._in_domain(Domain.COEFF, ops.INTT)

    def _in_domain(self, domain: Domain, op: Op) -> Self:
        if self.domain is domain:
            return self
        if self.is_constant:
            return self.from_node(const(self.node.arg.value, self.ring, domain), symbolic=True)
        return self._unary(op)

    def to_ring(self, ring: RingSpec) -> Self:
        """The polynomial over other moduli: its centred lift in (-q/2, q/2], reduced mod the new q.

        A part of the own basis is only a selection of limbs. Exact. Keeps the domain.
        """
        check_ring(ring)
        return self._unary(ops.TO_RING, RingArg(ring))

    def rescale(self, moduli: Iterable[int] | RingSpec) -> Self:
        """round(M x / D) over the basis `moduli`, rounded to nearest, exactly.

        Args:
            moduli: the new basis. M is the product of its moduli that are new, D of those of x
                that are missing from it.

        Raises:
            RingMismatchError: when nothing is divided away.
        """
        ring = moduli if isinstance(moduli, RingSpec) else self.ring.with_moduli(moduli)
        return self._unary(ops.RESCALE, RingArg(ring))

    def mod_up(self, digit: Iterable[int], ring: RingSpec) -> Self:
        """The limbs `digit` lifted to `ring`: u = sum_i y_i D/d_i with y_i = [x D^-1 d_i] centred.

        u = x (mod D) and |u| <= D len(digit)/2 for the product D of the digit. So u differs from
        the centred lift by a multiple of D, at most len(digit)/2 of them. Keeps the domain.
        Reference: CKKS.md, "Key switching"; Bajard et al., SAC 2016.
        """
        check_ring(ring)
        return self._unary(ops.MODUP, ModUpArg(tuple(int(m) for m in digit), ring))

    def mod_down(self, ring: RingSpec) -> Self:
        """(x - u) / P over `ring`, P the product of the moduli left out, u the lift of x mod P.

        u is that of `mod_up`, so the result is within (k + 1)/2 of x/P for k moduli left out.
        """
        check_ring(ring)
        return self._unary(ops.MODDOWN, RingArg(ring))

    def bounded(self, bits: float) -> Self:
        """The same polynomial, with the promise that its centred coefficients are below 2^bits.

        The compiler may then use a factor that is known over more moduli in place of a part of it.
        That lets a sum of key switches be divided by P once. Keeps the domain.
        """
        return self._unary(ops.BOUNDED, BoundArg(float(bits)))

    def rotate(self, k: int) -> Self:
        """The automorphism X -> X^(5^k mod 2n), k of any sign; in CKKS a rotation of the slots."""
        steps = as_int(k) % (self.ring.n // 2)  # 5 has order n/2 mod 2n
        return self._unary(ops.ROTATE, RotateArg(steps))

    def automorphism(self, g: int) -> Self:
        """The automorphism X -> X^g for odd g."""
        g = as_int(g)
        if g % 2 == 0:
            raise DomainError(
                f"automorphism got the galois element {g}.",
                "X -> X^g is an automorphism of Z_q[X]/(X^n + 1) for odd g only.",
                "For a rotation of slots use rotate(k).",
            )
        return self._unary(ops.AUTOMORPHISM, AutomorphismArg(g % (2 * self.ring.n)))

    def to(self, device: Any) -> Self:
        """The polynomial on another device: "python", "cpu", "gpu:0", a jax.Device, a sharding."""
        target = resolve_device(device)
        if self.device == TRACED:
            raise DeviceError(
                f"{user_line()} moves a polynomial to {device!r} inside a trace.",
                "Under a JAX transformation or ren.jit, where things run is decided outside.",
                "Move the arguments before the call: x.to(device) or jax.device_put.",
            )
        return self._unary(ops.COPY, CopyArg(target))

    def item(self, index: int) -> Self:
        """The polynomial at a place of the last batch axis, counted from 0."""
        return self._unary(ops.PART, PartArg(index, -1))

    def contiguous(self) -> Self:
        """The same value kept in memory: a boundary that no fusion crosses.

        What is realized already stays in the buffer that it has; `jax.tree.map(jnp.copy, x)` makes
        another.
        """
        return self._unary(ops.CONTIGUOUS)


def _is_integer(value: Any) -> bool:
    """True of one number of an integer type, also of one that JAX traces: `as_int` tells of it."""
    if isinstance(value, jax.Array):
        return value.ndim == 0 and value.dtype.kind in "iub"
    return hasattr(value, "__index__") and np.ndim(value) == 0
