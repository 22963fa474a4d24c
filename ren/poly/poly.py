"""Poly: a lazy polynomial of Z_q[X]/(X^n + 1), and a JAX pytree."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import jax
import numpy as np
from jax.tree_util import GetAttrKey, register_pytree_with_keys

from ren import sampling
from ren.core import op as ops
from ren.core.attributes import Unchanging, fix_properties, lacking
from ren.core.errors import (
    CoefficientTypeError,
    OperandError,
    RingMismatchError,
    TracedValueError,
)
from ren.core.listed import Listed
from ren.core.node import NO_ARG, Node, buffer, const, make, placeholder, toposort
from ren.core.numtheory import centered, crt
from ren.core.op import Op
from ren.core.ring import Domain, RingSpec
from ren.core.spec import (
    AutomorphismArg,
    BoundArg,
    CopyArg,
    ModUpArg,
    RingArg,
    RotateArg,
    ShiftArg,
    Spec,
)
from ren.core.user_frame import user_line
from ren.lowering.backends.xla.jax_runtime import on_host
from ren.lowering.devices.devices import (
    PYTHON,
    TRACED,
    device_of,
    is_tracer,
    is_tracing,
    resolve_device,
)
from ren.lowering.devices.donation import check_not_donated, is_donated
from ren.lowering.devices.trace_inputs import trace_inputs, trace_token
from ren.lowering.runtime.host_arrays import placed
from ren.poly import (
    checks,
    display,
    integer_parts,
    inverse,
    numpy_protocols,
    realization,
    serialization,
)
from ren.poly.calls import check_constructor, check_methods
from ren.poly.checks import as_int, check_limbs, check_polys, check_ring, no_division
from ren.poly.distributions import draw
from ren.poly.integers import (
    as_coefficients,
    as_values,
    montgomery,
    of_moduli,
    places_of_values,
    plain,
    to_integers,
    to_limbs,
    to_residues,
)
from ren.poly.loop_types import FLATTENING, refuse_mismatch
from ren.poly.mapped_axes import is_mapping, refuse_axes, refuse_collective, refuse_ravel
from ren.poly.symbolic import Symbolic, as_symbol

_UNSET = object()
Batch = tuple[int, ...]


_INSTEAD = {
    **dict.fromkeys(("coeffs", "coeff", "list", "to_list", "coefficient"), "p.tolist()"),
    "lift": "p.tolist(centered=True)", "item": "p.tolist()[i]",
    **dict.fromkeys(("degree", "n", "length"), "p.ring.n, the degree of the ring"),
    **dict.fromkeys(("q", "modulus", "mod_q"), "p.ring.q"), "moduli": "p.ring.moduli",
    "dtype": "p.limbs.dtype", "ndim": "len(p.shape) - 2, the number of batch axes",
    "inv": "p.inverse()", "invert": "p.inverse()", "inverse_mod": "p.inverse()",
    "to_ntt": "p.ntt()", "to_coeff": "p.intt()", "from_ntt": "p.intt()",
    "left_shift": "p.shift(k)", "right_shift": "p.shift(-k)", "copy": "p itself: it never changes",
    "add": "p + r", "sub": "p - r", "mul": "p * r", "pow": "p ** k", "square": "p * p",
    "rem": "p % t", "quo_rem": "p.round_div(1, t) and p % t", "eval": "p.evaluate(x)",
    "serialize": "p.to_bytes()", "infinity_norm": "p.norm()", "decompose": "p.digits(base)",
    "numpy": "p.coefficients()", "to_numpy": "p.coefficients()",
}  # fmt: skip
_ASSIGNED = {
    "limbs": "Write p = ren.Poly.from_limbs(limbs, p.ring, p.domain).",
    "ring": "Write p = p.to_ring(ring).", "domain": "Write p = p.ntt(), or p.intt().",
    "device": "Write p = p.to(device).",
}  # fmt: skip
_INSTEAD_OF_CLASS = {
    **dict.fromkeys(("random", "rand", "random_element"), "ren.Poly.uniform(ring)"),
    **dict.fromkeys(("randint", "integers"), "ren.Poly.uniform_on_interval(low, high, ring)"),
    **dict.fromkeys(("normal", "discrete_gaussian"), "ren.Poly.gaussian(ring)"),
    "binary": "ren.Poly.uniform_on_interval(0, 2, ring)",
    "ones": "ren.Poly([1] * ring.n, ring)", "one": "ren.Poly.const(1, ring)",
    "zero": "ren.Poly.zeros(ring)", "constant": "ren.Poly.const(value, ring)",
    "monomial": "ren.Poly.const(1, ring).shift(k)",
    **dict.fromkeys(
        ("from_list", "from_coeffs", "from_coefficients", "from_array", "fromlist"),
        "ren.Poly(coefficients, ring)",
    ),
}  # fmt: skip
_RING = "Pass ring=ren.RingSpec(n=8, moduli=(17, 97))."
_OTHERS = {  # arguments
    **dict.fromkeys(("modulus", "q", "moduli", "mod"), _RING),
    **dict.fromkeys(("n", "degree"), _RING),
    **dict.fromkeys(("shape", "size", "batch_size"), "Write batch=(8,)."),
    **dict.fromkeys(("key", "rng", "random_state"), "Write seed=, bytes."),
    **dict.fromkeys(("std", "stddev", "scale"), "Write sigma=."),
    **dict.fromkeys(("h", "weight"), "Write hamming_weight=."),
    "dtype": "Leave it out: coefficients are Python integers; np.array(p, dtype) converts them.",
    "coefficients": "Write coeffs=.", "center": "Write centered=.",
    "+ring": "ring=ren.RingSpec(n=8, moduli=(17, 97))", "+coeffs": "coeffs=[1, 2]",
}  # fmt: skip


class Poly(Unchanging, metaclass=Listed):
    """A polynomial of Z_q[X]/(X^n + 1): operations record a program, nothing runs until needed.

    Args:
        coeffs: up to n integers of any size and sign, the lowest power first. A list or an integer
            array, `[*batch, n]`; missing high coefficients are zero.
        ring: the ring.
        device: where it lives: None for JAX's default, "python" for the NumPy reference, a
            jax.Device or a sharding.

    Raises:
        CoefficientError, CoefficientTypeError: too many coefficients, or not integers.

    A Poly is immutable and a pytree with one leaf, the limb array `uint32[*batch, limb, n]` of
    Montgomery residues in [0, q_i); flattening realizes. One made by `const` or `zeros` has none.
    A modulus of 2^30 or more has two limbs, the low and the high words of its residues.

    Example:
        >>> from ren.ring import RingSpec
        >>> x = Poly([1, 2, 3, 4], RingSpec(n=4, moduli=(17,)))
        >>> (x * x - 1).tolist()
        [9, 14, 11, 3]
    """

    __instead__ = _INSTEAD_OF_CLASS
    __slots__ = ("__weakref__", "_digest", "_leaf", "_node", "_symbolic", "_type")

    _node: Node | None
    _leaf: Any
    _type: tuple[RingSpec, Domain]
    _digest: bytes | None
    _symbolic: bool

    def __init__(self, coeffs: Any, ring: RingSpec, device: Any = None) -> None:
        self._set_node(_made(coeffs, ring, device, Domain.COEFF))

    def __init_subclass__(cls, **_: Any) -> None:
        raise OperandError(
            f"The class {cls.__name__} derives from ren.Poly.",
            "Operations give instances of Poly itself, and JAX knows no other class as a pytree.",
            "Hold a Poly in a field: a dataclass with jax.tree_util.register_dataclass(cls).",
        )

    # ---------------------------------------------------------------- constructors

    @staticmethod
    def from_limbs(limbs: Any, ring: RingSpec, domain: Domain = Domain.COEFF) -> Poly:
        """The polynomial with the limb array `uint32[*batch, limb, n]`, Montgomery residues.

        Args:
            limbs: NumPy (then it lives on the "python" device) or JAX; residues in [0, q_i).
            ring: its ring.
            domain: how the numbers are to be read.

        Raises:
            DomainError: another shape or dtype; of an array of NumPy, a residue out of range.
        """
        check_ring(ring)
        check_limbs(limbs, ring)
        checks.check_domain(domain)
        checks.check_residues(limbs, ring)
        if isinstance(limbs, np.ndarray) and _may_change(limbs):
            limbs = limbs.copy()  # a polynomial never changes
            limbs.flags.writeable = False
        return from_node(buffer(limbs, ring, domain, traced=is_tracer(limbs)))

    @staticmethod
    def from_values(values: Any, ring: RingSpec, device: Any = None) -> Poly:
        """The polynomial with these values at the 2n-th roots of unity: the inverse of `values`.

        Args:
            values: integers of any size and sign, [*batch, n]; value j is p(psi^(2 j + 1)) mod q.
            ring: a ring of NTT primes, with psi = `ring.root`.
            device: as for `Poly`.

        Raises:
            CoefficientTypeError, CoefficientError: no integers, or another number of them.
            RingError: a modulus that is not an NTT prime.
        """
        return from_node(_made(values, ring, device, Domain.NTT))

    @staticmethod
    def const(value: int, ring: RingSpec) -> Poly:
        """The constant `value` mod q of `ring`; symbolic, allocates nothing."""
        check_ring(ring)
        return from_node(const(as_int(value), ring), symbolic=True)

    @staticmethod
    def zeros(ring: RingSpec) -> Poly:
        """The zero polynomial; symbolic, allocates nothing."""
        return Poly.const(0, ring)

    # ---------------------------------------------------------------- random constructors
    # All take a seed, a device and a batch shape, as `uniform` has them.

    @staticmethod
    def uniform(
        ring: RingSpec, *, seed: bytes | None = None, device: Any = None, batch: Batch = ()
    ) -> Poly:
        """Coefficients uniform on [0, q).

        Args:
            ring: of the polynomial.
            seed: None for fresh operating-system entropy, drawn anew at each replay of a captured
                function. Bytes are expanded with SHAKE-256, to the same polynomial everywhere. One
                seed is for one call: of other arguments it gives related polynomials.
            device: as for `Poly`.
            batch: leading axes of independent polynomials.

        Raises:
            RandomnessError: without a seed inside a JAX transformation.
        """
        check_ring(ring)
        residues = sampling.uniform_wide_residues if ring.has_wide else sampling.uniform_residues
        sample = partial(residues, n=ring.n, moduli=ring.moduli)
        return from_node(draw(ring, "uniform", sample, seed, device, batch))

    @staticmethod
    def uniform_on_interval(
        low: int,
        high: int,
        ring: RingSpec,
        *,
        seed: bytes | None = None,
        device: Any = None,
        batch: Batch = (),
    ) -> Poly:
        """Coefficients uniform on [low, high), reduced mod q; any integers low < high.

        The other arguments are as for `uniform`.
        """
        check_ring(ring)
        bounds = {"low": as_int(low), "high": as_int(high)}
        sample = partial(sampling.uniform_integers, count=ring.n, **bounds)
        return from_node(draw(ring, "interval", sample, seed, device, batch))

    @staticmethod
    def ternary(
        ring: RingSpec, *, seed: bytes | None = None, device: Any = None, batch: Batch = ()
    ) -> Poly:
        """Coefficients uniform on {-1, 0, 1}; the arguments are as for `uniform`."""
        check_ring(ring)
        sample = partial(sampling.ternary, count=ring.n)
        return from_node(draw(ring, "ternary", sample, seed, device, batch))

    @staticmethod
    def sparse_ternary(
        ring: RingSpec,
        hamming_weight: int,
        *,
        seed: bytes | None = None,
        device: Any = None,
        batch: Batch = (),
    ) -> Poly:
        """Exactly `hamming_weight` coefficients uniform on {-1, 1}, the others zero.

        The other arguments are as for `uniform`.
        """
        check_ring(ring)
        weight = as_int(hamming_weight)
        sample = partial(sampling.sparse_ternary, count=ring.n, hamming_weight=weight)
        return from_node(draw(ring, "sparseternary", sample, seed, device, batch))

    @staticmethod
    def gaussian(
        ring: RingSpec,
        sigma: float = 3.2,
        *,
        seed: bytes | None = None,
        device: Any = None,
        batch: Batch = (),
    ) -> Poly:
        """Coefficients from the discrete Gaussian of parameter `sigma` around 0.

        The other arguments are as for `uniform`.

        Raises:
            RandomnessError: sigma is not in (0, 2^14]; else as for `uniform`.
        """
        check_ring(ring)
        sample = partial(sampling.gaussian, count=ring.n, sigma=sigma)
        return from_node(draw(ring, "gaussian", sample, seed, device, batch))

    # ---------------------------------------------------------------- what it is

    @property
    def node(self) -> Node:
        """The program: print it to read it."""
        if self._node is None:
            ring, domain = self._type
            check_limbs(self._leaf, ring)
            self._node = buffer(self._leaf, ring, domain, traced=is_tracer(self._leaf))
        return self._node

    @property
    def ring(self) -> RingSpec:
        """The ring Z_q[X]/(X^n + 1) that it is of."""
        return self._type[0]

    @property
    def domain(self) -> Domain:
        """COEFF or NTT: how `limbs` are to be read."""
        return self._type[1]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the limb array, `(*batch, limb, n)`."""
        if self._node is not None:
            return self._node.spec.shape
        return self._leaf.shape if self._is_shape_alone() else self.node.spec.shape

    @property
    def is_constant(self) -> bool:
        """True for what `const` and `zeros` make: a symbol, with no limbs in memory."""
        return self._symbolic

    @property
    def is_realized(self) -> bool:
        """True when its limbs are in memory, or when it is a constant that needs none."""
        node = self._node
        if self._symbolic or (node is None and self._is_shape_alone()):
            return self._symbolic
        node = node or self.node
        return node.op is ops.BUFFER or realization.known_buffer(node) is not None

    def _is_shape_alone(self) -> bool:
        """True of what jax.eval_shape gives."""
        return self._node is None and isinstance(self._leaf, jax.ShapeDtypeStruct)

    @property
    def device(self) -> Any:
        """ "python", a jax.Device, a sharding, "traced" under a trace; None for a constant."""
        for node in reversed(toposort(realization.known_buffer(self.node) or self.node)):
            if node.op is ops.BUFFER:
                return device_of(node.arg.array)
            if node.op is ops.COPY:
                return node.arg.device
            if node.op is ops.PLACEHOLDER:
                return TRACED
        return None if self._symbolic else jax.devices()[0]

    @property
    def limbs(self) -> Any:
        """The limb array `uint32[*batch, limb, n]`, Montgomery residues in [0, q_i); realizes."""
        node = self._node
        if node is None:
            check_limbs(self._leaf, self._type[0])
            check_not_donated(self._leaf)
            return self._leaf
        if node.op is not ops.BUFFER:
            node = (self.contiguous() if self._symbolic else self).realize().node
            if node.op is not ops.BUFFER:
                raise realization.symbolic_value()
        array = node.arg.array
        if is_donated(array):
            check_not_donated(array)
        return array

    # ---------------------------------------------------------------- values

    def realize(self, *others: Poly) -> Poly:
        """Runs the program and returns the realized polynomial; its history is let go.

        Inside a function that `ren.jit` captures it means `contiguous()`. Under a JAX trace the
        result holds a tracer, and this object stays as it is.

        Args:
            others: polynomials that are realized with it, all as one program. `ren.realize` takes
                any structures, and returns them all.

        Raises:
            OperandError: one of `others` is not a polynomial.
        """
        if others:
            check_polys("realize", others, Poly)
        return realize_polys([self, *others])[0]

    def tolist(self, centered: bool = False) -> list:
        """The n coefficients as Python ints in [0, q), or in (-q/2, q/2]; nested for batches."""
        return self._integers(centered).tolist()

    def _host_limbs(self, domain: Domain = Domain.COEFF) -> np.ndarray:
        """The limbs of the coefficients, or of the values, as a NumPy array."""
        realization.check_addressable(self.node)
        limbs = (self.ntt() if domain is Domain.NTT else self.intt()).limbs
        if is_tracer(limbs):
            raise TracedValueError(
                f"{user_line()} asks for the value of a polynomial inside a JAX transformation.",
                "While JAX traces, a polynomial stands for every value that it may take.",
                "Return it from the traced function, and ask for its value outside.",
            )
        return on_host(limbs)

    def _integers(self, center: bool = False) -> np.ndarray:
        values, q = to_integers(self._host_limbs(), self.ring), self.ring.q
        if center:
            values = np.asarray(np.frompyfunc(lambda v: centered(v, q), 1, 1)(values))
        return values

    def coefficients(self) -> np.ndarray:
        """The coefficients as Python ints in [0, q): object [*batch, n]; realizes."""
        return self._integers()

    def values(self) -> np.ndarray:
        """The values at the 2n-th roots of unity as Python ints in [0, q); realizes.

        Returns:
            object [*batch, n]. Value j is p(psi^(2 j + 1)) mod q, where psi is `ring.root`. Sums
            and products of polynomials are those of their values, place by place.

        Raises:
            RingError: a modulus that is not an NTT prime.

        Example:
            >>> from ren.ring import RingSpec
            >>> ring = RingSpec(n=4, moduli=(17,))
            >>> x = Poly([0, 1], ring)
            >>> x.values().tolist() == [pow(ring.root, 2 * j + 1, 17) for j in range(4)]
            True
        """
        order = places_of_values(self.ring)
        return to_integers(self._host_limbs(Domain.NTT), self.ring)[..., np.argsort(order)]

    def to_bytes(self) -> bytes:
        """The polynomial as versioned, checksummed bytes for `Poly.from_bytes`.

        They tell its domain, the order of its moduli, and whether it is a constant. So equal
        polynomials may have other bytes: hash coefficients, `x.tolist()`, not these.
        """
        if self._symbolic:
            value = self.node.arg.value
            residues = to_residues(np.array([value], object), self.ring.moduli)
        else:
            residues = plain(self._host_limbs(), self.ring.moduli)
        return serialization.encode(self.ring, self.domain, residues)

    @staticmethod
    def from_bytes(data: bytes) -> Poly:
        """The polynomial that `to_bytes` wrote.

        Raises:
            SerializationError: truncated, altered or foreign bytes.
        """
        ring, domain, residues = serialization.decode(data)
        if residues.shape == (ring.limbs, 1):
            value = crt(of_moduli(residues, ring.moduli)[:, 0].tolist(), ring.moduli)
            return from_node(const(value, ring, domain), symbolic=True)
        poly = Poly.from_limbs(placed(montgomery(residues, ring.moduli)), ring)
        return poly.ntt() if domain is Domain.NTT else poly

    tobytes = to_bytes  # the name of NumPy
    frombytes = from_bytes

    def __reduce__(self) -> Any:
        """Its bytes; it is on the device "python" again where it was, which is in each process."""
        device = PYTHON if self.device == PYTHON else None
        return _unpickled, (self.to_bytes(), device)

    def __bool__(self) -> NoReturn:
        raise TracedValueError(
            f"{user_line()} uses a polynomial as a truth value.",
            "A polynomial is neither true nor false.",
            "Compare values with ren.equal(a, b), programs with a == b.",
        )

    def __eq__(self, other: object) -> bool:
        """True when both are the same program: the same operations on the same buffers."""
        if not isinstance(other, Poly):
            return NotImplemented
        return self is other or self._program() == other._program()

    def __hash__(self) -> int:
        return hash(self._program())

    def _program(self) -> bytes:
        if self._digest is None:
            self._digest = self.node.digest
        return self._digest

    # ---------------------------------------------------------------- arithmetic

    def __add__(self, other: Poly | int | Symbolic) -> Poly:
        return self._binary(ops.ADD, other, "+")

    def __sub__(self, other: Poly | int | Symbolic) -> Poly:
        return self._binary(ops.SUB, other, "-")

    def __mul__(self, other: Poly | int | Symbolic) -> Poly:
        return self._binary(ops.MUL, other, "*")

    def __radd__(self, other: int | Symbolic) -> Poly:
        return self._binary(ops.ADD, other, "+", reflected=True)

    def __rsub__(self, other: int | Symbolic) -> Poly:
        return self._binary(ops.SUB, other, "-", reflected=True)

    def __rmul__(self, other: int | Symbolic) -> Poly:
        return self._binary(ops.MUL, other, "*", reflected=True)

    def __neg__(self) -> Poly:
        return self._unary(ops.NEG)

    def __pos__(self) -> Poly:
        return self

    def __pow__(self, exponent: int, modulus: None = None) -> Poly:
        """self^exponent by squaring, exponent >= 0."""
        e = checks.as_exponent(exponent, modulus)
        if e == 0:
            one = from_node(const(1, self.ring, self.domain))
            return one if len(self.shape) == 2 else self * 0 + one
        result = self
        for bit in f"{e:b}"[1:]:
            result = result * result
            if bit == "1":
                result = result * self
        return result

    def inverse(self) -> Poly:
        """The polynomial r with self * r = 1, in any ring; exact.

        It takes values: outside of functions under `ren.jit` and of JAX transformations. A batch
        has an inverse for each entry. Cost: 2 log2(n) products, as one program.

        Raises:
            RingError: there is none, modulo the modulus that is named.
            TracedValueError: the values are not known yet.

        Example:
            >>> from ren.ring import RingSpec
            >>> x = Poly([1, 1], RingSpec(n=4, moduli=7))
            >>> (x.inverse() * x).tolist()
            [1, 0, 0, 0]
        """
        if self._symbolic:
            made = inverse.inverses(np.array(self.node.arg.value, object), self.ring)
            return from_node(const(made.item(), self.ring, self.domain), symbolic=True)
        inverse.check_known(self)
        cofactor, constant = realize_polys(inverse.norm(self))
        made = inverse.inverses(constant._integers()[..., 0], self.ring)
        return cofactor * Poly(made[..., None], self.ring, self.device)

    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __rmod__ = no_division
    __divmod__ = __rdivmod__ = no_division

    # ---------------------------------------------------------------- coefficients as integers

    def __mod__(self, t: int) -> Poly:
        return self.mod(t)

    def mod(self, t: int, centered: bool = False) -> Poly:
        """Each coefficient mod t as an integer: of [0, q) in [0, t); centred, in (-t/2, t/2].

        Args:
            t: 1 or more, of any size.
            centered: whether coefficients are taken in (-q/2, q/2], and results centred too.

        Returns:
            A polynomial of the same ring, coefficient domain. `p % t` is `p.mod(t)`.

        Example:
            >>> from ren.ring import RingSpec
            >>> x = Poly([16, 5, -1, 0], RingSpec(n=4, moduli=(17,)))
            >>> (x % 3).tolist(), x.mod(3, centered=True).tolist(centered=True)
            ([1, 2, 1, 0], [-1, -1, -1, 0])
        """
        return from_node(integer_parts.remainder(self.intt().node, t, centered))

    def round_div(self, a: int, b: int, ring: RingSpec | None = None) -> Poly:
        """round(a c / b) for each centred coefficient c in (-q/2, q/2], exactly; ties go up.

        Args:
            a, b: integers of any size and sign, b not 0.
            ring: of the result, of the same degree; the own one by default.

        Returns:
            A polynomial over `ring`, coefficient domain.

        Example:
            >>> from ren.ring import RingSpec
            >>> x = Poly([40, -3, 2, 1], RingSpec(n=4, moduli=(17, 97)))
            >>> x.round_div(1, 2).tolist(centered=True)
            [20, -1, 1, 1]
        """
        target = self.ring if ring is None else ring
        check_ring(target)
        return from_node(integer_parts.rounded_quotient(self.intt().node, a, b, target))

    def digits(self, base: int, centered: bool = False) -> Poly:
        """The digits of each coefficient: sum_i digits[i] base^i = p, as integers and in the ring.

        Args:
            base: 2 or more; 3 or more where centred.
            centered: digits in [-(base // 2), base - base // 2) of the coefficient in (-q/2, q/2];
                else digits in [0, base) of the one in [0, q).

        Returns:
            A batch of polynomials, along a new first axis: `uint32[count, *batch, limb, n]`. The
            lowest digits come first, and there are as many as q needs. Coefficient domain.

        Reference: Gentry, Sahai, Waters, "Homomorphic encryption from learning with errors" (2013).

        Example:
            >>> from ren.ring import RingSpec
            >>> x = Poly([13, 6, 0, 1], RingSpec(n=4, moduli=(17,)))
            >>> x.digits(4).tolist()
            [[1, 2, 0, 1], [3, 1, 0, 0], [0, 0, 0, 0]]
        """
        return from_node(integer_parts.digits(self.intt().node, base, centered))

    @staticmethod
    def gadget(base: int, ring: RingSpec, centered: bool = False) -> Poly:
        """The constants base^i of `ring` along a batch axis, one for each of `digits`.

        `base` and `centered` are those of `digits`: then sum_i digits[i] gadget[i] = p.
        """
        check_ring(ring)
        return from_node(integer_parts.gadget(base, ring, centered))

    def gadget_product(self, rows: Poly, base: int, centered: bool = False) -> Poly:
        """sum_i digits[i] rows[i], the digits in a base: p times s, where rows[i] is base^i s.

        Keys are such rows, with small errors. The errors grow by about the base. Those of a product
        with p itself would grow by about q.

        Args:
            rows: a batch, with one entry for each digit along its first axis.
            base, centered: as in `digits`.
        """
        right = rows.node if isinstance(rows, Poly) else None
        made = integer_parts.gadget_product(self.intt().node, right, base, centered)
        return from_node(made)

    def mix(self, matrix: Any, axis: int = 0) -> Poly:
        """The product of a matrix with a batch axis: y[j] = sum_b matrix[j, b] p[b].

        It is exact modulo q, keeps the domain, and is one operation of the program. Of arrays
        `numpy.tensordot(matrix, array, 1)` is the same.

        Args:
            matrix: integers of any size, [results, entries of the axis], known where it is called.
            axis: the batch axis that is summed over; the results lie along it.

        Returns:
            A batch of polynomials in the same ring, one for each row of the matrix.

        Raises:
            DomainError: no such batch axis, or one with another number of entries.
            CoefficientTypeError: what is not an integer.

        Cost: one multiply-add a residue for each entry of the matrix.

        Example:
            >>> from ren.ring import RingSpec
            >>> batch = Poly([[1, 2], [3, 4], [5, 6]], RingSpec(n=2, moduli=(17,)))
            >>> batch.mix([[1, 1, 1], [2, 0, -1]]).tolist(centered=True)
            [[-8, -5], [-3, -2]]
        """
        return from_node(integer_parts.mixed(self.node, matrix, axis))

    def shift(self, k: int) -> Poly:
        """The product with X^k, for k of any sign: X^n = -1. Keeps the domain.

        Coefficients move, and change signs where they pass X^n: no transform, no product. In the
        NTT domain it is one product.

        Example:
            >>> from ren.ring import RingSpec
            >>> Poly([1, 2, 3, 4], RingSpec(n=4, moduli=(17,))).shift(1).tolist(centered=True)
            [-4, 1, 2, 3]
        """
        n = self.ring.n
        turns, place = divmod(as_int(k), n)
        if place == 0:
            return -self if turns % 2 else self
        if self.domain is Domain.COEFF:
            return self._unary(ops.SHIFT, ShiftArg(place + turns % 2 * n))
        power = np.zeros(n, np.int64)
        power[place] = -1 if turns % 2 else 1
        return self * Poly(power, self.ring, "python" if self.device == "python" else None)

    def norm(self) -> Any:
        """The largest absolute value of a centred coefficient: a Python int; of a batch, an array.

        The infinity norm of the coefficients in (-q/2, q/2]; realizes.
        """
        return np.abs(self._integers(center=True)).max(axis=-1)

    def evaluate(self, x: int) -> Any:
        """sum_i c_i x^i mod q for an integer x: a Python int; of a batch, an array; realizes.

        Products of polynomials have products as values where x^n = -1 mod q.
        """
        x, q, value = as_int(x), self.ring.q, 0
        for c in np.moveaxis(self.coefficients(), -1, 0)[::-1]:
            value = (value * x + c) % q
        return value

    # ---------------------------------------------------------------- batch axes

    def __getitem__(self, index: Any) -> Poly:
        """Entries of batch axes, by integers, slices and `...`, as in NumPy; never coefficients."""
        return from_node(integer_parts.item(self.node, index))

    def __len__(self) -> int:
        return integer_parts.count_of(self.node)

    def __iter__(self) -> Iterator[Poly]:
        return (self[i] for i in range(len(self)))

    def _binary(self, op: Op, other: Any, symbol: str, reflected: bool = False) -> Poly:
        left = self._node or self.node
        if isinstance(other, Poly):
            right = other._node or other.node
        else:
            is_scaled = op is ops.MUL and is_tracer(other) and not self.ring.is_general
            domain = Domain.NTT if is_scaled else self.domain
            right = checks.operand(other, self.ring, domain, symbol)
            if right is None:
                return NotImplemented
            if is_scaled and self.domain is Domain.COEFF:
                return self._scaled(right)
        return from_node(make(op, (right, left) if reflected else (left, right)))

    def _scaled(self, factor: Node) -> Poly:
        """The coefficients times an integer that JAX traces, whose residue is in each place.

        As polynomials both would become values at the roots, and so would the carry of a loop.
        """
        values = from_array(self.limbs, self.ring, Domain.NTT)
        return from_array((values * from_node(factor)).limbs, self.ring, Domain.COEFF)

    def _unary(self, op: Op, arg: Any = NO_ARG) -> Poly:
        return from_node(make(op, (self.node,), arg))

    # ---------------------------------------------------------------- conversions

    def ntt(self) -> Poly:
        """The same polynomial as values at the roots; itself if it is so already."""
        return self._in_domain(Domain.NTT, ops.NTT)

    def intt(self) -> Poly:
        """The same polynomial as coefficients; itself if it is so already."""
        return self._in_domain(Domain.COEFF, ops.INTT)

    def _in_domain(self, domain: Domain, op: Op) -> Poly:
        if self.domain is domain:
            return self
        if self.is_constant:
            return from_node(const(self.node.arg.value, self.ring, domain), symbolic=True)
        return self._unary(op)

    def to_ring(self, ring: RingSpec) -> Poly:
        """The polynomial over other moduli: its centred lift in (-q/2, q/2], reduced mod the new q.

        A part of the own basis is only a selection of limbs. Exact. Keeps the domain.
        """
        check_ring(ring)
        return self._unary(ops.TO_RING, RingArg(ring))

    def rescale(self, moduli: Iterable[int] | RingSpec) -> Poly:
        """round(M x / D) over the basis `moduli`, rounded to nearest, exactly.

        Args:
            moduli: the new basis. M is the product of its moduli that are new, D of those of x
                that are missing from it.

        Raises:
            RingMismatchError: when nothing is divided away.
        """
        if isinstance(moduli, tuple | list) and not moduli:
            raise RingMismatchError(
                f"{user_line()} rescales to no moduli at all.",
                "One modulus stays at least.",
                "Write x.rescale(x.ring.moduli[:-1]), which divides the last one away.",
            )
        ring = moduli if isinstance(moduli, RingSpec) else self.ring.with_moduli(moduli)
        return self._unary(ops.RESCALE, RingArg(ring))

    def mod_up(self, digit: Iterable[int] | int, ring: RingSpec) -> Poly:
        """The limbs `digit` lifted to `ring`: u = sum_i y_i D/d_i with y_i = [x D^-1 d_i] centred.

        u = x (mod D) and |u| <= D len(digit)/2 for the product D of the digit. So u differs from
        the centred lift by a multiple of D, at most len(digit)/2 of them. Keeps the domain.
        Reference: CKKS.md, "Key switching"; Bajard et al., SAC 2016.
        """
        check_ring(ring)
        moduli = tuple(map(as_int, digit if isinstance(digit, Iterable) else [digit]))
        checks.check_distinct(moduli)
        return self._unary(ops.MODUP, ModUpArg(moduli, ring))

    def mod_down(self, ring: RingSpec) -> Poly:
        """(x - u) / P over `ring`, P the product of the moduli left out, u the lift of x mod P.

        u is that of `mod_up`, so the result is within (k + 1)/2 of x/P for k moduli left out.
        """
        check_ring(ring)
        return self._unary(ops.MODDOWN, RingArg(ring))

    def rotate(self, k: int) -> Poly:
        """The automorphism X -> X^(5^k mod 2n), k of any sign; in CKKS a rotation of the slots."""
        steps = as_int(k) % (self.ring.n // 2)  # 5 has order n/2 mod 2n
        return self._unary(ops.ROTATE, RotateArg(steps))

    def automorphism(self, g: int) -> Poly:
        """The automorphism X -> X^g for odd g."""
        return self._unary(
            ops.AUTOMORPHISM, AutomorphismArg(checks.as_galois_element(g, self.ring.n))
        )

    def embed(self, ring: RingSpec) -> Poly:
        """p(X^k) for a polynomial p of degree m, in the ring of degree n = k m: X^k in place of X.

        Coefficient i goes to place i k. Values repeat: at a root z it is the value of p at z^k.
        Sums and products stay sums and products. Keeps the domain; no transform, no product.

        Args:
            ring: of degree n, over the same moduli, which are 1 mod 2n. The limb array
                `uint32[*batch, limb, m]` becomes `uint32[*batch, limb, n]`.

        Raises:
            RingMismatchError: the degree is smaller than m, or the moduli are others.

        Example:
            >>> from ren.ring import RingSpec
            >>> x = Poly([1, 2, 3, 4], RingSpec(n=4, moduli=(17,)))
            >>> x.embed(RingSpec(n=8, moduli=(17,))).tolist()
            [1, 0, 2, 0, 3, 0, 4, 0]
        """
        check_ring(ring)
        return self._unary(ops.EMBED, RingArg(ring))

    def to(self, device: Any) -> Poly:
        """The polynomial on another device: "python", "cpu", "gpu:0", a jax.Device, a sharding.

        Under `ren.jit` the copy is a step of the plan.

        Raises:
            DeviceError: there is no such device, or a JAX transformation traces the polynomial.
        """
        target = resolve_device(device)
        if not realization.is_capturing() or is_tracing():
            checks.check_movable(self.device, device)
        return self._unary(ops.COPY, CopyArg(target))

    def contiguous(self) -> Poly:
        """The same value kept in memory: a boundary that no fusion crosses.

        What is realized already stays in the buffer that it has; `jax.tree.map(jnp.copy, x)` makes
        another.
        """
        return self._unary(ops.CONTIGUOUS)

    # ---------------------------------------------------------------- NumPy and display

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The coefficients as numbers of a type, or the polynomial itself as an object."""
        return numpy_protocols.as_array(self, dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *args: Any, **kwargs: Any) -> Any:
        """NumPy's operators are those of the polynomial; it has no other function of NumPy."""
        return numpy_protocols.call_ufunc(Poly, ufunc, method, args, kwargs)

    def __array_function__(
        self, function: Callable[..., Any], types: Any, args: Any, kwargs: Any
    ) -> Any:
        """Comparisons and the like get the coefficients; all that computes is refused."""
        return numpy_protocols.call_function(Poly, function, args, kwargs)

    def __repr__(self) -> str:
        return display.line(self)

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        raise OperandError(
            f"{user_line()} formats a polynomial by {spec!r}.",
            "A format is that of a number.",
            "Format numbers of p.tolist(); f'{p!r:>60}' pads the text of the polynomial itself.",
        )

    def _repr_html_(self) -> str:
        return display.page(self)

    # ---------------------------------------------------------------- state

    if not TYPE_CHECKING:
        __getattr__ = lacking(_INSTEAD)

    def _set_node(self, node: Node, symbolic: bool = False) -> None:
        spec = node.spec
        self._node, self._leaf, self._type = node, _UNSET, (spec.ring, spec.domain)
        self._digest, self._symbolic = node._digest or node.digest, symbolic

    def _in_memory(self) -> Any:
        """The array that it holds, or whatever JAX put in its place; None for a lazy one."""
        if self._node is None:
            return self._leaf
        return self._node.arg.array if self._node.op is ops.BUFFER else None

    def _become(self, node: Node) -> None:
        """Swaps the program for its BUFFER: the same value, without its history."""
        if self._digest is None:
            self._program()
        self._node = node


def _may_change(array: Any) -> bool:
    """True where an array of NumPy, or one that it is a view of, can be written to."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return True
        array = array.base
    return False


def _unpickled(data: bytes, device: str | None) -> Poly:
    poly = Poly.from_bytes(data)
    return poly if device is None else poly.to(device).realize()


def from_node(node: Node, *, symbolic: bool = False) -> Poly:
    """The polynomial whose program is `node`; `symbolic` says that it is a constant."""
    poly = Poly.__new__(Poly)
    poly._set_node(node, symbolic)
    return poly


def from_array(limbs: Any, ring: RingSpec, domain: Domain) -> Poly:
    """The polynomial of `Poly.from_limbs`, unchecked; its node is made on first use."""
    poly = Poly.__new__(Poly)
    poly._leaf, poly._type = limbs, (ring, domain)
    poly._node, poly._digest, poly._symbolic = None, None, False
    return poly


def bounded(p: Poly, bits: float) -> Poly:
    """The same polynomial, with the promise that its centred coefficients are below 2^bits.

    The compiler may then use a factor that is known over more moduli in place of a part of it. That
    lets a sum of key switches be divided by P once. Keeps the domain.
    """
    return p._unary(ops.BOUNDED, BoundArg(float(bits)))


def _made(given: Any, ring: RingSpec, device: Any, domain: Domain) -> Node:
    """The program of a polynomial of integers: coefficients, or values at the roots."""
    check_ring(ring)
    checks.refuse_traced(given)
    if (symbol := as_symbol(given)) is not None:
        return _encoded(symbol, ring, device, domain)
    if domain is Domain.COEFF:
        rows = as_coefficients(numpy_protocols.listed(Poly, given, ring), ring.n)
    else:
        rows = as_values(given, ring)
    return buffer(placed(to_limbs(rows, ring.moduli), device), ring, domain)


def _encoded(symbol: Symbolic, ring: RingSpec, device: Any, domain: Domain) -> Node:
    """The input of a program that is made of coefficients, or values, known at each call."""
    if symbol.dtype.kind not in "biuO":
        raise CoefficientTypeError(
            f"Poly got the argument {symbol.name!r}, {symbol.dtype}{list(symbol.shape)}.",
            "It takes integers, of any size and sign.",
            "Round first: np.rint(values).astype(int). To encrypt real numbers use "
            "ren.schemes.ckks.",
        )

    def numbers(given: Any) -> np.ndarray:
        is_values = domain is Domain.NTT
        return as_values(given, ring) if is_values else as_coefficients(given, ring.n)

    shape = numbers(symbol.sample).shape  # raises at the user's line
    limbs = lambda given: to_limbs(numbers(given), ring.moduli)  # noqa: E731
    return symbol.encoded((ring, device, domain), Spec(ring, domain, shape[:-1]), limbs, device)


def arrays_of(polys: Iterable[Poly]) -> list[Any]:
    """The limb arrays of realized polynomials; None for a constant."""
    return [None if p._symbolic else p._in_memory() for p in polys]


def spec_of(p: Poly) -> Spec:
    """The type of a polynomial; of one that JAX or a plan made, without a node for it."""
    if p._node is not None:
        return p._node.spec
    check_limbs(p._leaf, p.ring)
    return Spec(p.ring, p.domain, tuple(p._leaf.shape[:-2]))


def stood_for(p: Poly) -> Poly:
    """A placeholder for a polynomial whose leaf is a shape alone; any other as it is.

    Raises:
        DomainError: the shape, or its dtype, is not that of the limbs of such a polynomial.
    """
    leaf = p._in_memory()
    if not isinstance(leaf, jax.ShapeDtypeStruct):
        return p
    check_limbs(leaf, p.ring, is_shape=True)
    return from_node(placeholder(Spec(p.ring, p.domain, tuple(leaf.shape[:-2]))))


def realize_polys(polys: Sequence[Poly]) -> list[Poly]:
    """Each polynomial realized, all as one program; see `Poly.realize`."""
    if realization.capture_state().is_collecting:
        return list(polys)
    if held := [p._in_memory() for p in polys if p._node is None or not p._node.src]:
        check_not_donated(*held)
    # A polynomial that JAX made around a leaf is left as it is: the leaf may be a sentinel.
    lazy = [p for p in polys if not p._symbolic and p._node and p._node.op is not ops.BUFFER]
    if realization.is_capturing() and trace_inputs.get() is None:
        lazy = [p for p in lazy if not _made_contiguous(p)]
    traced: dict[int, Poly] = {}
    nodes = [p._node for p in lazy if p._node]
    for p, node in zip(lazy, realization.realize_nodes(nodes), strict=True):
        if node.arg.traced:
            traced[id(p)] = from_node(node)
        else:
            p._become(node)
    return [traced.get(id(p), p) for p in polys]


def _made_contiguous(p: Poly) -> bool:
    """Inside a capture: a polynomial that depends on an argument gets a boundary instead."""
    if not realization.has_placeholder(p.node):
        return False
    if p.node.op not in (ops.PLACEHOLDER, ops.CONTIGUOUS):
        p._become(make(ops.CONTIGUOUS, (p.node,)))
    return True


def is_zero_program(p: Poly) -> bool:
    """True when the program of `p` alone shows that it is zero, until it is realized.

    It costs nothing; False says nothing: see `Node.is_zero`.
    """
    return p._node is not None and p._node.is_zero


def equal(a: Poly, b: Poly) -> bool:
    """True when `a` and `b` have the same ring and the same coefficients mod q.

    Domains, devices and programs may differ.

    Raises:
        TracedValueError: inside a JAX transformation or a function being captured.
    """
    for p in (a, b):
        if not isinstance(p, Poly):
            raise CoefficientTypeError(
                f"ren.equal got {type(p).__name__}.",
                "It compares the values of two polynomials.",
                "Make a Poly of it, Poly(coefficients, ring), or compare p.tolist().",
            )
    if a.ring != b.ring:
        return False
    left, right = realize_polys([a.intt(), b.intt()])
    return bool(np.array_equal(left._host_limbs(), right._host_limbs()))


def _flatten(p: Poly) -> tuple[tuple[Any, ...], Any]:
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") in FLATTENING:
        frame = frame.f_back
    refuse_mismatch(frame)
    refuse_collective(frame, "a polynomial")
    refuse_ravel(frame, "a polynomial beside floats", type(p))
    ring, domain = p._type
    if p._symbolic:
        return (), (ring, domain, p.node.arg.value, None)
    if p._node is None:
        check_not_donated(p._leaf)
    elif p._node.op is not ops.BUFFER:
        realization.check_loop(is_leaf=True)
    leaf = p.limbs if p._node is not None else p._leaf
    if frame is not None and is_mapping(frame, (p,)):
        what = f"a polynomial of shape {p.shape}"
        refuse_axes(p, frame, len(p.shape) - 2, what, "Poly(rows, ring)")
    return (leaf,), (ring, domain, None, trace_token())


def _flatten_with_keys(p: Poly) -> tuple[tuple[tuple[Any, Any], ...], Any]:
    leaves, static = _flatten(p)
    return tuple((GetAttrKey("limbs"), leaf) for leaf in leaves), static


def _unflatten(static: Any, leaves: Iterable[Any]) -> Poly:
    """Stores the leaf as it comes: JAX also passes sentinels, shapes and None."""
    ring, domain, value, _ = static
    if value is not None:
        return from_node(const(value, ring, domain), symbolic=True)
    (leaf,) = leaves
    return from_array(leaf, ring, domain)


checks.refuse_operators(Poly)
fix_properties(Poly, _ASSIGNED, "Its operators and methods make another one.")
check_constructor(Poly, "ren.Poly", _OTHERS)
# What programs call in each of their steps stays as it is.
_IN_STEPS = ("to_ring", "realize", "contiguous", "from_limbs", "const", "zeros")
_OF_INTEGERS = "pow mod getitem floordiv round lshift rshift"
check_methods(Poly, "ren.Poly", _OTHERS, leave=_IN_STEPS, operators=_OF_INTEGERS)
register_pytree_with_keys(Poly, _flatten_with_keys, _unflatten, _flatten)
