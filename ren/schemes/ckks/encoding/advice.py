"""The line of code to write for each function or attribute that a Ciphertext lacks, by its name."""

from __future__ import annotations

# NumPy's functions, and those of JAX that raise, by their functions of `ckks.math`.
IN_MATH = {
    "absolute": "abs", "abs": "abs", "fabs": "abs", "maximum": "max", "fmax": "max",
    "minimum": "min", "fmin": "min", "reciprocal": "inverse", "exp": "exp", "log": "log",
    "sqrt": "sqrt", "sin": "sin", "cos": "cos", "tan": "tan", "sinh": "sinh", "cosh": "cosh",
    "tanh": "tanh", "sign": "sign", "round": "round", "around": "round", "rint": "round",
    "relu": "relu", "sigmoid": "sigmoid", "logistic": "sigmoid", "expit": "sigmoid",
    "greater": "greater", "greater_equal": "greater_equal", "less": "less",
    "less_equal": "less_equal", "equal": "equal", "not_equal": "not_equal",
    "logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor",
    "logical_not": "logical_not", "bitwise_and": "logical_and", "bitwise_or": "logical_or",
    "bitwise_xor": "logical_xor", "invert": "logical_not", "bitwise_not": "logical_not",
}  # fmt: skip
_OF_TWO = ("max", "min", "greater", "greater_equal", "less", "less_equal", "equal", "not_equal")
_OF_TRUTH = ("logical_and", "logical_or", "logical_xor")

# Functions of each number by itself: their interpolants give them. Others need all numbers.
_INVERSES = "arccos arccosh arcsin arcsinh arctan arctanh acos acosh asin asinh atan atanh"
_OF_NUMPY = (*_INVERSES.split(), "cbrt", "exp2", "expm1", "log10", "log1p", "log2", "sinc", "i0")
_INTERPOLATED = {
    "np": _OF_NUMPY,
    "jnp": _OF_NUMPY,
    "jax.lax": (*_OF_NUMPY, "digamma", "erf_inv"),
    "jax.nn": (
        "celu", "elu", "gelu", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh", "leaky_relu",
        "log_sigmoid", "mish", "relu6", "selu", "silu", "soft_sign", "softplus", "sparse_plus",
        "sparse_sigmoid", "squareplus", "swish",
    ),
    "jax.scipy.special": (
        "digamma", "entr", "erfinv", "i0", "i0e", "i1", "i1e", "log_ndtr", "logit", "ndtr",
    ),
    "jax.scipy.stats.norm": ("cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"),
}  # fmt: skip
_OF_PYTHON = {name: name for name in ("erf", "erfc", "gamma", "lgamma")} | {"gammaln": "lgamma"}

_LARGEST = "ckks.math.max(ct, ct.roll(k)) for k = 1, 2, 4, ...; ckks.math.max(x, y) is slot by slot"
_BY_MATRIX = "a matrix of zeros and ones that moves them: np.eye(k)[order] @ ct"
_SOLVED = "decrypt() first, or a fixed number of steps of an iteration with + - * and @"
_IN_ORDER = "decrypt() first: an order of encrypted numbers is not known to a program"
_FINITE = "np.isfinite(ct.decrypt()) for results; what is encrypted was finite"
_FOUND = "x > 0, which marks them, or decrypt() first: their places are not known to a program"
_DIGITS = "decrypt() first: it asks for the digits of numbers"
_BY_SLICES = "x = x[:k] * x[k:] for k = size // 2, ..., 2, 1, of a power of two of numbers"
_OF_MATRIX = "M @ ct for a matrix M"
_LOG_OF_SUM = "ckks.math.log(ckks.math.exp(ct, interval=(a, b)).sum(), interval=(c, d))"
_WINDOWS = "ckks.stack([ct[i : i + k] for i in range(ct.size - k + 1)])"
_QUANTILE = "ckks.stats.quantile(ct, q, edges), or decrypt() first"
_NUMBERS = "ct.decrypt() for the numbers, ckks.stack([x, y]) for a batch"
_AT_ONCE = "f(ct), which works on all slots at once"
_ASSIGNED = "ct.mask(m) + values, with m zero where the values go"
_COUNTED = "(x != 0).sum(), (x > 0).sum(), or ckks.math.equal(x, value).sum()"
_TRANSPOSED = f"np.arange(r * c).reshape(r, c).T.ravel() as the order of {_BY_MATRIX}"
_SIDE_BY_SIDE = "x.reshape(-1, 1) * [1, 0] + y.reshape(-1, 1) * [0, 1]"
_TYPED = "ckks.typed(ct, dtype) for the type that decrypt() gives, or ct.decrypt(dtype=dtype)"
INSTEAD = {
    "max": _LARGEST, "amax": _LARGEST,
    "min": _LARGEST.replace("max", "min"), "amin": _LARGEST.replace("max", "min"),
    "ptp": "the largest minus the smallest, by ckks.math.max and ckks.math.min",
    "clip": "ckks.math.min(ckks.math.max(ct, low), high)",
    "sum": "ct.sum()", "mean": "ct.mean()", "average": "ct.dot(weights) / weights.sum()",
    "var": "ct.var()", "std": "ckks.stats.std(ct, interval=(a, b))",
    "dot": f"ct.dot(w), or {_OF_MATRIX}", "vdot": "ct.conj().dot(w)",
    "inner": "ct.dot(w)", "vecdot": "ct.dot(w), of complex numbers ct.conj().dot(w)",
    "matvec": "M @ ct for one vector", "vecmat": "ct.conj() @ M for one vector",
    "matmul": f"a @ b, such as {_OF_MATRIX}", "tensordot": f"ct.dot(w), or {_OF_MATRIX}",
    "multi_dot": "A @ (B @ ct), one matrix after another",
    "einsum": "ct.dot(w), a @ b, or ct.sum()",
    "outer": "x.reshape(-1, 1) * y.reshape(1, -1)",
    "norm": "ckks.math.sqrt(ct.dot(ct), interval=(a, b))",
    "cumsum": "ct.cumsum()", "roll": "ct.roll(k)", "tile": "ct.tile(k)", "real": "ct.real",
    "imag": "ct.imag", "conjugate": "ct.conj()", "conj": "ct.conj()", "negative": "-ct",
    "square": "ct * ct", "add": "x + y", "subtract": "x - y", "multiply": "x * y", "sub": "x - y",
    "mul": "x * y", "power": "x ** k",
    **dict.fromkeys(("divide", "div"), "x / numbers, or ckks.math.inverse(y) * x"),
    "concatenate": "ckks.concat([x, y])", "hstack": "ckks.concat([x, y])",
    "append": "ckks.concat([x, y])", "insert": "ckks.concat([x[:i], y, x[i:]])",
    "delete": "ckks.concat([x[:i], x[j:]])",
    "pad": "ckks.pad(ct, length), zeros behind; in front, ckks.pad(ct, length).roll(k)",
    "stack": "ckks.stack([x, y])", "vstack": "ckks.stack([x, y])",
    **dict.fromkeys(("isnan", "isfinite", "isinf", "isneginf", "isposinf"), _FINITE),
    "array": _NUMBERS, "asarray": _NUMBERS, "one_hot": "decrypt() first",
    "split": "ct[:k], ct[k:]", "array_split": "ct[:k], ct[k:]",
    "where": "ckks.where(condition, x, y)", "select": "ckks.where(condition, x, y)",
    "any": "ct.any()", "all": "ct.all()", "prod": _BY_SLICES,
    "reshape": "ct.reshape(...)", "ravel": "ct.reshape(-1)", "flatten": "ct.reshape(-1)",
    "squeeze": "ct.reshape(-1), of a batch ckks.unstack(ct)[0]", "expand_dims": "ct.reshape(1, -1)",
    "atleast_1d": "ct.reshape(-1)", "atleast_2d": "ct.reshape(1, -1)",
    "transpose": _TRANSPOSED, "swapaxes": _TRANSPOSED,
    "flip": _BY_MATRIX, "repeat": _BY_MATRIX, "take": _BY_MATRIX, "compress": _BY_MATRIX,
    "extract": _BY_MATRIX, "diagonal": _BY_MATRIX, "permutation": _BY_MATRIX,
    "diff": "ct[1:] - ct[:-1]",
    "convolve": "ckks.conv1d(ct, kernel[::-1], padding=len(kernel) - 1)",
    "correlate": "ckks.conv1d(ct, np.conj(kernel))", "fft": "np.fft.fft(np.eye(k)) @ ct",
    "trace": "ct.reshape(-1).dot(np.eye(k).ravel())",
    "polyval": "ckks.poly(ct, coefficients), the constant first",
    "interp": "ckks.chebyshev(ct, f, (a, b), degree)",
    "shape": "ct.shape", "ndim": "ct.ndim", "size": "ct.size",
    "zeros_like": "np.zeros(ct.shape)", "ones_like": "np.ones(ct.shape)",
    "full_like": "np.full(ct.shape, value)", "empty_like": "np.zeros(ct.shape)",
    "broadcast_to": "ct + np.zeros(shape)", "save": "ct.save(path)", "savez": "ct.save(path)",
    "savetxt": "ct.save(path)", "inv": _SOLVED, "solve": _SOLVED, "det": _SOLVED,
    "sort": _IN_ORDER, "argsort": _IN_ORDER, "argmax": _IN_ORDER, "argmin": _IN_ORDER,
    "median": _QUANTILE, "percentile": _QUANTILE, "quantile": _QUANTILE, "unique": _IN_ORDER,
    "histogram": "ckks.stats.histogram(ct, edges), or decrypt() first",
    "cov": "ckks.stats.cov(table) of columns, or ckks.stats.cov(x, y)",
    "corrcoef": "ckks.stats.corr(x, y, interval=(a, b))",
    "searchsorted": _IN_ORDER,
    "softmax": "e * ckks.math.inverse(e.sum(), interval=(c, d)), with e = ckks.math.exp(ct, "
    "interval=(a, b))",
    "logsumexp": _LOG_OF_SUM, "log_softmax": f"ct - {_LOG_OF_SUM}",
    "standardize": "d * ckks.math.pow(ct.var() + 1e-5, -0.5, interval=(a, b)), with d = ct - "
    "ct.mean()",
    "glu": "ct[:k] * ckks.math.sigmoid(ct[k:], interval=(a, b))",
    "stop_gradient": "ct itself", "set": _ASSIGNED,
    "dynamic_slice": "ct[i:j]",
    **dict.fromkeys(("vectorize", "frompyfunc", "apply_along_axis", "apply", "map"), _AT_ONCE),
    "piecewise": "ckks.where(condition, x, y)",
    "choose": "ckks.where(condition, b, a) of np.choose(condition, [a, b])",
    **dict.fromkeys(("put_along_axis", "dynamic_update_slice"), _ASSIGNED),
    **dict.fromkeys(("put", "place", "putmask", "copyto", "fill_diagonal"), _ASSIGNED),
    **dict.fromkeys(("kron", "cross"), "matrix @ ct, of products that you write out"),
    **dict.fromkeys(("lstsq", "matrix_power", "svd", "eig", "eigh", "qr", "pinv"), _SOLVED),
    **dict.fromkeys(("cholesky", "lu", "expm", "slogdet", "eigvals", "eigvalsh"), _SOLVED),
    "ifft": "np.fft.ifft(np.eye(k)) @ ct, the matrix of it",
    "rfft": "np.fft.rfft(np.eye(k), axis=0) @ ct, the matrix of it",
    "fft2": "np.kron(np.fft.fft(np.eye(r)), np.fft.fft(np.eye(c))) @ ct.reshape(-1)",
    "fftshift": "ct.roll(k // 2), of k numbers", "ifftshift": "ct.roll(-(k // 2)), of k numbers",
    "ediff1d": "ct[1:] - ct[:-1]", "gradient": "np.gradient(np.eye(k), axis=0) @ ct",
    "trapezoid": "ct.dot(weights), the weights of the rule",
    **dict.fromkeys(("nonzero", "argwhere", "flatnonzero"), _FOUND),
    "count_nonzero": _COUNTED, "isin": "(x == a) | (x == b), a comparison for each value",
    **dict.fromkeys(("bincount", "digitize", "histogram2d"), "ckks.stats.histogram(ct, edges)"),
    **dict.fromkeys(("intersect1d", "setdiff1d", "union1d", "lexsort", "partition"), _IN_ORDER),
    "cumprod": "x1 * x2 * ...", "cumulative_sum": "ct.cumsum()", "nanmedian": _QUANTILE,
    "block": "ckks.concat([x, y])", "column_stack": _SIDE_BY_SIDE,
    "dstack": f"({_SIDE_BY_SIDE}).reshape(1, -1, 2)",
    **dict.fromkeys(("meshgrid", "ix_"), "x.reshape(-1, 1) and y.reshape(1, -1), which broadcast"),
    **dict.fromkeys(("diag", "diagflat"), "ct * np.eye(k), which broadcasts to a matrix"),
    "tril": "ct.mask(np.tril(np.ones(ct.shape)).ravel())",
    "triu": "ct.mask(np.triu(np.ones(ct.shape)).ravel())",
    **dict.fromkeys(("rot90", "fliplr", "flipud", "trim_zeros", "rev"), _BY_MATRIX),
    **dict.fromkeys(("moveaxis", "matrix_transpose", "permute_dims"), _TRANSPOSED),
    "atleast_3d": "ct.reshape(1, -1, 1)", "resize": "ckks.pad(ct, length)", "astype": _TYPED,
    **dict.fromkeys(("result_type", "can_cast", "min_scalar_type", "common_type"), "ct.dtype"),
    **dict.fromkeys(("shares_memory", "may_share_memory"), "x is y: ciphertexts never change"),
    **dict.fromkeys(("linspace", "arange"), "start + step * np.arange(k), with both encrypted"),
    **dict.fromkeys(("arctan2", "copysign"), "ckks.math, as inverse, sqrt and sign"),
    "hypot": "ckks.math.sqrt(x * x + y * y, interval=(a, b))",
    "angle": "decrypt() first", "heaviside": "ckks.math.greater(ct, 0)",
    "polyfit": "np.linalg.pinv(np.vander(w, 2)) @ ct",
    "vander": "ckks.stack([x, x**2, x**3]), a power a row; a polynomial is ckks.poly(ct, "
    "coefficients)",
    "unstack": "ckks.unstack(ct)", "hsplit": "ct[:k], ct[k:]", "vsplit": "ct[:k], ct[k:]",
    **dict.fromkeys(("iscomplex", "isreal"), "np.iscomplexobj(ct), np.isrealobj(ct)"),
    "real_if_close": "ct.real", "take_along_axis": _BY_MATRIX,
    "nanstd": "ckks.stats.std(ct, interval=(a, b))", "nanvar": "ct.var()",
    "nanmax": _LARGEST, "nanmin": _LARGEST.replace("max", "min"), "nanprod": _BY_SLICES,
    "nan_to_num": "ct itself: every encrypted number is finite", "nancumsum": "ct.cumsum()",
    **dict.fromkeys(("nanquantile", "nanpercentile"), _QUANTILE),
    **dict.fromkeys(("nanargmax", "nanargmin", "argpartition", "top_k"), _IN_ORDER),
    "logaddexp": "y + ckks.chebyshev(x - y, lambda d: np.logaddexp(d, 0), (a, b), degree)",
    "logaddexp2": "y + ckks.chebyshev(x - y, lambda d: np.logaddexp2(d, 0), (a, b), degree)",
    **dict.fromkeys(("broadcast_arrays", "broadcast", "broadcast_in_dim"), "ct + np.zeros(shape)"),
    "sliding_window_view": _WINDOWS, "slice": "ct[i:j]", "slice_in_dim": "ct[i:j]",
    "dynamic_index_in_dim": "ckks.unstack(ct)[i]", "convert_element_type": _TYPED,
    "segment_sum": "(np.arange(k)[:, None] == segments) @ ct, for k segments",
    "neg": "-ct", "rsqrt": "ckks.math.pow(ct, -0.5, interval=(a, b))", "integer_pow": "x ** k",
    "pow": "x ** k", "eq": "x == y", "ne": "x != y", "gt": "x > y", "ge": "x >= y",
    "lt": "x < y", "le": "x <= y", "floor": "x // 1", "ceil": "-(-x // 1)", "signbit": "x < 0",
    **dict.fromkeys(("trunc", "fix"), "x // 1 for numbers from 0 on, -(-x // 1) for others"),
    **dict.fromkeys(("deg2rad", "radians"), "ct * (np.pi / 180)"),
    **dict.fromkeys(("rad2deg", "degrees"), "ct * (180 / np.pi)"),
    **dict.fromkeys(("spacing", "nextafter", "frexp", "gcd", "lcm", "bitwise_count"), _DIGITS),
    "ldexp": "x * 2.0**k", "identity": "ct itself",
    "associative_scan": "jax.lax.associative_scan(operator.add, ct), or another function of them",
    **dict.fromkeys(("conv", "conv_general_dilated"), "ckks.conv1d(ct, kernel) or ckks.conv2d"),
}  # fmt: skip

# What to write for a method of a NumPy function, as `np.add.outer`.
SYMBOLS = {"add": "+", "subtract": "-", "multiply": "*"}
_METHODS = {
    "add.reduce": "ct.sum()", "add.accumulate": "ct.cumsum()", "multiply.reduce": _BY_SLICES,
    "add.reduceat": "matrix @ ct, of a matrix of zeros and ones that adds them",
    "maximum.reduce": INSTEAD["max"], "minimum.reduce": INSTEAD["min"],
    "logical_and.reduce": "ct.all()", "logical_or.reduce": "ct.any()",
    "add.at": "x + values, with zeros where nothing is added",
    "subtract.at": "x - values, with zeros where nothing is subtracted",
    "multiply.at": "x * values, with ones where nothing is multiplied",
    **{f"{name}.outer": f"x.reshape(-1, 1) {symbol} y.reshape(1, -1)"
       for name, symbol in SYMBOLS.items()},
}  # fmt: skip
_OTHER_METHODS = {
    "outer": "the function of x.reshape(-1, 1) and y.reshape(1, -1), which broadcast",
    "at": _ASSIGNED, "accumulate": "decrypt() first: only sums run along the slots, ct.cumsum()",
    "reduce": "the function of slices: of ct[:k] and ct[k:], and so on",
    "reduceat": "the function of slices: of ct[:k] and ct[k:], and so on",
}  # fmt: skip


def arguments_of(function: str) -> str:
    """The arguments of a function of `ckks.math`, as source."""
    if function in _OF_TRUTH:
        return "x, y"
    if function == "logical_not":
        return "x"
    return f"{'x, y' if function in _OF_TWO else 'ct'}, interval=(a, b)"


def instead_of(module: str, name: str, ct: str = "ct") -> str | None:
    """The code in place of a function of NumPy or JAX, "np" and "cbrt" for example.

    Args:
        module: its module.
        name: of the function, or of a method of it, "add.outer".
        ct: the name of the ciphertext in the code.

    Returns:
        The code and what it is, or None.
    """
    method = name.partition(".")[2]
    if method in _OTHER_METHODS:
        return _METHODS.get(name, _OTHER_METHODS[method])
    if name.endswith("(vectorized)"):
        return _AT_ONCE
    if name in INSTEAD:
        return INSTEAD[name]
    source = f"{module}.{name}" if name in _INTERPOLATED.get(module, ()) else None
    if name in _OF_PYTHON:
        source = f"np.vectorize(math.{_OF_PYTHON[name]})"
    return source and f"ckks.chebyshev({ct}, {source}, (a, b), degree), on an interval [a, b]"


def instead_in_ckks(name: str) -> str | None:
    """The code for a function that `ckks` or `ckks.math` lacks, by its name in NumPy or JAX."""
    if name in IN_MATH:
        return f"ckks.math.{IN_MATH[name]}({arguments_of(IN_MATH[name])})"
    found = (instead_of(module, name, "x") for module in ("np", "jax.nn", "jax.scipy.special"))
    return next(filter(None, found), None)


def _math(name: str) -> str:
    return f"ckks.math.{name}(ct, interval=(a, b))"


def rounded_to(factor: str) -> str:
    """The code for numbers rounded to multiples of 1 / factor."""
    return (
        f"ckks.math.round(ct * {factor}, interval=(a, b)) / {factor}, for ct * {factor} in [a, b]"
    )


def factor_of(decimals: int) -> str:
    """The factor, as source, that brings so many decimals before the point."""
    return f"{10**decimals}" if 0 <= decimals < 20 else f"1e{decimals}"


_DECRYPTED = {"tolist": ".tolist()", "item": ".item()", "numpy": "", "view": "", "data": ""}

_NAMES = "list(frame), the names of the columns, which are not encrypted: they stay with it"
_ALONE = "ckks.unstack(ct) for a batch, ct[i : i + 1] for one number"
_OTHERS = "the same for the array, ct.decrypt()"

# Methods that other libraries have as `add_` or `add_inplace`.
_IN_PLACE = {
    "add": "x + y", "sub": "x - y", "mul": "x * y", "multiply": "x * y", "square": "x * x",
    "neg": "-x", "negate": "-x", "pow": "x**k", "dot": "x.dot(y)", "sum": "x.sum()",
    "mm": "x @ M", "matmul": "x @ M", "polyval": "ckks.poly(x, coefficients)",
    "reshape": "x.reshape(...)", "rotate": "x.rotate(k)",
}  # fmt: skip

# What to write for attributes of arrays, lists, tables of pandas, and other libraries' ciphertexts.
ATTRIBUTES = {
    **INSTEAD,
    **{name: _math(name) for name in IN_MATH.values() if arguments_of(name)[0] == "c"},
    "round": f"{_math('round')}, to some decimals {rounded_to('10**decimals')}",
    **{name: "ct.decrypt()" for name in ("values", "to_numpy", "to_list", "dump", "tofile")},
    **{name: _NAMES for name in ("columns", "index", "keys", "loc", "rename")},
    **{name: _ALONE for name in ("iloc", "head", "tail", "items", "iterrows", "pop", "count")},
    **{name: _OTHERS for name in ("plot", "hist", "to_csv", "to_dict", "info", "groupby")},
    **{name: _IN_ORDER for name in ("nlargest", "value_counts", "sort_values", "rank", "idxmax")},
    **{name: _IN_ORDER for name in ("idxmin", "mode", "nunique", "sample")},
    **{f"__dlpack{name}__": "ct.decrypt()" for name in ("", "_device")},
    "describe": "ckks.stats.mean(ct) and its other functions",
    "corr": INSTEAD["corrcoef"], "cov": "ckks.stats.cov(x, y)",
    **dict.fromkeys(("fillna", "dropna"), "ctx.encrypt(values, nan=0)"),
    "isna": "np.isnan(values) before ctx.encrypt(values)", "between": "(x > a) & (x < b)",
    "shift": "ct.roll(k), with the numbers that come around", "rolling": "ckks.conv1d(ct, kernel)",
    **dict.fromkeys(("extend", "merge", "join"), INSTEAD["append"]), "replace": INSTEAD["where"],
    "flags": "ct.dtype and ct.shape",
    **dict.fromkeys(("sharding", "devices", "device"), "ct.polys[0].device"),
    **{name: f"ct.decrypt(){call}" for name, call in _DECRYPTED.items()},
    **dict.fromkeys(("mm", "dot_plain", "matmul_plain"), "ct @ M for a matrix M"),
    **dict.fromkeys(("mul_plain", "multiply_plain"), "x * values"),
    **dict.fromkeys(("add_plain", "plus"), "x + values"), "sub_plain": "x - values",
    **{f"{name}_": f"x = {code}" for name, code in _IN_PLACE.items()},
    **{f"{name}_inplace": f"x = {code}" for name, code in _IN_PLACE.items()},
    "dtypes": "ct.dtype", "is_transparent": "the TransparentWarning of it",
    **dict.fromkeys(("skew", "kurt", "kurtosis"), "d = ct - ct.mean(), and means of d**2, d**3"),
    "sem": "ckks.stats.std(ct, ddof=1, interval=(a, b)) / np.sqrt(ct.size)",
    **dict.fromkeys(("agg", "applymap"), _AT_ONCE), "at": _ASSIGNED, "fill": "ctx.encrypt(values)",
    **dict.fromkeys(("poly_modulus_degree", "coeff_count"), "ct.n"),
    **dict.fromkeys(("link_context", "context"), "ct.key_id; a live context is found by it"),
    "enc_matmul_plain": "ckks.conv2d(ct, kernel)", "bootstrapping": "ct.bootstrap()",
    "conv1d": "ckks.conv1d(ct, kernel)", "conv2d": "ckks.conv2d(ct, kernel)",
    "T": f"ct for a vector; for a matrix {INSTEAD['transpose']}",
    **dict.fromkeys(("mT", "H", "permute"), INSTEAD["transpose"]),
    "copy": "ct itself: it never changes", "tobytes": "ct.to_bytes()", "negate": "-ct", "neg": "-x",
    "block_until_ready": "ct.realize()", "strides": "ct.shape",
    "decode": "ct.decrypt()", "encrypt": "ctx.encrypt(values)",
    **dict.fromkeys(("to", "cuda", "gpu", "tpu"), "jax.device_put(ct, jax.devices()[0])"),
    "cpu": "ct.decrypt() for the numbers, jax.device_put(ct, jax.devices('cpu')[0]) for the "
    "ciphertext",
    "detach": "ct itself: it has no gradient", "unsqueeze": INSTEAD["expand_dims"],
    "expand": INSTEAD["broadcast_to"], "flat": INSTEAD["ravel"],
    "itemsize": "ct.nbytes, the bytes of all", "base": "ct.polys",
}  # fmt: skip
