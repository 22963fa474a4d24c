"""Kernels interpreted with NumPy: the "python" device, exact and independent of XLA."""

from __future__ import annotations

from typing import Any

import numpy as np

from ren.core import op as ops
from ren.core.node import Node, toposort
from ren.lowering.backends.reference.ops import REFERENCE
from ren.lowering.program.graph import Kernel


def interpret(kernel: Kernel, args: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """The kernel's results on NumPy arrays `uint32[*batch, limb, n]`, in order of its stores."""
    values: dict[Node, Any] = {}
    for node in toposort(kernel.body)[:-1]:
        if node.op is ops.SLOT:
            values[node] = args[node.arg.index] if node.arg.index >= 0 else None
        else:
            values[node] = REFERENCE[node.op.name](node, *(values[s] for s in node.src))
    return tuple(values[store] for store in kernel.body.src)
