"""Words for arguments that functions of CKKS lack, by their names in OpenFHE, SEAL, NumPy, ..."""

from __future__ import annotations

_DEPTH = "Write depth=, the number of products in a row: it fixes the moduli."
_SCALE = "Write scale_bits= of ckks.context, the log2 of the scale."
_RING = "Write n=, the ring degree; without it, it is the least that is secure."
_SLOTS = "Write slots= of ckks.context."
_SEED = (
    "Leave it out: keys and noise are drawn from the operating system. For tests write "
    "ckks.testing.context(seed)."
)
_TYPE = "Convert the numbers first, np.asarray(values, dtype)."
_INTERVAL = "Write interval=(a, b), where the numbers lie."
_KEYS = "Leave it out: a context has its keys, and makes others where they are first used."
_EDGES = "Pass edges=np.linspace(a, b, 11)."  # as the words for "+edges"
_DDOF = "Write ddof=1 for the unbiased one, ddof=0 for the other."

# By the name of an argument, or by "function.name" for one function alone. By "+name": an example
# of an argument that is missing.
INSTEAD = {
    **dict.fromkeys(("scale", "global_scale", "scaling_mod_size", "scale_mod_size"), _SCALE),
    **dict.fromkeys(("log_scale", "default_scale", "log_default_scale"), _SCALE),
    **dict.fromkeys(("poly_modulus_degree", "ring_dim", "ring_dimension", "ring_degree"), _RING),
    "log_n": "Write n=2**log_n, the ring degree.", "logn": "Write n=2**log_n, the ring degree.",
    **dict.fromkeys(("coeff_mod_bit_sizes", "coeff_modulus", "coeff_mod_bits"), _DEPTH),
    **dict.fromkeys(("multiplicative_depth", "mult_depth", "max_level", "levels", "log_q"), _DEPTH),
    **dict.fromkeys(("batch_size", "slot_count", "num_slots"), _SLOTS),
    **dict.fromkeys(("security_level", "sec_level"), "Write security=128, 192 or 256."),
    "num_large_digits": "Write ckks.context(params=ckks.Parameters.for_depth(depth, dnum=3)).",
    "context.dnum": "Write ckks.context(params=ckks.Parameters.for_depth(depth, dnum=3)).",
    "scheme": "Leave it out: it is CKKS.", "scheme_type": "Leave it out: it is CKKS.",
    "first_mod_size": "Write integer_bits=, the bits above the scale at level 0.",
    **dict.fromkeys(("galois_keys", "rotation_keys", "steps_list"), "Write rotations=[1, 2]."),
    **dict.fromkeys(("seed", "rng", "random_state"), _SEED),
    **dict.fromkeys(("key", "secret_key", "public_key", "sk", "pk", "relin_keys"), _KEYS),
    **dict.fromkeys(("encrypt.dtype", "encode.dtype"), _TYPE),
    **dict.fromkeys(("correction", "bias", "unbiased"), _DDOF),
    "rowvar": "Leave it out: each column of a table is a variable, as with rowvar=False.",
    **dict.fromkeys(("bins", "quantile.method"), _EDGES),
    "histogram.range": _EDGES,
    **dict.fromkeys(("range", "domain", "bounds", "lower_bound"), _INTERVAL),
    "concat.axis": "Leave it out: the first axis is joined. For a new one write ckks.stack([x, "
    "y]).",
    "concat.dim": "Leave it out: the first axis is joined. For a new one write ckks.stack([x, y]).",
    "stack.axis": "Leave it out: the new axis is the first.",
    "mode": 'Write padding="same" or padding="valid"; padding=len(kernel) - 1 for mode="full".',
    "linear.bias": "Add it to the product: m @ x + bias.",
    "conv1d.bias": "Add it to the result.", "conv2d.bias": "Add it to the result.",
    "maxiter": "Write max_steps=.", "max_iter": "Write max_steps=.",
    "tol": "Write precision=, in bits.", "rtol": "Write precision=, in bits.",
    "debug.atol": "Write tolerance=.", "debug.tol": "Write tolerance=.",
    "linear_regression.n_iter": "Write steps=.",
    **dict.fromkeys(("learning_rate", "lr", "alpha"), "Write rate=."),
    "+interval": "interval=(a, b)", "+max_steps": "max_steps=10", "+queries": "queries=10",
    "+edges": "edges=np.linspace(a, b, 11)", "+plan": "plan=f(x).estimate of your own x",
    "+steps": "steps=3", "+rate": "rate=0.5", "+q": "q=0.5",
}  # fmt: skip

# For attributes of a context and of parameters that users of other libraries assign.
OF_CONTEXTS = {
    "global_scale": "Write ckks.context(depth=4, scale_bits=40): the scale is that of a context.",
    **dict.fromkeys(
        ("auto_rescale", "auto_relin", "auto_mod_switch"),
        "Rescaling, relinearization and alignment are automatic; in `with ckks.manual():` none is.",
    ),
    **dict.fromkeys(
        ("slots", "bound", "strict"),
        "Make another one, with keys of its own: ckks.context(params=ctx.params, slots=..., "
        "bound=..., strict=...).",
    ),
    **dict.fromkeys(
        ("depth", "n", "scale_bits", "security", "integer_bits", "sigma"),
        "Make another one, with keys of its own: ckks.context(depth=4, scale_bits=40, n=..., "
        "security=...).",
    ),
    "scale": "Write ckks.context(depth=4, scale_bits=40).",
    "params": "Make another one, ckks.context(params=...), with keys of its own.",
}  # fmt: skip

# For attributes that parameters lack.
OF_PARAMETERS = {
    "poly_modulus_degree": "ctx.params.n", "ring_dimension": "ctx.params.n", "N": "ctx.params.n",
    "level": "ctx.params.depth", "max_level": "ctx.params.depth", "levels": "ctx.params.depth",
    "multiplicative_depth": "ctx.params.depth", "batch_size": "ctx.params.slots",
    "slot_count": "ctx.params.slots", "global_scale": "ctx.params.scale(level)",
    "default_scale": "ctx.params.scale(level)", "coeff_modulus": "ctx.params.moduli_to()",
    "moduli": "ctx.params.moduli_to()", "q": "ctx.params.ring(level).q",
}  # fmt: skip
