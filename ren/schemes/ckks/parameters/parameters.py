"""CKKS parameters: a frozen value that fixes rings, levels, scales, digits and security.

Moduli are laid out as `planner` describes: the union of all bases is [T_(K-1) .. T_0 | q_0 ..
q_(M-1)], a level is the pair (t, m), whose basis is the slice [K - t, K + m) of the union.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import attrs

from ren.core import html
from ren.core.attributes import frozen, lacking
from ren.core.errors import ParameterError, shown
from ren.core.listed import Listed
from ren.core.ring import RingSpec
from ren.poly.calls import check_constructor, check_methods
from ren.schemes.ckks.parameters import checks, display
from ren.schemes.ckks.parameters.bootstrapping.above import Above, as_above, check_above
from ren.schemes.ckks.parameters.bootstrapping.planner import Wish, plan_bootstrapping
from ren.schemes.ckks.parameters.bootstrapping.report import Bootstrapping
from ren.schemes.ckks.parameters.keywords import INSTEAD, OF_CONTEXTS, OF_PARAMETERS
from ren.schemes.ckks.parameters.planner import partition, plan_for_depth, plan_with_sums
from ren.schemes.rlwe import security as bounds
from ren.schemes.rlwe.frame import Frame, Reader, Stored, damaged

FRAME = Frame(b"REN.CKKS", 5)  # of the bytes of CKKS objects: their mark, and the format's version
_FRACTION_BITS = 64  # of a canonical scale
_RESIDUE_BYTES = 4  # a residue is a uint32
_KIND = "parameters"  # in the frame of their bytes
_DIGEST_HEADER = "ren.ckks.parameters.1"


@attrs.frozen
class Preset:
    """The arguments of `Parameters.for_depth` that a name stands for."""

    depth: int
    n: int
    scale_bits: int = 40
    security: int = 128


# Worked out when they are used. A name has n and depth; the scale is 2^40, the security 128 bits.
PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        f"n{log_n}-depth{depth}": Preset(depth, 1 << log_n)
        for log_n, depth in ((13, 2), (13, 3), (14, 4), (14, 7), (15, 12), (15, 19), (16, 30))
    }
)


@attrs.frozen(cache_hash=True)
class Parameters(Stored, metaclass=Listed):
    """A CKKS parameter set: Q_i for every level i, P, scales s_i, digits and their security.

    Construction checks everything; `for_depth` and `preset` find values that pass.

    Args:
        n: ring degree, a power of two from 4 to 2^17.
        terminals: the primes T_(K-1) .. T_0, in that order.
        mains: the primes q_0 .. q_(M-1).
        specials: the primes whose product is P; the first also serves public-key encryption.
        path: the pair (t, m) of each level, lowest first.
        scale_bits: log2 of the scale s_0, 20 to 60.
        integer_bits: headroom at level 0: Q_0 >= 2^(scale_bits + integer_bits), which bounds
            messages by 2^(integer_bits - 1).
        digits: contiguous parts of the union, each with product at most P; as few as will do
            when left out.
        slots: how many values a ciphertext holds, a power of two up to n/2 (the default).
        secret: the distribution of the secret, "ternary" (uniform).
        sigma: the standard deviation of the noise.
        security: the bits that log2(union P) has to leave: 128, 192, 256, or None for none.
        bound: of the modulus of all that is encrypted, public; None to tell the power of two above
            each message.
        strict: whether a tracked bound that leaves its range raises, instead of a warning.
        above: the levels that bootstrapping needs above these, or None.

    Raises:
        ParameterError: the values do not fit together.
        InsecureParametersError: log2(union P) is over the bound for `security`.
        RingError, ParameterError: a modulus is not a prime q = 1 (mod 2n) under 2^30.

    References: CKKS (eprint 2016/421); hybrid key switching (eprint 2019/688); bounds (eprint
    2024/463, Table 5.2).

    Example:
        >>> Parameters.for_depth(2)
        Parameters(n=8192, depth=2, scale=2^40, log_qp=190.4, 128-bit security)
    """

    __internal__ = (
        "terminals", "mains", "path", "union", "special_product", "log_q", "above",
    )  # fmt: skip

    n: int
    terminals: tuple[int, ...]
    mains: tuple[int, ...]
    specials: tuple[int, ...]
    path: tuple[tuple[int, int], ...]
    scale_bits: int = 40
    integer_bits: int = 10
    digits: tuple[tuple[int, ...], ...] = ()
    slots: int = 0
    secret: str = bounds.SECRET
    sigma: float = bounds.SIGMA
    security: int | None = 128
    bound: float | None = None
    strict: bool = False
    above: Above | None = None

    if not TYPE_CHECKING:
        __getattr__ = lacking(OF_PARAMETERS)

    def __attrs_post_init__(self) -> None:
        checks.convert_fields(self)
        object.__setattr__(self, "above", as_above(self.above))
        checks.check_degree(self.n)
        checks.check_wishes(self.scale_bits, self.integer_bits, self.security)
        object.__setattr__(self, "slots", self.slots or self.n // 2)
        checks.check_slots(self.slots, self.n)
        checks.check_bound(self.bound, self.strict)
        checks.check_layout(
            self.n, self.terminals, self.mains, self.specials, self.path, self.digits
        )
        if not self.digits:
            object.__setattr__(self, "digits", partition(self.union, self.special_product))
        checks.check_digits(self.digits, self.union, self.special_product)
        checks.check_levels(self.ring(0), self.scales, self.scale_bits, self.integer_bits)
        check_above(self)
        checks.check_security(self.n, self.log_qp, self.security, self.secret, self.sigma)

    @classmethod
    def for_depth(
        cls,
        depth: int,
        scale_bits: int = 40,
        security: int | None = 128,
        n: int | None = None,
        slots: int | None = None,
        integer_bits: int | None = None,
        dnum: int | None = None,
        bound: float | None = None,
        strict: bool = False,
    ) -> Parameters:
        """The cheapest parameters with `depth` levels above level 0.

        Least n first, then the fewest limb-NTTs of one key switch, then the smallest keys.

        Args:
            depth: how many rescales follow one another, 0 to 256.
            scale_bits: log2 of the scale, 20 to 60.
            security: 128, 192, 256, or None for no bound (INSECURE).
            n: the ring degree; the least that will do when None (from 2^10 on).
            slots: values in a ciphertext, a power of two; n/2 when None. It raises a free n.
            integer_bits: log2 of the headroom above the scale at level 0. None for 10. Where that
                costs no limb and no limb-NTT more, log2(slots) + 2, enough to sum numbers up to 1
                over all slots.
            dnum: number of digits of a key, each of one modulus at least. More digits make larger
                keys and leave more room for levels. Whatever is cheapest when None.
            bound, strict: as for `Parameters`.

        Returns:
            Parameters.

        Raises:
            InsecureParametersError: the depth is not within the bound; names one that is, and the
                n that this one takes.
            ParameterError: an argument out of range, a scale that no primes keep up, or more digits
                than moduli.
        """
        depth, scale_bits, integer_bits = map(
            checks.as_python_int, (depth, scale_bits, integer_bits)
        )
        n, slots, dnum = map(checks.as_python_int, (n, slots, dnum))
        checks.check_number("depth", depth, checks.DEPTHS, "Write for example depth=4.")
        checks.check_wishes(scale_bits, 10 if integer_bits is None else integer_bits, security)
        if dnum is not None:
            checks.check_number("dnum", dnum, checks.DNUMS, "Leave dnum out for the cheapest.")
        degrees = checks.degrees_for(n, slots)
        if integer_bits is None:
            integer_bits, plan = plan_with_sums(depth, scale_bits, security, degrees, dnum, slots)
        else:
            plan = plan_for_depth(depth, scale_bits, security, degrees, integer_bits, dnum)
        if dnum is not None and len(plan.digits) < dnum:
            raise ParameterError(
                f"Keys of {dnum} digits were asked for, at depth {depth}.",
                f"A digit has one modulus at least, and the levels there have {len(plan.digits)}.",
                f"Pass dnum={len(plan.digits)} or less, or leave dnum out for the cheapest.",
            )
        return cls(
            **attrs.asdict(plan, recurse=False),
            scale_bits=scale_bits,
            integer_bits=integer_bits,
            slots=slots or plan.n // 2,
            security=security,
            bound=bound,
            strict=strict,
        )

    @classmethod
    def preset(cls, name: str) -> Parameters:
        """The named set of `ckks.PRESETS`, for example "n14-depth4".

        Raises:
            ParameterError: no set has that name; lists those that there are.
        """
        if not isinstance(name, str) or name not in PRESETS:
            raise ParameterError(
                f"There is no preset {shown(name)}.",
                f"The presets are {', '.join(PRESETS)}.",
                "Take one of these, or Parameters.for_depth(depth).",
            )
        return cls.for_depth(**attrs.asdict(PRESETS[name]))

    @classmethod
    def for_bootstrapping(
        cls,
        levels: int | None = None,
        scale_bits: int = 40,
        security: int | None = 128,
        n: int | None = None,
        integer_bits: int | None = None,
        precision: float = 20.0,
        failure: float = 2.0**-64,
        bound: float | None = None,
        strict: bool = False,
        is_automatic: bool = False,
        slots: int | None = None,
    ) -> Parameters:
        """The cheapest parameters with `levels` levels between two bootstraps.

        Args:
            levels: 1 or more; None for the number with the least time a level.
            scale_bits, security, integer_bits, strict: as for `for_depth`.
            n: the ring degree; 2^16 when None.
            precision: bits that are right after a bootstrap, relative to the bound: 8 to 40. Beyond
                20 each bootstrap runs twice, and takes scale_bits of 18 more.
            failure: the largest probability that a bootstrap destroys its ciphertext.
            bound: of the real and the imaginary part of all messages; 1.0 when None, and then only
                bootstraps go by it.
            is_automatic: whether an operation that lacks levels bootstraps its operands.
            slots: values in a ciphertext, a power of two from 2 on; n/2 when None. Fewer than n/2
                are bootstrapped in less time, with fewer and smaller matrices.

        Raises:
            InsecureParametersError, ParameterError: what cannot be had, and what can.
        """
        levels, scale_bits, integer_bits, n, slots = map(
            checks.as_python_int, (levels, scale_bits, integer_bits, n, slots)
        )
        if levels is not None:
            checks.check_number("depth", levels, range(1, 65), "Write for example depth=8.")
        checks.check_wishes(scale_bits, integer_bits or 10, security)
        checks.check_degree(n or checks.MAX_DEGREE)
        degree = n or 1 << 16
        if slots is not None:
            checks.check_slots(slots, degree)
        if slots == 1:
            raise ParameterError(
                "Bootstrapping with slots=1 was asked for.",
                "A transform has two slots at least.",
                "Use slots=2; a single number fills all of them.",
            )
        bound = checks.as_real(bound)
        checks.check_bound(bound, strict)
        checks.check_real("precision", precision, 8, 40, "Write for example precision=20.")
        checks.check_real("failure", failure, 2.0**-200, 0.5, "Write for example failure=2**-64.")
        wish = Wish(
            levels, degree, scale_bits, integer_bits or 10, security, float(precision),
            float(failure), bound or 1.0, slots or degree // 2,
        )  # fmt: skip
        for plan, above, bits in plan_bootstrapping(wish):
            made = cls(
                **attrs.asdict(plan, recurse=False),
                scale_bits=scale_bits,
                integer_bits=bits,
                slots=wish.slots,
                security=security,
                bound=bound,
                strict=strict,
                above=attrs.evolve(above, is_automatic=is_automatic),
            )
            found = Bootstrapping(made).precision_bits
            if found >= precision:
                return made
        checks.check_bits(found, precision)
        raise AssertionError("check_bits raises for too few bits")

    # Levels and rings

    @property
    def depth(self) -> int:
        """Number of levels above level 0; the highest level."""
        return len(self.path) - 1

    @property
    def union(self) -> tuple[int, ...]:
        """The moduli of all levels in absolute positions: T_(K-1) .. T_0, q_0 .. q_(M-1)."""
        return self.terminals + self.mains

    @cached_property
    def _rings(self) -> tuple[RingSpec, ...]:
        return tuple(RingSpec(self.n, self._slice(t, m)) for t, m in self.path)

    def _slice(self, t: int, m: int) -> tuple[int, ...]:
        return self.union[len(self.terminals) - t : len(self.terminals) + m]

    def ring(self, level: int) -> RingSpec:
        """The ring Z_(Q_level)[X]/(X^n + 1): a contiguous slice of the union.

        Raises:
            ParameterError: there is no such level.
        """
        return self._rings[self._checked_level(level)]

    def moduli_to(self, level: int | None = None) -> tuple[int, ...]:
        """The moduli of all levels up to `level` (the highest by default), in the union's order."""
        path = self.path[: self._checked_level(level) + 1]
        return self._slice(*map(max, zip(*path, strict=True)))

    @property
    def dnum(self) -> int:
        """Number of digits of a key at the highest level."""
        return len(self.digits)

    @cached_property
    def special_product(self) -> int:
        """P, the product of the special moduli."""
        return math.prod(self.specials)

    def _checked_level(self, level: int | None) -> int:
        """`level`, the highest one for None; ParameterError where there is no such level."""
        if level is None:
            return self.depth
        levels = range(self.depth + 1)
        return checks.check_number(
            "level", level, levels, "Use a level of these parameters, or None."
        )

    # Scales

    @cached_property
    def scales(self) -> tuple[Fraction, ...]:
        """The canonical scales, s_0 = 2^scale_bits and s_i = sqrt(s_(i-1) Q_i / Q_(i-1)).

        Each is dyadic with 64 fractional bits. So s_i^2 Q_(i-1) / Q_i differs from s_(i-1) by less
        than 2^-(scale_bits + 62) of it, and every machine has the same ones.
        """
        scales = [Fraction(1 << self.scale_bits)]
        for low, high in zip(self._rings, self._rings[1:], strict=False):
            square = scales[-1] * high.q / low.q
            scales.append(
                Fraction(math.isqrt(int(square * 4**_FRACTION_BITS)), 1 << _FRACTION_BITS)
            )
        return tuple(scales)

    def scale(self, level: int) -> Fraction:
        """The canonical scale s_level of degree-1 ciphertexts, an exact rational."""
        return self.scales[self._checked_level(level)]

    # Security and sizes

    @cached_property
    def log_q(self) -> float:
        """log2 of the union of all bases, in bits."""
        return math.log2(math.prod(self.union))

    @cached_property
    def log_qp(self) -> float:
        """log2 of the union times P, the modulus that security counts, in bits.

        The moduli of bootstrapping count too.
        """
        above = self.above.moduli if self.above else ()
        return math.log2(math.prod((*self.union, *above)) * self.special_product)

    @property
    def security_bits(self) -> int:
        """The highest of 128, 192, 256 whose bound covers `log_qp`; 0 when INSECURE."""
        return bounds.security_bits(self.n, self.log_qp, self.secret, self.sigma)

    @property
    def security_margin(self) -> float:
        """Bits between `log_qp` and the bound for the target (128 without one)."""
        return bounds.max_log_qp(self.n, self.security or 128) - self.log_qp

    @property
    def is_insecure(self) -> bool:
        """True when no row of the table covers the parameters."""
        return not self.security_bits

    def ciphertext_nbytes(self, level: int | None = None) -> int:
        """Bytes of the two polynomials of a ciphertext at `level` (the highest by default)."""
        limbs = self.ring(self._checked_level(level)).limbs
        return 2 * limbs * self.n * _RESIDUE_BYTES

    def key_nbytes(self, level: int | None = None) -> int:
        """Bytes of one expanded evaluation key for levels up to `level` (the highest by default).

        Two polynomials a digit; saved keys take half, since uniform halves are seeds.
        """
        moduli = self.moduli_to(level)
        digits = sum(not set(digit).isdisjoint(moduli) for digit in self.digits)
        limbs = len(moduli) + len(self.specials)
        return 2 * digits * limbs * self.n * _RESIDUE_BYTES

    @property
    def bootstrapping(self) -> Bootstrapping | None:
        """Cost and effect of a bootstrap; None for parameters without."""
        return None if self.above is None else Bootstrapping(self)

    # Identity

    @property
    def digest(self) -> bytes:
        """SHA-256 of what fixes the meaning of ciphertexts and keys: 32 bytes.

        It covers n, the moduli and their order, levels, scale, digits, secret and noise. It
        leaves out the wishes `slots`, `integer_bits`, `security`, `bound` and `strict`, which
        change none of these.
        """
        return self._digest

    @cached_property
    def _digest(self) -> bytes:
        numbers = (self.terminals, self.mains, self.specials, self.path, self.digits)
        text = f"{_DIGEST_HEADER} {self.n} {self.scale_bits} {numbers} {self.secret} {self.sigma}"
        if self.above is not None:
            text += f" {attrs.evolve(self.above, is_automatic=False).to_dict()}"
        return hashlib.sha256(text.encode()).digest()

    def compatible(self, other: object) -> bool:
        """True when ciphertexts and keys of `other` mean the same under these parameters."""
        return isinstance(other, Parameters) and self.digest == other.digest

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON holds them: numbers, strings, lists, None."""
        given = {f.name: checks.as_lists(getattr(self, f.name)) for f in attrs.fields(Parameters)}
        above = given.pop("above")
        return given if above is None else {**given, "above": above.to_dict()}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Parameters:
        """The parameters that `to_dict` wrote; everything is checked again.

        Raises:
            ParameterError, RingError: fields that are missing, unknown or out of range.
        """
        names = [f.name for f in attrs.fields(Parameters)]
        if not isinstance(fields, Mapping) or {*fields, "above"} != set(names):
            raise ParameterError(
                f"from_dict got {fields!r:.80}.",
                f"The fields are {', '.join(names)}.",
                "Pass what Parameters.to_dict() gave.",
            )
        return cls(**fields)

    def to_bytes(self) -> bytes:
        """The parameters alone, for `from_bytes`."""
        return FRAME.pack(_KIND, self.digest, header_of(self), [])

    @classmethod
    def from_bytes(cls, data: bytes) -> Parameters:
        """The parameters that `to_bytes` wrote.

        Raises:
            SerializationError: damaged or foreign bytes, or parameters that cannot be.
        """
        reader = FRAME.unpack(_KIND, data)
        params = parameters_of(reader)
        reader.finish()
        return params

    # Display

    def __repr__(self) -> str:
        return (
            f"Parameters(n={self.n}, depth={self.depth}, scale=2^{self.scale_bits}, "
            f"log_qp={self.log_qp:.1f}, {display.security_text(self.security_bits)})"
        )

    def __str__(self) -> str:
        return display.parameter_text(self)

    def _repr_html_(self) -> str:
        parts, marks = display.parameter_parts(self), display.security_marks(self.security_bits)
        return html.card("CKKS parameters", *parts, **marks)

    def plot(self, ax: Any = None) -> Any:
        """Draws the modulus chain: the moduli of each level and of the keys, and the scales.

        A row is a level, a box a modulus, as long as it has bits. The red line is log2 of the
        canonical scale of each level. The dashed line is the bound on the moduli of the keys.

        Args:
            ax: matplotlib Axes to draw on; None makes a figure.

        Returns:
            The Axes; nothing is shown or saved.

        Raises:
            MissingPackageError: matplotlib is not installed.
        """
        return display.plot(self, ax)


_refuse_assignment = frozen(
    OF_CONTEXTS, "Write attrs.evolve(params, slots=...), or for_depth(...)."
)
for _name in ("__setattr__", "__delattr__"):
    setattr(Parameters, _name, _refuse_assignment)
check_methods(Parameters, "ckks.Parameters", INSTEAD, inherited=("save", "load"))
check_constructor(Parameters, "ckks.Parameters", INSTEAD)


def header_of(params: Parameters) -> dict[str, Any]:
    """The fields on parameters in the header of each saved object; INSECURE where they are."""
    return {"params": params.to_dict(), "security": display.security_text(params.security_bits)}


def parameters_of(reader: Reader) -> Parameters:
    """The parameters in the header of any object; they must have the digest of its frame."""
    try:
        params = _parameters_from(json.dumps(reader.header["params"]))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise damaged(reader.kind, f"the parameters are not valid ({reason})") from None
    if params.digest != reader.digest:
        raise damaged(reader.kind, "they belong to other parameters than they say")
    security = display.security_text(params.security_bits)
    if reader.field("security") != security:
        raise damaged(reader.kind, f"they do not say that they have {security}")
    return params


@lru_cache(maxsize=64)
def _parameters_from(text: str) -> Parameters:
    """Parameters from their fields as JSON: the constructor checks them, once for each text."""
    return checks.read_fields(text, Parameters.from_dict)
