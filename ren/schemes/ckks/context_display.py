"""Display of contexts: the uses of their keys, never the contents."""

from __future__ import annotations

from typing import Any

from ren.core import html
from ren.schemes.ckks.parameters.display import parameter_parts, security_marks
from ren.schemes.rlwe.galois import steps_by_element
from ren.schemes.rlwe.keys import sizes

_MOST_NAMES = 24  # of keys on a page


class DisplayedContext:
    """Gives `Context` its texts."""

    __slots__ = ()

    def __repr__(self: Any) -> str:
        mark = ", INSECURE" if self.params.is_insecure else ""
        return f"<ckks.Context {self.key_id[:8]}, {self._keys.kind}, keys of {_sizes(self)}{mark}>"

    def __str__(self: Any) -> str:
        rows = [
            ("context", f"{self.key_id[:8]}, {self._keys.kind}"),
            ("keys", ", ".join(_key_names(self)) or "none"),
            ("sizes", _sizes(self)),
        ]
        table = "\n".join(f"{name:<12} {value}" for name, value in rows)
        return f"{self.params}\n{table}"

    def _repr_html_(self: Any) -> str:
        names, p = _key_names(self), self.params
        more = f", and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        rows = (
            ("kind", self._keys.kind),
            ("holds", (", ".join(names[:_MOST_NAMES]) or "none") + more),
            ("sizes", _sizes(self)),
        )
        title = f"ckks.Context {self.key_id[:8]}"
        parts, marks = parameter_parts(p.report, *rows), security_marks(p.security_bits)
        return html.card(title, *parts, **marks)


def _sizes(ctx: Any) -> str:
    return sizes(ctx._keys)


def _key_names(ctx: Any) -> list[str]:
    steps = steps_by_element(ctx.params.n, ctx.slots) if ctx._keys.galois else {}
    names = {g: f"rotation by {k}" for g, k in steps.items()}
    return ctx._keys.names(lambda g: names.get(g) or ctx._name(g))
