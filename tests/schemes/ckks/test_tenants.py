"""Many owners on one jitted function: keys are inputs of its plan, which holds none of them."""

from __future__ import annotations

import gc
import pickle
import threading
import weakref
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import ren
from ren.core.errors import DonatedBufferError, TracedValueError
from ren.lowering.runtime import planning
from ren.lowering.runtime.tiers.plan_key import structure_digest
from ren.schemes import ckks
from tests.schemes.ckks.keys import keys_of

PARAMS = ckks.Parameters.for_depth(2, n=1 << 8, security=None)
VALUES = np.linspace(-1, 1, 8)
BAR = 1e-4


def owner(params: ckks.Parameters = PARAMS) -> ckks.Context:
    return ckks.context(params=params, rotations=[1])


class Tenant:
    """An owner elsewhere, its server here, and a ciphertext under its key."""

    def __init__(self, params: ckks.Parameters = PARAMS) -> None:
        self._owner = owner(params)
        self.server = ckks.load_server(self._owner.server().to_bytes())
        self.x = self._owner.encrypt(VALUES).realize()

    def decrypt(self, y: ckks.Ciphertext) -> np.ndarray:
        return self._owner.decrypt(y)


class Client:
    """Bytes and a ciphertext of a tenant whose contexts are all gone."""

    def __init__(self) -> None:
        made = owner()
        self.secret, self.blob = made.to_bytes(include_secret=True), made.server().to_bytes()
        self.x = pickle.loads(pickle.dumps(made.encrypt(VALUES)))


@pytest.fixture(scope="module")
def tenants() -> list[Tenant]:
    return [Tenant() for _ in range(3)]


def score(x: ckks.Ciphertext) -> ckks.Ciphertext:
    return x * x + x.rotate(1) - 0.5


WANT = VALUES**2 + np.append(VALUES[1:], 0) - 0.5


def counted(function: Callable[..., Any], **options: Any) -> tuple[Any, list[int]]:
    """A jitted function, and a list that grows each time that its Python code runs."""
    runs: list[int] = []

    def body(*args: Any) -> Any:
        runs.append(len(runs))
        return function(*args)

    return ren.jit(**options)(body), runs


def same(a: ckks.Ciphertext, b: ckks.Ciphertext) -> bool:
    return a.key_id == b.key_id and all(
        np.array_equal(p.limbs, q.limbs) for p, q in zip(a.polys, b.realize().polys, strict=True)
    )


# ------------------------------------------------------------------- one plan


@pytest.mark.parametrize(("tier", "count"), [("units", 5), ("graph", 5), ("auto", 100)])
def test_jit_captures_once_for_many_tenants(tier: str, count: int) -> None:
    owners = [owner() for _ in range(count)]
    f, runs = counted(score, tier=tier)
    for ctx in [*owners, *owners[:3]]:
        x = ctx.encrypt(VALUES)
        made = f(x)
        assert made.key_id == ctx.key_id
        assert np.abs(ctx.decrypt(made) - WANT).max() < BAR
    info = f.cache_info()
    assert (len(runs), info.misses, info.plans, info.hits) == (1, 1, 1, count + 2)


def test_replays_equal_eager_runs_bit_for_bit(tenants: list[Tenant]) -> None:
    f = ren.jit(score)
    for t in [*tenants, *tenants]:
        assert same(f(t.x), score(t.x))
    assert f.cache_info().plans == 1


@pytest.mark.long
@pytest.mark.parametrize("native", ["auto", False])
def test_eager_programs_of_tenants_share_one_plan(tenants: list[Tenant], native: Any) -> None:
    with ren.config.update(native=native):
        score(tenants[0].x).realize()
        count = len(planning.kept_programs)
        for t in tenants:
            assert np.abs(t.decrypt(score(t.x).realize()) - WANT).max() < BAR
        assert len(planning.kept_programs) == count


def test_the_pattern_of_ids_is_part_of_the_key(tenants: list[Tenant]) -> None:
    a, b, c = tenants
    f, runs = counted(lambda x, y: (x * x, y.rotate(1)))
    for s, t in ((a, b), (b, c), (c, a)):
        x, y = f(s.x, t.x)
        assert same(x, s.x * s.x) and same(y, t.x.rotate(1))
    assert len(runs) == 1
    for t in tenants:
        x, y = f(t.x, t.x)
        assert same(x, t.x * t.x) and same(y, t.x.rotate(1))
    assert len(runs) == 2


def test_other_parameters_have_another_plan(tenants: list[Tenant]) -> None:
    other = Tenant(ckks.Parameters.for_depth(1, n=1 << 8, security=None))
    f, runs = counted(score)
    for t in (tenants[0], other, tenants[1], other):
        assert np.abs(t.decrypt(f(t.x)) - WANT).max() < BAR
    assert len(runs) == 2


def test_digests_of_plans_are_those_of_every_tenant(tenants: list[Tenant]) -> None:
    digests = set()
    for t in tenants[:2]:
        f = ren.jit(score)
        f(t.x)
        digests.add(structure_digest(f.plans[0].plan))
    assert len(digests) == 1


# ------------------------------------------------------------------- what is checked at each call


def test_two_ids_in_one_operation_raise_at_each_call(tenants: list[Tenant]) -> None:
    a, b, _ = tenants
    f, runs = counted(lambda x, y: x * y)
    f(a.x, a.x), f(b.x, b.x)
    assert len(runs) == 1
    for _ in range(2):
        with pytest.raises(ckks.ContextError) as caught:
            f(a.x, b.x)
        with pytest.raises(ckks.ContextError) as eager:
            a.x * b.x
        assert str(caught.value) == str(eager.value) and a.x.key_id[:8] in str(caught.value)
    assert same(f(b.x, b.x), b.x * b.x) and f.cache_info().plans == 1


def test_missing_keys_raise_at_a_replay_as_without_jit(tenants: list[Tenant]) -> None:
    rotations = [1, 2, 4]
    made = ckks.context(params=PARAMS, rotations=rotations)
    f = ren.jit(lambda x: x.sum() * x)
    f(made.encrypt(VALUES))
    poor = ckks.context(params=PARAMS)
    x, server = poor.encrypt(VALUES), poor.server(rotations=[2])
    for _ in range(2):
        with server, pytest.raises(ckks.MissingKeyError) as caught:
            f(x)
        with server, pytest.raises(ckks.MissingKeyError) as eager:
            x.sum() * x
        assert str(caught.value) == str(eager.value)
        assert "rotation by 1, 4" in str(caught.value)
    alone = poor.server(rotations=[1, 2, 4, 8, 16, 32, 64], relinearization=False)
    with alone, pytest.raises(ckks.MissingKeyError, match="relinearization key"):
        f(x)
    assert f.cache_info().plans == 1


def test_a_replay_uses_keys_that_come_later() -> None:
    first, second = owner(), Client()
    f, runs = counted(lambda x: x.rotate(1))
    f(first.encrypt(VALUES))
    server = ckks.load_server(second.blob)
    bare = server.server(rotations=[])
    del server
    gc.collect()
    with pytest.raises(ckks.MissingKeyError, match="rotation by 1"):
        f(second.x)
    before = len(runs)
    bare.adopt(ckks.load_server(second.blob))
    made = f(second.x)
    mine = ckks.load_context(second.secret, include_secret=True)
    assert np.abs(mine.decrypt(made) - np.append(VALUES[1:], 0)).max() < BAR
    assert len(runs) == before and f.cache_info().plans == 1


def test_an_owner_makes_its_keys_at_a_replay() -> None:
    f, runs = counted(lambda x: x.rotate(3))
    for _ in range(3):
        ctx = ckks.context(params=PARAMS)
        want = np.append(VALUES[3:], [0, 0, 0])
        assert np.abs(ctx.decrypt(f(ctx.encrypt(VALUES))) - want).max() < BAR
        assert len(keys_of(ctx.server()).galois) == 1
    assert len(runs) == 1


def test_the_active_context_counts_at_each_call(tenants: list[Tenant]) -> None:
    a, b, _ = tenants
    f = ren.jit(score)
    with a.server:
        f(a.x)
        with pytest.raises(ckks.ContextError, match="is active"):
            f(b.x)
    with b.server:
        assert same(f(b.x), score(b.x))
        with pytest.raises(ckks.ContextError, match=f"{a.x.key_id[:8]} while {b.x.key_id[:8]}"):
            f(a.x)
    assert f.cache_info().plans == 1
    total = ren.jit(lambda x: x + x)  # needs no key, so that no context is asked for
    with a.server:
        assert same(total(b.x), b.x + b.x)


def test_servers_among_the_arguments_share_one_plan(tenants: list[Tenant]) -> None:
    def within(server: ckks.Context, x: ckks.Ciphertext) -> ckks.Ciphertext:
        with server:
            return score(x)

    f, runs = counted(within)
    for t in [*tenants, *tenants]:
        assert same(f(t.server, t.x), score(t.x))
    assert len(runs) == 1 and f.cache_info().plans == 1
    a, b, _ = tenants
    for _ in range(2):
        with pytest.raises(ckks.ContextError) as caught:
            f(a.server, b.x)
        with pytest.raises(ckks.ContextError) as eager:
            within(a.server, b.x)
        assert str(caught.value) == str(eager.value)
    with pytest.raises(ckks.MissingKeyError, match="rotation by 1"):
        f(a.server.server(rotations=[]), a.x)
    assert same(ren.djit(within)(a.server, a.x), score(a.x))
    assert same(jax.jit(within)(a.server, a.x), score(a.x))
    assert ren.xpr(f, a.server, a.x) == ren.xpr(f, b.server, b.x)
    with pytest.raises(ckks.ContextError, match="returned a context"):
        ren.jit(lambda s, x: (s, x * x))(a.server, a.x)
    assert f.cache_info().plans == 1
    server, chain = ren.realize(a.server), keys_of(a.server)
    assert server.key_id == a.server.key_id and keys_of(server).identity == chain.identity
    assert keys_of(server).relinearization.seed == chain.relinearization.seed


# ------------------------------------------------------------------- nothing is held


@pytest.mark.long
def test_plans_hold_no_keys_of_a_tenant_that_is_gone() -> None:
    keep, client = owner(), Client()
    f, g = ren.jit(score), ren.jit(tier="units")(lambda x: x * x.key_id.count(x.key_id))
    h = ren.jit(lambda server, x: x.rotate(1))
    for first in (True, False):
        server = ckks.load_server(client.blob)
        chain, arrays = keys_of(server), []
        arrays = [weakref.ref(p.limbs) for p in chain.relinearization.halves]
        gone = [weakref.ref(server), weakref.ref(chain), *arrays]
        if not first:
            f(keep.encrypt(VALUES))
        f(client.x), g(client.x), h(server, client.x)
        del server, chain
        gc.collect()
        assert [ref() for ref in gone] == [None] * len(gone)
        for _ in range(2):
            with pytest.raises(ckks.ContextError, match="none is active or alive"):
                f(client.x)
    assert f(keep.encrypt(VALUES)).key_id == keep.key_id


def test_arrays_of_a_keychain_that_was_replaced_are_let_go() -> None:
    ctx = ckks.context(params=PARAMS)
    f = ren.jit(score)
    f(ctx.encrypt(VALUES))
    old = weakref.ref(keys_of(ctx.server())), weakref.ref(ctx._keys)
    ctx.rotation_keys([5])
    f(ctx.encrypt(VALUES))
    gc.collect()
    assert [ref() for ref in old] == [None, None]


# ------------------------------------------------------------------- ids that a function needs


def test_a_function_that_reads_key_ids_has_a_plan_for_each(tenants: list[Tenant]) -> None:
    weights = {t.x.key_id: float(i + 1) for i, t in enumerate(tenants)}
    f, runs = counted(lambda x: x.rotate(1) * weights[x.key_id] + int(x.key_id[:2], 16) / 1000)
    for _ in range(2):
        for i, t in enumerate(tenants):
            want = np.append(VALUES[1:], 0) * (i + 1) + int(t.x.key_id[:2], 16) / 1000
            made = f(t.x)
            assert np.abs(t.decrypt(made) - want).max() < BAR
            assert type(made.key_id) is str
    assert f.cache_info().plans == 3 and len(runs) == 4  # one capture found that it reads the id


@pytest.mark.parametrize("reads", [
    lambda k: k == "0", lambda k: f"{k}", str, len, lambda k: k + "!", lambda k: k in ("0", "1"),
    hash, lambda k: k.encode(), bool, list, repr, lambda k: f"{k!r}", "{}".format,
    lambda k: k.startswith("0"),
])  # fmt: skip
def test_every_use_of_a_key_id_is_seen(tenants: list[Tenant], reads: Callable[..., Any]) -> None:
    seen: list[Any] = []

    def f(x: ckks.Ciphertext) -> ckks.Ciphertext:
        seen.append(reads(x.key_id))
        return x + x

    jitted = ren.jit(f)
    for t in tenants[:2]:
        assert same(jitted(t.x), t.x + t.x)
    assert seen == [reads(t.x.key_id) for t in tenants[:2]] and jitted.cache_info().plans == 2


def test_what_a_function_closes_over_is_for_its_owner(tenants: list[Tenant]) -> None:
    a, b, _ = tenants
    weight = a.x
    f = ren.jit(lambda x: x * weight)
    for _ in range(2):
        assert same(f(a.x), a.x * a.x)
        with pytest.raises(ckks.ContextError, match="two contexts"):
            f(b.x)


def test_contexts_that_a_function_enters_or_calls(tenants: list[Tenant]) -> None:
    a, b = owner(), owner()
    x, y = a.encrypt(VALUES), b.encrypt(VALUES)
    server = a.server()

    @ren.jit
    def entered(x: ckks.Ciphertext) -> ckks.Ciphertext:
        with server:
            return x * x

    switched = ren.jit(lambda x: a.switch_key(x * x, b))
    added = ren.jit(lambda x: x * a.encrypt(1.0))
    for _ in range(2):
        assert same(entered(x), x * x)
        made = switched(x)
        assert made.key_id == b.key_id and np.abs(b.decrypt(made) - VALUES**2).max() < BAR
        assert np.abs(a.decrypt(added(x)) - VALUES).max() < BAR
        for f, match in ((entered, "is active"), (switched, "two c"), (added, "two c")):
            with pytest.raises(ckks.ContextError, match=match):
                f(y)


def test_ids_among_the_results_are_those_of_the_call(tenants: list[Tenant]) -> None:
    f, runs = counted(lambda x: (x, [x.key_id], x + x))
    for t in tenants:
        x, key_ids, _ = f(t.x)
        assert x.key_id == key_ids[0] == t.x.key_id and type(x.key_id) is type(key_ids[0]) is str
    assert len(runs) == 1
    by_id = ren.jit(lambda x: {x.key_id: x + x})
    for t in tenants:
        made = pickle.loads(pickle.dumps(list(by_id(t.x))))
        assert made == [t.x.key_id] and type(made[0]) is str


def test_what_leaks_from_a_capture_raises(tenants: list[Tenant]) -> None:
    leaked: list[ckks.Ciphertext] = []

    @ren.jit
    def f(x: ckks.Ciphertext) -> ckks.Ciphertext:
        leaked.append(x)
        return x.rotate(1)

    x = tenants[0].x
    f(x)
    for use in (
        lambda y: y.key_id == "0", lambda y: (x * y).realize(), lambda y: (y * y).realize(),
        lambda y: y.decrypt(), lambda y: ren.jit(lambda x: x * y)(x), lambda y: f"{y.key_id}",
    ):  # fmt: skip
        with pytest.raises(TracedValueError):
            use(leaked[0])
    assert same(f(x), x.rotate(1))


# ------------------------------------------------------------------- with the rest of Ren


def test_two_threads_replay_two_tenants_at_once(tenants: list[Tenant]) -> None:
    f, runs = counted(score)
    want = {id(t): score(t.x).realize() for t in tenants}
    failures: list[Any] = []
    start = threading.Barrier(len(tenants))

    def serve(t: Tenant) -> None:
        try:
            start.wait()
            failures.extend(i for i in range(30) if not same(f(t.x), want[id(t)]))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=serve, args=(t,)) for t in tenants]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and len(runs) == 1


def test_jax_transformations_of_tenants(tenants: list[Tenant]) -> None:
    f = ren.jit(score)
    jitted = jax.jit(f)
    for t in tenants:
        assert same(jitted(t.x), score(t.x))
        batch = ckks.stack([t.x, t.x + t.x])
        mapped = jax.vmap(f)(batch)
        assert mapped.key_id == t.x.key_id
        want = np.stack([WANT, 4 * VALUES**2 + 2 * np.append(VALUES[1:], 0) - 0.5])
        assert np.abs(t.decrypt(mapped) - want).max() < BAR
        assert same(f(batch), score(batch))
    assert f.cache_info().misses == 1


@pytest.mark.parametrize("device", ["cpu", "python"])
def test_device_of_the_call_is_that_of_the_keys(tenants: list[Tenant], device: str) -> None:
    f, runs = counted(score, device=device)
    for t in tenants:
        made = f(t.x)
        assert same(made, score(t.x))
        assert (made.polys[0].device == "python") == (device == "python")
    assert len(runs) == 1
    assert [t.x.polys[0].device == "python" for t in tenants] == [False] * 3


def test_keys_on_several_devices_have_a_plan_for_each_place(tenants: list[Tenant]) -> None:
    f, runs = counted(score)
    over = jax.sharding.NamedSharding(
        jax.sharding.Mesh(np.array(jax.devices()[:1]), ("all",)), jax.sharding.PartitionSpec()
    )
    servers = [jax.device_put(tenants[0].server, over), tenants[1].server, tenants[2].server]
    for _ in range(3):
        for t, server in zip(tenants, servers, strict=True):
            with server:
                assert same(f(t.x), score(t.x))
    assert len(runs) == 2
    assert f.cache_info() == ren.CacheInfo(7, 2, 2, 16, 0)


def test_donated_ciphertexts_leave_the_keys(tenants: list[Tenant]) -> None:
    f, runs = counted(lambda x: x.rotate(1) + x, donate_argnames="args")
    for t in tenants[:2]:
        want = (t.x.rotate(1) + t.x).realize()
        for _ in range(2):
            given = pickle.loads(pickle.dumps(t.x))
            assert same(f(given), want)
            with pytest.raises(DonatedBufferError):
                given.realize()
    assert len(runs) == 1


def test_prune_computes_nothing_of_a_tenant(tenants: list[Tenant]) -> None:
    f, runs = counted(score, prune=True)
    for t in tenants:
        assert same(f(t.x), score(t.x))
    assert len(runs) == 1 and f.plans[0].memory.pruned_bytes == 0


def test_ciphertexts_from_elsewhere_replay(tenants: list[Tenant]) -> None:
    f, runs = counted(score)
    for t in tenants:
        x = pickle.loads(pickle.dumps(t.x))
        assert same(f(x), score(t.x))
    assert len(runs) == 1


def test_manual_mode_and_djit(tenants: list[Tenant]) -> None:
    f, runs = counted(lambda x: (x * x).relinearize().rescale())
    for t in tenants:
        with ckks.manual():
            assert same(f(t.x), (t.x * t.x).relinearize().rescale())
        assert same(ren.djit(score)(t.x), score(t.x))
    assert len(runs) == 1
    with ren.config.update(jit=False):
        assert same(ren.jit(score)(tenants[1].x), score(tenants[1].x))


# ------------------------------------------------------------------- what is printed


def test_keys_are_named_and_never_printed(tenants: list[Tenant]) -> None:
    a, b, _ = tenants
    f = ren.jit(score)
    f(a.x)
    plan = f.plans[0]
    keys = keys_of(a.server)
    halves = [*keys.relinearization.b, *keys.relinearization.a]
    halves += [p for key in keys.galois.values() for p in (*key.b, *key.a)]
    nbytes = sum(p.limbs.nbytes for p in halves)
    assert f"{len(halves)} keys, read at each call" in plan.explain()
    assert plan.memory.key_bytes == nbytes and plan.memory.held_bytes == 0
    assert "keys" in str(plan.memory) and "key" in plan.to_mermaid()
    text = ren.xpr(score, a.x)
    assert text == ren.xpr(score, b.x) == ren.xpr(f, a.x)
    assert "= KEY[relinearization b0]" in text and "= KEY[galois 5 a0]" in text
    for shown in (text, plan.explain(), repr(plan), plan.to_dot(), ren.stages(f, a.x)["capture"]):
        assert a.x.key_id[:8] not in shown and keys.relinearization.seed.hex()[:8] not in shown
    assert "key=galois 5 b0" in ren.stages(f, a.x)["capture"]
