"""`ckks.manual()`: relinearization, rescaling and alignment are the user's, nothing is inserted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# A declared piece of state: of the current thread or task, for the time of a `with` block.
_manual: ContextVar[bool] = ContextVar("ren_ckks_manual", default=False)


@contextmanager
def manual() -> Iterator[None]:
    """Inside, operators do what they say and no more.

    A product has three components until `.relinearize()`, and the product of the scales until
    `.rescale()`. `.scale` and `.level` give the true ones. Operands of a sum have one level and one
    scale, those of a product one level; `.drop_to(level)` aligns levels. Arrays and numbers are
    encoded at the scale that a sum needs. For a product they are encoded at the scale of the level.

    Outside, such ciphertexts are brought to normal form where they are used.

    Example:
        >>> from ren.schemes import ckks
        >>> ctx = ckks.context(depth=1, n=2**13)
        >>> x = ctx.encrypt([1.0, 2.0])
        >>> with ckks.manual():
        ...     z = (x * x + x * x).relinearize().rescale()
        >>> z.decrypt().round(3)
        array([2., 8.])
    """
    token = _manual.set(True)
    try:
        yield
    finally:
        _manual.reset(token)


def is_manual() -> bool:
    """True inside `ckks.manual()`."""
    return _manual.get()
