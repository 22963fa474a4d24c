"""Frame of the bytes of CKKS objects: their mark, and the version of the format."""

from __future__ import annotations

from ren.schemes.rlwe.frame import Frame

FRAME = Frame(b"REN.CKKS", 5)
