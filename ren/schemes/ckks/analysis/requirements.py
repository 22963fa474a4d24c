"""Requirements that `ren.plan` finds: parameters, keys with their levels, memory and time."""

from __future__ import annotations

import math

import attrs

from ren.core import html
from ren.core.attributes import closed
from ren.core.text_table import columns, duration, size
from ren.lowering.plan.cost import rates
from ren.schemes.ckks.parameters.parameters import Parameters


@closed()
@attrs.frozen
class Requirements:
    """Requirements of a function; `ckks.context(requirements)` makes such a context with its keys.

    Attributes:
        params: the cheapest parameters that suffice.
        rotations: the steps whose keys it uses, ascending, each of the least size.
        conjugation_level: that of the conjugation key; None where it is not used.
        needs_conjugation: whether it uses the conjugation key.
        needs_products: whether it uses the relinearization key.
        peak_bytes: planned, of one run: inputs, keys that are read, intermediates and results. With
            loops of JAX the intermediates are those of the largest program in them. For a large
            program, such as that of many columns, they are estimated.
        limb_ntts: transforms of one limb each, in one run. A loop whose number of steps is not
            known counts one step.
        seconds: an estimate as one native call, to compare programs by; not a promise. It is for
            this machine once `python -m ren` has calibrated it, else for two cores with AVX-512.
        bootstraps: how many there are in one run. Their keys and work are in the other numbers.
    """

    params: Parameters
    rotations: tuple[int, ...]
    needs_conjugation: bool
    needs_products: bool
    peak_bytes: int = attrs.field(eq=False, repr=False)
    limb_ntts: int = attrs.field(eq=False, repr=False)
    seconds: float = attrs.field(eq=False, repr=False)
    bootstraps: int = 0
    _levels: tuple[tuple[int, int], ...] = attrs.field(alias="levels", default=(), repr=False)
    conjugation_level: int | None = None
    _machine: str = attrs.field(factory=lambda: rates().machine, eq=False, repr=False)

    @property
    def rotation_levels(self) -> dict[int, int]:
        """The highest level at which each rotation is used, by its steps.

        `ctx.rotation_keys(plan.rotation_levels)` makes such keys. Levels that read the same limbs
        of keys count as the least of them.
        """
        return dict(self._levels)

    @property
    def depth(self) -> int:
        """Number of levels that it takes; with bootstrapping, of the highest level."""
        return self.params.depth

    @property
    def keys(self) -> int:
        """Number of evaluation keys that it uses, those of bootstraps with them."""
        own = len(self.rotations) + self.needs_conjugation + self.needs_products
        return own + self._bootstrapping_keys

    @property
    def _bootstrapping_keys(self) -> int:
        above = self.params.bootstrapping
        return above.keys if above and self.bootstraps else 0

    @property
    def key_bytes(self) -> int:
        """Bytes of these in memory; saved, about half."""
        above = self.params.bootstrapping
        return (
            sum(map(self.params.key_nbytes, self._galois_levels()))
            + self.needs_products * self.params.key_nbytes()
            + (above.key_nbytes if above and self.bootstraps else 0)
        )

    def _galois_levels(self) -> list[int]:
        """The highest level of each rotation key, and of the conjugation key."""
        levels = [level for _, level in self._levels]
        return levels if self.conjugation_level is None else [*levels, self.conjugation_level]

    def __str__(self) -> str:
        return columns(self._rows(), left=(0, 1))

    def _repr_html_(self) -> str:
        warning = "INSECURE" if self.params.is_insecure else ""
        return html.card("What the function needs", html.facts(self._rows()), warning=warning)

    def _bootstrap_rows(self) -> list[tuple[str, str]]:
        above = self.params.bootstrapping
        if above is None:
            return []
        failure = above.failure_log2 + math.log2(max(self.bootstraps, 1))
        return [("bootstraps", f"{self.bootstraps}; a run fails with 2^{failure:.1f}")]

    def _rows(self) -> list[tuple[str, str]]:
        rotations = ", ".join(map(str, self.rotations)) or "none"
        kinds = [f"rotations: {rotations}"]
        kinds += ["conjugation"] * self.needs_conjugation
        kinds += ["relinearization"] * self.needs_products
        if count := self._bootstrapping_keys:
            kinds.append(f"{count} for bootstraps")
        return [
            ("parameters", repr(self.params)),
            ("depth", str(self.depth)),
            ("keys", f"{self.keys}, {size(self.key_bytes)} in memory ({'; '.join(kinds)})"),
            *self._bootstrap_rows(),
            ("peak memory", f"{size(self.peak_bytes)} with inputs and keys"),
            ("limb-NTTs", f"{self.limb_ntts:,}"),
            ("estimated", f"{duration(self.seconds)} {self._machine}"),
        ]
