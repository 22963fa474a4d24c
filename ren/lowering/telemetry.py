"""What was learnt about a plan: how long its tiers took, and which of them is to run."""

from __future__ import annotations

import attrs


@attrs.frozen
class Entry:
    """What is kept of one plan, under its digest.

    Attributes:
        tier: the one that is to run.
        samples: of each tier that was timed its name, how many runs, and the mean in nanoseconds
            and the variance in their squares.
        compile_ns: what compiling the plan as one executable took.
        updated_s: when this was learnt, in seconds since the epoch.
    """

    tier: str
    samples: tuple[tuple[str, int, float, float], ...]
    compile_ns: int
    updated_s: float
