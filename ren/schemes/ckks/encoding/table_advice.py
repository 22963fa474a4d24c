"""Code in place of functions and attributes that encrypted tables lack, by their packing."""

from __future__ import annotations

import math
import re
from functools import cache
from typing import Any

from ren.schemes.ckks.encoding.advice import SYMBOLS
from ren.schemes.ckks.encoding.ciphertext_data import is_columns, known_length

PACKINGS = ("flat", "rows", "columns")  # of a table, as `pack` of ctx.encrypt
_PLACES = "np.arange(r * c).reshape(r, c)"  # of the numbers of a table, one row after another
_JOINED = "ckks.concat(ckks.unstack(ct))"
_BY_ROWS = "np.arange(r * c).reshape(c, r).T.ravel()"  # of columns one after another
_VECTORS = ("ct.reshape(-1)", _JOINED, f"np.eye(r * c)[{_BY_ROWS}] @ {_JOINED}")
_EXP, _LAST = "ckks.math.exp(ct, interval=(a, b))", "axis=-1, keepdims=True"
_PARTS = "x = x[:k] * x[k:] for k = len(x) // 2, ..., 2, 1, of a power of two"
_ASSIGNED_IN_TABLE = "ct * m + values, with m zero where the values go, of the shape of ct"
_PACKED = ", of tables that are encrypted with"


@cache
def _of_tables(packing: str) -> dict[str, str]:
    """The code for a table `ct`, or `x` and `y`, of the shape (r, c), in place of `INSTEAD`."""
    place, is_flat, is_rows = PACKINGS.index(packing), packing == "flat", packing == "rows"
    vector, numbers = _VECTORS[place], _VECTORS[0] if is_flat else _JOINED

    def left(matrix: str, of: str = "ct") -> str:
        """A matrix times the table."""
        by_rows = f"ckks.stack([{of}.dot(v, axis=0) for v in {matrix}])"
        return by_rows if is_rows else f"{matrix} @ {of}"

    def both(rows: str, columns: str) -> str:
        return f"{rows} along axis 0, {columns} along axis 1"

    def total(terms: str) -> str:
        return f"{terms}.sum(axis=0).sum()" if is_rows else f"{terms}.sum()"

    def reduced(name: str) -> str:
        return f"ct.{name}(axis) along an axis, {numbers if is_rows else 'ct'}.{name}() of all"

    def moved(places: str) -> str:
        return f"(np.eye(r * c)[{places}.ravel()] @ {vector}).reshape(c, r)"

    def of_flat(code: str) -> str:
        """Code that shapes axes anew; tables by columns are not reshaped."""
        return f"{code}{_PACKED} pack='flat'" if packing == "columns" else code

    def extreme(name: str) -> str:
        axis = f"functools.reduce(f, ckks.unstack(ct)) along axis {0 if is_rows else 1}, "
        return (
            f"{'' if is_flat else axis}x = f(x, x.roll(k)) for k = 1, 2, 4, ... of all, with x = "
            f"{numbers} and f = lambda x, y: ckks.math.{name}(x, y, interval=(a, b))"
        )

    below, beside, joined = (
        ("ckks.concat([x, y])", "x @ np.eye(c, 2 * c) + y @ np.eye(c, 2 * c, c)",
         "ckks.concat([x.reshape(-1), y.reshape(-1)])"),
        ("ckks.stack([*ckks.unstack(x), *ckks.unstack(y)])", "ckks.concat([x, y])",
         "ckks.concat([*ckks.unstack(x), *ckks.unstack(y)])"),
        ("np.eye(2 * r, r) @ x + np.eye(2 * r, r, -r) @ y",
         f"ckks.concat([x, y]){_PACKED} pack='rows'",
         f"ckks.concat([x.reshape(-1), y.reshape(-1)]){_PACKED} pack='flat'"),
    )[place]  # fmt: skip
    transposed = moved(f"{_PLACES}.T") if place < 2 else "ckks.stack(ckks.unstack(ct))"
    turned = moved(f"np.rot90({_PLACES})") if place < 2 else "ckks.stack(ckks.unstack(ct)[::-1])"
    order, columns = "ckks.stack([ct[i] for i in order])", "ct @ np.eye(c)[:, order]"
    order = order if is_rows else "np.eye(r)[order] @ ct"
    taken = f"{both(order, columns)}, np.eye(r * c)[order] @ {vector} of all"
    reverse, mirrored = "ct[::-1]" if is_rows else "np.eye(r)[::-1] @ ct", "ct @ np.eye(c)[::-1]"
    product = f"ct @ M, or {left('M')} with M on the left"
    diagonal = "(ct * np.eye(r, c)).sum(axis=0)[: min(r, c)]"
    halves = ("ct @ np.eye(c)[:, :k]", "ct @ np.eye(c)[:, k:]")
    halves = halves if is_flat else ("ct[:, :k]", "ct[:, k:]")
    cut = both("ct[:k], ct[k:]", ", ".join(halves))
    steps = "ct @ np.diff(np.eye(c), axis=0).T"
    slopes = ("np.gradient(np.eye(r), axis=0)", "ct @ np.gradient(np.eye(c), axis=1)")
    shifted = ("np.roll(np.eye(r), k, axis=0)", "ct @ np.roll(np.eye(c), k, axis=1)")
    sums = ("np.tril(np.ones((r, r)))", "ct @ np.triu(np.ones((c, c)))")
    sums_along = both(left(sums[0]), sums[1])
    fft = left("np.fft.fft(np.eye(r))", "(ct @ np.fft.fft(np.eye(c)))")
    centred = "{0}(np.eye(r), axes=0)", "(ct @ {0}(np.eye(c), axes=1))"
    padded = left("np.eye(r + 2 * k, r, -k)", "(ct @ np.eye(c, c + 2 * k, k))")
    outer = ("x", _JOINED.replace("ct", "x"))[is_rows] + ".reshape(-1, 1) * y.reshape(1, -1)"
    quantile = f"ckks.stats.quantile({numbers}, q, edges), or decrypt() first"
    row_sums = f"{_EXP}.sum({_LAST})"
    by_columns = f"{_PACKED} pack='columns': as with rowvar=False, each column is a variable"
    of_rows = ", [ct[i].within(0, 1) for i in range(len(ct))])"
    of_halves = f"{_PARTS}, with x = {numbers} at first"
    return {
        **{name: reduced(name) for name in ("sum", "mean", "var")},
        "any": f"{numbers}.within(0, 1).any()", "all": f"{numbers}.within(0, 1).all()",
        "nanvar": reduced("var"), "add.reduce": "ct.sum(axis=0)",
        "std": "ckks.stats.std(ct, axis, interval=(a, b)) along an axis, "
        f"ckks.stats.std({numbers}, interval=(a, b)) of all",
        "average": "ct.dot(weights, axis) / weights.sum() along an axis, "
        f"{total('(ct * weights)')} / weights.sum() of all",
        **dict.fromkeys(("max", "amax", "nanmax"), extreme("max")),
        **dict.fromkeys(("min", "amin", "nanmin"), extreme("min")),
        "ptp": f"{extreme('max')}, less the same with ckks.math.min",
        "maximum.reduce": extreme("max"), "minimum.reduce": extreme("min"),
        "prod": of_halves, "nanprod": of_halves,
        "multiply.reduce": f"{_PARTS} of rows, with x = ct at first and x[0] at last",
        **{f"logical_{name[:-1]}.reduce": f"functools.reduce(operator.{name}{of_rows}"
           for name in ("and_", "or_")},
        "count_nonzero": f"{total('(x != 0)')}, or (x != 0).sum(axis) along an axis",
        **dict.fromkeys(("cumsum", "nancumsum", "cumulative_sum"),
                        f"{sums_along}, ({vector}).cumsum() of all"),
        "add.accumulate": sums_along,
        **dict.fromkeys(("dot", "matmul", "tensordot"), product),
        "multi_dot": product, "einsum": f"{product}; (x * y).sum(axis), or ct.sum(axis)",
        "inner": "ct @ M.T", "vecdot": "(x.conj() * y).sum(axis=-1)",
        "vdot": total("(x.conj() * y)"),
        "norm": "ckks.math.sqrt((ct * ct).sum(axis), interval=(a, b)) along an axis, "
        f"ckks.math.sqrt({total('(ct * ct)')}, interval=(a, b)) of all",
        "outer": outer if place < 2 else f"{outer}{_PACKED} pack='flat'",
        **{f"{name}.outer": of_flat(f"x.reshape(r, c, 1) {symbol} y")
           for name, symbol in SYMBOLS.items()},
        "concatenate": both(below, beside), "vstack": below,
        **dict.fromkeys(("hstack", "column_stack", "block"), beside), "append": joined,
        "stack": "ckks.stack([x, y])",
        "dstack": of_flat("x.reshape(r, c, 1) * [1, 0] + y.reshape(r, c, 1) * [0, 1]"),
        "insert": both(left("np.insert(np.eye(r), i, 0, axis=0)"),
                       "ct @ np.insert(np.eye(c), i, 0, axis=1)") + ", plus the values there",
        "delete": both(left("np.delete(np.eye(r), i, axis=0)"),
                       "ct @ np.delete(np.eye(c), i, axis=1)"),
        "pad": padded, "roll": both(left(shifted[0]), shifted[1]),
        "tile": "ct @ np.tile(np.eye(c), k)",
        **dict.fromkeys(("split", "array_split"), cut), "hsplit": ", ".join(halves),
        "vsplit": "ct[:k], ct[k:]",
        "unstack": "ckks.unstack(ct)" if is_rows else "[ct[i] for i in range(len(ct))]",
        "reshape": f"({vector}).reshape(...)" if packing == "columns" else f"{vector}.reshape(...)",
        **dict.fromkeys(("ravel", "flatten", "flat"), vector),
        "squeeze": f"ct itself where no size is 1, else {vector}",
        "expand_dims": "ckks.stack([ct]) for axis=0"
        + of_flat(", ct.reshape(r, 1, c) for axis=1, ct.reshape(r, c, 1) for axis=2"),
        "atleast_1d": "ct itself", "atleast_2d": "ct itself",
        "atleast_3d": of_flat("ct.reshape(r, c, 1)"),
        **dict.fromkeys(("transpose", "swapaxes", "moveaxis", "matrix_transpose"), transposed),
        "permute_dims": transposed, "H": f"{transposed}, with ct.conj() for ct", "rot90": turned,
        **dict.fromkeys(("flip", "rev"),
                        f"{both(reverse, mirrored)}, {reverse} @ np.eye(c)[::-1] along both"),
        "flipud": reverse, "fliplr": mirrored,
        **dict.fromkeys(("repeat", "take", "compress", "extract", "permutation"), taken),
        "take_along_axis": f"np.eye(r * c)[order] @ {vector}, with the order of all numbers",
        "diagonal": diagonal, "diag": diagonal, "trace": total("(ct * np.eye(r, c))"),
        "diagflat": f"({vector}) * np.eye(r * c)",
        "tril": "ct * np.tril(np.ones(ct.shape))", "triu": "ct * np.triu(np.ones(ct.shape))",
        "diff": both("ct[1:] - ct[:-1]", steps),
        "ediff1d": f"x[1:] - x[:-1], with x = {vector}",
        "gradient": both(left(slopes[0]), slopes[1]),
        **{name: f"ct @ np.fft.{name}(np.eye(c))" for name in ("fft", "ifft", "rfft")}, "fft2": fft,
        **{name: left(centred[0].format(f"np.fft.{name}"), centred[1].format(f"np.fft.{name}"))
           for name in ("fftshift", "ifftshift")},
        "polyfit": left("np.linalg.pinv(np.vander(w, 2))"),
        "cov": f"ckks.stats.cov(ct){by_columns}",
        "corrcoef": f"ckks.stats.corr(ct, interval=(a, b)){by_columns}",
        **dict.fromkeys(("median", "percentile", "quantile", "nanmedian"), quantile),
        **dict.fromkeys(("nanquantile", "nanpercentile"), quantile),
        "histogram": f"ckks.stats.histogram({numbers}, edges), or decrypt() first",
        "softmax": f"e * ckks.math.inverse(e.sum({_LAST}), interval=(l, h)), with e = {_EXP}",
        "log_softmax": f"ct - ckks.math.log({row_sums}, interval=(l, h))",
        "logsumexp": f"ckks.math.log({total(_EXP)}, interval=(l, h))",
        "standardize": f"d * ckks.math.pow(ct.var({_LAST}) + 1e-5, -0.5, interval=(a, b)), with d "
        f"= ct - ct.mean({_LAST})",
        "glu": f"({halves[0]}) * ckks.math.sigmoid({halves[1]}, interval=(a, b))",
        "segment_sum": left("(np.arange(k)[:, None] == segments)"),
        **dict.fromkeys(("set", "at", "put_along_axis", "dynamic_update_slice", "put", "place"),
                        _ASSIGNED_IN_TABLE),
        **dict.fromkeys(("putmask", "copyto", "fill_diagonal"), _ASSIGNED_IN_TABLE),
    }  # fmt: skip


_ALIASES = {"T": "transpose", "mT": "transpose", "permute": "transpose", "unsqueeze": "expand_dims"}


def in_table(x: Any, name: str) -> str | None:
    """The code in place of a function or an attribute `name`, where `x` is a table.

    Args:
        x: a ciphertext of any shape.
        name: as for `instead_of`.

    Returns:
        The code and what it is; None where that of vectors holds, or `x` has other than two axes.
    """
    if len(x.shape) != 2 or known_length(x) is None:
        return None
    packing = "columns" if is_columns(x) else "flat" if x.layout.has_shape else "rows"
    text = _of_tables(packing).get(_ALIASES.get(name, name))
    has_sizes = text is not None and re.search(r"\b[rc]\b", text)
    text = f"{text}, with r, c = ct.shape" if has_sizes else text
    return text and affordable(text, x.shape)


_MOST_ROWS = 1 << 12  # of a square matrix that is written out: 128 MiB
_SQUARE = re.compile(r"np\.(?:eye\(|ones\(\()([^,()]*)")


def affordable(text: str, shape: tuple[int, ...]) -> str:
    """`text`, unless the square matrices in it are too large to write out.

    Args:
        text: code, in which (r, c) is the shape of a table, and k the count of its numbers.
        shape: of the ciphertext.
    """
    *_, r, c = (1, 1, *shape)
    written = text
    for name, size in (("len(ct)", shape[0] if shape else 1), ("ct.shape[-1]", c)):
        written = written.replace(name, str(size))
    sizes = {"r": r, "c": c, "k": math.prod(shape)}
    sides = [
        math.prod(int(f) if f.isdigit() else sizes.get(f, 1) for f in side.split(" * "))
        for side in _SQUARE.findall(written)
    ]
    if (side := max(sides, default=0)) <= _MOST_ROWS:
        return text
    return (
        f"the same before ctx.encrypt(values), or decrypt() first: as a product it takes a matrix "
        f"of {side:,} x {side:,} numbers, {8 * side**2 / 2**30:,.1f} GiB"
    )
