"""`ckks.testing`: the same randomness every time, through the code of production, and INSECURE."""

from __future__ import annotations

import ast
from pathlib import Path

import attrs
import numpy as np
import pytest

from ren import sampling
from ren.core.errors import RandomnessError
from ren.schemes import ckks
from tests.schemes.ckks.keys import keys_of

N = 1 << 10
PACKAGE = Path(ckks.__file__).parents[2]
ONES = np.ones(3)


def made(seed: bytes = b"a seed") -> ckks.Context:
    return ckks.testing.context(seed, 1, n=N)


def everything(ctx: ckks.Context) -> list[bytes]:
    """All that a context draws, in one order."""
    x = ctx.encrypt(ONES)
    made = x, ctx.public().encrypt(ONES), x.rotate(1), x * x
    limbs = [np.asarray(p.limbs).tobytes() for c in made for p in c.realize().polys]
    return [*limbs, ctx.conjugation_key().server().to_bytes(), ctx.public().to_bytes()]


def test_all_of_it_depends_on_the_seed_alone():
    first, again, other = everything(made()), everything(made()), everything(made(b"another"))
    assert first == again
    assert not set(first) & set(other)
    secrets = [keys_of(ctx).require_secret().coefficients for ctx in (made(), made(b"another"))]
    assert not np.array_equal(*secrets)


def test_draws_follow_one_another_and_decrypt():
    ctx = made()
    x, y = ctx.encrypt(ONES), ctx.encrypt(ONES)
    assert x.to_bytes() != y.to_bytes()
    np.testing.assert_allclose((x * y + x.rotate(1)).decrypt(), [2, 2, 1], atol=2**-15)


def test_it_is_the_sampler_of_production_that_draws():
    stream = sampling.Xof(b"a seed", b"ren/ckks/testing")
    want = sampling.ternary(sampling.Xof(stream.read(32), b"ren/rlwe/ternary"), N)
    ctx = made()
    assert ctx.encrypt(ONES).seed == stream.read(32)  # keys are derived from the secret
    np.testing.assert_array_equal(keys_of(ctx).require_secret().coefficients, want)


def test_insecure_is_said_everywhere_also_at_secure_sizes():
    secure = ckks.Parameters.for_depth(1)
    assert not secure.is_insecure
    ctx = ckks.testing.context(b"a seed", params=secure)
    x = ctx.encrypt(ONES)
    loaded = ckks.Context.from_bytes(ctx.to_bytes(include_secret=True), include_secret=True)
    for said in (
        *(ctx, ctx.params, ctx.server(), ctx.public(), loaded, x, ctx.encode(ONES)),
        ckks.Ciphertext.from_bytes(x.to_bytes()), ckks.load_server(ctx.server().to_bytes()),
    ):  # fmt: skip
        assert "INSECURE" in repr(said)
    for data in (x.to_bytes(), ctx.server().to_bytes(), ctx.to_bytes(include_secret=True)):
        assert b'"security":"INSECURE"' in data
    with pytest.raises(ckks.InsecureParametersError, match="known seed"):
        attrs.evolve(ctx.params, security=128)
    assert not ctx.params.compatible(secure)


def test_what_is_loaded_draws_from_the_operating_system():
    ctx = made()
    loaded = ckks.Context.from_bytes(ctx.to_bytes(include_secret=True), include_secret=True)
    drawn = [c.encrypt(ONES).seed for c in (ctx, loaded, loaded)]
    assert len(set(drawn)) == 3 and made().encrypt(ONES).seed == drawn[0]
    fresh = [ckks.context(params=ctx.params) for _ in range(2)]
    assert len({ctx.key_id, *(c.key_id for c in fresh)}) == 3


@pytest.mark.parametrize("seed", [b"", "text", None, 7])
def test_a_seed_is_bytes(seed):
    with pytest.raises(RandomnessError, match="non-empty bytes"):
        ckks.testing.context(seed)


def test_nothing_in_the_library_uses_it():
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {
            f"{getattr(node, 'module', '')}.{alias.name}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        users = {name for name in names if "ckks.testing" in name}
        assert not users or path == PACKAGE / "schemes" / "ckks" / "__init__.py", path
