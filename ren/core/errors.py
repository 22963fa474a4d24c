"""Every error that Ren raises on purpose: what was given, what is needed, what to do."""

from __future__ import annotations

import dataclasses

from ren.core.user_frame import user_source


class RenError(Exception):
    """Base of all Ren errors.

    Args:
        given: what the caller did or passed.
        needed: what Ren requires instead.
        do: the remedy, as something the caller can type.
        fact: what Ren itself goes by where it catches the error, in place of the text.

    The three parts are the lines of the message; empty parts are left out. A note, which tracebacks
    show below them, has the user's own line and where docs/errors.md tells more.
    """

    def __init__(self, given: str, needed: str = "", do: str = "", fact: object = None) -> None:
        super().__init__(given, needed, do)
        self.given, self.needed, self.do, self.fact = given, needed, do, fact
        if source := user_source():
            self.add_note(f"In {source}  (docs/errors.md#{type(self).__name__.lower()})")

    def __str__(self) -> str:
        return "\n".join(part for part in (self.given, self.needed, self.do) if part)


def kind_of(value: object) -> str:
    """The class of a value with its article: `an int`, `a str`."""
    name = type(value).__name__
    return f"{'an' if name.startswith((*'aeiouAEIO', 'ndarray', 'NA')) else 'a'} {name}"


def shown(value: object) -> str:
    """The repr of a value, cut where it is long; of a huge integer its bits are counted."""
    if isinstance(value, int) and abs(value) >= 1 << _SHOWN_BITS:
        return f"<integer of {value.bit_length()} bits>"
    try:
        text = repr(value)
    except ValueError:  # Python writes no integer of more than 4300 digits
        return f"<{type(value).__name__} with a huge integer>"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


_SHOWN, _SHOWN_BITS = 60, 100


class RingError(RenError, ValueError):
    """A ring that cannot be: wrong degree, or moduli that are not NTT primes under 2^30."""


class RingMismatchError(RenError, ValueError):
    """Operands, or a conversion, whose rings do not fit each other."""


class CoefficientError(RenError, ValueError):
    """Coefficients of the wrong count or range."""


class CoefficientTypeError(RenError, TypeError):
    """Coefficients or operands that are not integers."""


class OperandError(RenError, TypeError):
    """An operand of the wrong kind, or an operation that encrypted numbers do not have."""


class FrozenError(RenError, dataclasses.FrozenInstanceError):
    """An assignment to an attribute of what never changes."""


class DomainError(RenError, ValueError):
    """An operation on a polynomial in the wrong domain or shape."""


class BatchIndexError(DomainError, IndexError):
    """An index beyond a batch axis."""


class DeviceError(RenError, ValueError):
    """Polynomials on several devices, or a device that is not there."""


class RandomnessError(RenError, ValueError):
    """Fresh randomness asked for where it could not be fresh, or a bad seed or distribution."""


class TracedValueError(RenError, ValueError):
    """A concrete value asked of what has none: symbolic, traced or encrypted.

    Python and NumPy replace a TypeError by their own, in `"%d" % x` and np.zeros(x).
    """


class DonatedBufferError(RenError, RuntimeError, ValueError):
    """A polynomial read after its buffer was donated to a jitted function."""


class JitError(RenError, ValueError):
    """`ren.jit` on a function without polynomials going in or coming out, or misused options."""


class LoopError(RenError, TypeError):
    """A loop of JAX inside `ren.jit` whose carry changes its type, or whose branches differ."""


class SettingError(RenError, ValueError):
    """A value that a setting of `ren.config` cannot have."""


class UnknownSettingError(RenError, AttributeError):
    """A name that `ren.config` does not have."""


class UnknownAttributeError(RenError, AttributeError):
    """An attribute that an object of Ren does not have, as a method of NumPy's arrays."""


class SerializationError(RenError, ValueError):
    """Bytes that are truncated, altered, foreign or of another version."""


class ParameterError(RenError, ValueError):
    """Scheme parameters that cannot be met or do not fit together."""


class InsecureParametersError(ParameterError):
    """Parameters beyond the security bound that was asked for."""


class ContextError(RenError, ValueError):
    """No active context, a context without the key needed, or two contexts in one operation."""


class MissingKeyError(ContextError, LookupError):
    """An evaluation key that this context does not hold and may not make."""


class DepthError(RenError, ValueError):
    """An operation below the lowest level: the multiplicative depth is used up."""


class PrecisionError(RenError, ArithmeticError):
    """An encrypted result further from its value in the clear than was allowed."""


class MessageBoundError(RenError, OverflowError):
    """Encrypted numbers that may leave, or surely leave, the range of their level."""


class SharingError(RenError, ValueError):
    """A decryption to be shared that would tell others more than was budgeted."""


class ScaleError(RenError, ValueError):
    """Scales, levels or components that do not fit, where nothing is aligned: `ckks.manual()`."""


class VerificationError(RenError, AssertionError):
    """A compiler pass broke a rule of its stage: a defect of Ren, never of the program."""


class MissingPackageError(RenError, ImportError):
    """A package that is optional, asked for by what needs it, and not installed."""


class NativeError(RenError, RuntimeError):
    """Native kernels that were asked for and cannot be had."""


class OutOfMemoryError(RenError, MemoryError):
    """Memory that a computation needs and that the system does not give."""


class ForkError(RenError, RuntimeError):
    """A computation in a process that was forked after JAX had started its threads."""


class RecaptureWarning(UserWarning):
    """A jitted function is captured again and again where one plan would do."""


class MessageBoundWarning(UserWarning):
    """Encrypted numbers may leave the range of their level, or the interval of a function."""


class TransparentWarning(UserWarning):
    """A ciphertext that everyone can read: its c1 is zero, as in a product with zero or `x - x`."""


def __dir__() -> list[str]:
    return sorted(name for name, value in globals().items() if isinstance(value, type))
