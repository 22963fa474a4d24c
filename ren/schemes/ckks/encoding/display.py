"""Display of ciphertexts and plaintexts in notebooks: their type, never their contents."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ren.core import html
from ren.core.text_table import size
from ren.schemes.ckks.encoding.layout import Layout
from ren.schemes.ckks.noise.estimate import bits_text
from ren.schemes.ckks.noise.readable import is_known
from ren.schemes.ckks.noise.sigmas import log2_of
from ren.schemes.ckks.parameters.display import security_marks


def ciphertext_page(x: Any) -> str:
    """A ciphertext as HTML: its type and what is known of its noise; nothing is computed."""
    p, known = x.params, is_known(x.noise)
    estimate = x.estimate if known else None
    is_lazy = not all(poly.is_realized for poly in x.polys)
    rows = [
        ("encrypts", _contents(x.layout)),
        ("packed", packed_text(x).removesuffix(", ")),
        ("batch", " x ".join(map(str, x.polys[0].shape[:-2]))),
        ("level", html.joined(f"{x.level} of {p.depth}", html.meter(x.level / (p.depth or 1)))),
        ("scale", f"2^{log2_of(x.scale):.2f}"),
        ("slots", str(x.slots)),
        ("ring", f"{x.ring._title}, {x.ring._size_in_words}"),
        ("components", str(len(x.polys)) if len(x.polys) > 2 else ""),
        ("size", size(x.nbytes)),
        ("precision", _precision(estimate)),
        ("key", x.key_id[:8]),
    ]
    marks = security_marks(p.security_bits, "lazy" if is_lazy else "")
    return html.card("Ciphertext", html.facts(rows), **marks)


def packed_text(x: Any) -> str:
    """The shape of a table and how it is packed; "" of vectors, and where it is not known."""
    batch, layout = np.broadcast_shapes(*(p.shape[:-2] for p in x.polys)), x.layout
    count, axes = math.prod(batch), len(batch) - (layout.blocks > 1)
    if not isinstance(layout.length, int) or not (axes > 0 or layout.has_shape):
        return ""
    pack = "flat" if layout.has_shape else "by columns" if layout.columns else "by rows"
    plural = "s" * (count > 1)
    return f"{' x '.join(map(str, x.shape))} {pack} in {count} ciphertext{plural}, "


def plaintext_page(p: Any) -> str:
    """A plaintext as HTML: its type."""
    rows = [
        ("encodes", _contents(p.layout)),
        ("batch", " x ".join(map(str, p.wide.shape[:-2]))),
        ("level", f"{p.level} of {p.params.depth}"),
        ("scale", f"2^{log2_of(p.scale):.2f}"),
        ("slots", str(p.slots)),
        ("size", size(p.nbytes)),
    ]
    marks: dict[str, Any] = {**security_marks(p.params.security_bits), "tags": ("not encrypted",)}
    return html.card("Plaintext", html.facts(rows), **marks)


def _contents(layout: Layout) -> str:
    """Count and kind of the numbers, where that is known."""
    kind = "complex" if layout.is_complex else "real"
    if layout.length is None:
        return f"one {kind} number, in every slot"
    if not isinstance(layout.length, int):
        return f"{kind} numbers"
    shape = f", as {' x '.join(map(str, layout.shape))}" if layout.shape else ""
    blocks = f", in {layout.blocks} blocks" if layout.blocks > 1 else ""
    return f"{layout.length} {kind} numbers{shape}{blocks}"


def _precision(estimate: Any) -> str:
    if estimate is None or math.isinf(estimate.error_bound):
        return "not known"
    return f"{bits_text(estimate)}: error below {estimate.error_bound:.2g} (estimated)"
