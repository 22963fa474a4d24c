"""Programs on ciphertexts as Python source: inputs, and one operation a line."""

from __future__ import annotations

import re

import attrs
import numpy as np
from numpy.typing import NDArray

MODES = ("steps", "lazy", "jit", "vmap")
NAME = re.compile(r"\bv\d+\b")


def draw(seed: int, *shape: int, high: float = 2.0) -> NDArray[np.float64]:
    """The arrays of printed programs."""
    return np.random.default_rng(seed).uniform(-high, high, shape).round(2)


@attrs.frozen
class Setting:
    """The parameters of a program's context."""

    depth: int
    n: int = 1 << 10
    slots: int = 1 << 9

    @property
    def source(self) -> str:
        """The call that makes the context."""
        return f"ckks.context({self.depth}, n={self.n}, slots={self.slots}, security=None)"


@attrs.frozen
class Input:
    """A fresh ciphertext of `values`, an expression, at a level; None for the top."""

    name: str
    values: str
    level: int | None = None

    @property
    def source(self) -> str:
        """The line that encrypts."""
        level = "" if self.level is None else f", level={self.level}"
        return f'{self.name} = ctx.encrypt({self.values}{level}, pack="rows")'


@attrs.frozen
class Step:
    """name = text, an operation of a kind."""

    name: str
    text: str
    kind: str

    @property
    def reads(self) -> list[str]:
        """The names that it reads."""
        return list(dict.fromkeys(NAME.findall(self.text)))


@attrs.frozen
class Program:
    """Inputs and operations, and how they are run.

    Attributes:
        mode: one of MODES: each step computed at once; all at the end; under `ren.jit`, twice;
            or under `jax.vmap`, on two inputs.
        seed: what `ciphertext_programs.draw_program` drew it from.
    """

    setting: Setting
    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]
    mode: str = "steps"
    seed: tuple[int, ...] = ()

    @property
    def source(self) -> str:
        """The program as Python."""
        body = [f"ctx = {self.setting.source}", *(i.source for i in self.inputs)]
        body += [f"{s.name} = {s.text}" for s in self.steps]
        text = "\n".join(body)
        head = [f"# mode {self.mode}, seed {self.seed}"]
        head += ["import jax.numpy as jnp"] * ("jnp." in text)
        head += ["import numpy as np"] * (" np." in text or "(np." in text)
        head += ["from ren.schemes import ckks"]
        head += ["from tests.properties.program_model import draw"] * ("draw(" in text)
        return "\n".join([*head, text])
