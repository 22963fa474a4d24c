"""`dir()` of what users hold: names of the pages and the reference, and no others."""

from __future__ import annotations

import numpy as np
import pytest

import ren
from ren.schemes import ckks

BYTES = ["from_bytes", "load", "save", "to_bytes"]
NAMES = {
    ckks.Context: [
        "adopt", "bootstrapping_keys", "conjugation_key", "decode", "decrypt", "decrypt_shared",
        "encode", "encrypt", "key_id", "params", "public", "rank", "relinearization_key",
        "rotation_keys", "server", "slots", "switch_key", "switching_key", *BYTES,
    ],
    ckks.Ciphertext: [
        "all", "any", "bootstrap", "compress", "conj", "cumsum", "decrypt", "degree", "dot",
        "drop_to", "dtype", "estimate", "imag", "key_id", "level", "mask", "mean", "n", "nbytes",
        "ndim", "params", "polys", "real", "realize", "relinearize", "rescale", "reshape", "ring",
        "roll", "rotate", "scale", "shape", "size", "slots", "sum", "tile", "var", "within", *BYTES,
    ],
    ckks.Plaintext: ["level", "nbytes", "params", "poly", "scale", "slots", *BYTES],
    ckks.Parameters: [
        "bootstrapping", "bound", "ciphertext_nbytes", "compatible", "depth", "digest", "digits",
        "dnum", "for_bootstrapping", "for_depth", "from_dict", "integer_bits", "is_insecure",
        "key_nbytes", "log_qp", "moduli_to", "n", "plot", "preset", "ring", "scale", "scale_bits",
        "scales", "secret", "security", "security_bits", "security_margin", "sigma", "slots",
        "specials", "strict", "to_dict", *BYTES,
    ],
    ckks.Estimate: ["bits", "error_bound", "message_bound", "offset", "variance"],
    ckks.Precision: [
        "errors", "estimated_bits", "largest_error", "level", "median_bits", "plot", "rms_error",
        "worst_bits", "worst_slot",
    ],
    ckks.Requirements: [
        "bootstraps", "conjugation_level", "depth", "key_bytes", "keys", "limb_ntts",
        "needs_conjugation", "needs_products", "params", "peak_bytes", "rotation_levels",
        "rotations", "seconds",
    ],
    ckks.LinearMap: [
        "is_complex", "level", "nbytes", "needs_conjugation", "rotations", "shape", *BYTES,
    ],
    ckks.Approximation: [
        "bits", "coefficients", "degree", "depth", "error", "interval", "relinearizations",
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def objects(ctx) -> list[object]:
    x = ctx.encrypt([1.0, 2.0])
    return [
        ctx, x, ctx.encode([1.0]), ctx.params, x.estimate, ckks.precision(x, [1, 2]),
        ren.plan(lambda x: x + x, ckks.spec(3)), ckks.linear([[1.0, 2.0]], ctx),
        ckks.approximate(np.exp, (0, 1), degree=3),
    ]  # fmt: skip


def public(value: object) -> list[str]:
    return [name for name in dir(value) if not name.startswith("_")]


def test_dir_lists_the_names_for_users(objects):
    assert [type(value) for value in objects] == list(NAMES)
    for value in objects:
        assert public(value) == sorted(NAMES[type(value)]), type(value)


def test_internal_names_are_attributes_all_the_same(objects):
    internal = {
        f"{type(value).__name__}.{name}"
        for value in objects
        for kind in type(value).__mro__
        for name in vars(kind).get("__internal__", ())
        if hasattr(value, name)
    }
    assert {"Ciphertext.noise", "Plaintext.factor", "Parameters.path"} <= internal
    assert len(internal) == 13 + 6 + 7 + 4 + 6


def test_no_private_name_of_a_key_is_shown(ctx):
    key = ctx.relinearization_key()
    assert public(key) == ["nbytes", "saved_nbytes"] and key.halves == key.b
