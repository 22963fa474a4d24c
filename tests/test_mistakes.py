"""Mistakes that a newcomer makes: each raises an error that says what, why and the mend.

The table's form is that of `tests.mistakes`; wrong arguments of CKKS are in test_arguments.py.
"""

from __future__ import annotations

import dataclasses
import pickle
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ren
from ren import errors
from ren.schemes import ckks
from tests.mistakes import Mistake, check, mistakes

TABLE = """
n is no power of two | RingError | n=12; power of two; 8 or 16
    RingSpec(n=12, moduli=(17,))
a modulus is no prime | RingError | 15; prime; 17
    RingSpec(n=8, moduli=(15,))
float coefficients | CoefficientTypeError | 0.5; integers; round
    Poly([0.5, 1], ring)
coefficients in a word | CoefficientTypeError | 'abc'; list or an array of integers
    Poly("abc", ring)
rows of two lengths | CoefficientTypeError | list; rows of one length
    Poly([[1, 2], [3]], ring)
a masked array | CoefficientTypeError | masked array; filled(0)
    Poly(np.ma.array([1, 2], mask=[0, 1]), ring)
too many coefficients | CoefficientError | 9 coefficients; n = 8; larger degree
    Poly(range(9), ring)
a number for the ring | RingError | int; ren.RingSpec
    Poly([1, 2], 17)
a polynomial of one of another ring | RingMismatchError | p.to_ring(ring); Poly(p.tolist(), ring)
    ren.Poly(ren.Poly([1], ren.RingSpec(8, (113,))), ren.RingSpec(8, (97,)))
an entry of a batch is assigned | OperandError | assigns to; np.stack([*p[:i], other, *p[i + 1 :]])
    batch = Poly([[1], [2]], ring)
    batch[0] = p
no inverse of a constant | RingError | a polynomial that has none.; Modulo 17
    Poly.const(17, ring).inverse()
no moduli to rescale to | RingMismatchError | One modulus stays; x.rescale(x.ring.moduli[:-1])
    p.rescale(())
a number that is captured at each call | JitError | ren.djit got an int; @ren.djit
    ren.djit(3)
a format of a polynomial | OperandError | formats a polynomial by '>60'; f'{p!r:>60}'
    f"{p:>60}"
a set of moduli | RingError | {17, 97}; moduli=(17, 97)
    ren.RingSpec(8, {17, 97})
two rings in one sum | RingMismatchError | 97; 113; to_ring
    p + Poly([1], RingSpec(n=8, moduli=(113,)))
polynomials of two degrees | RingMismatchError | n=8; n=16; [1 limb]; both with one n
    p + Poly([1], RingSpec(n=16, moduli=(97,)))
a polynomial to the power of a traced number | TracedValueError | traced by JAX; static_argnums
    jax.lax.fori_loop(0, 3, lambda i, c: c**i, p)
a traced step of a rotation | TracedValueError | traced by JAX; static_argnums
    jax.jit(lambda a, k: a.rotate(k))(p, 1)
an array of JAX with a float | CoefficientTypeError | poly *; Poly(coefficients, ring)
    p * jnp.float32(0.5)
equal to a number | CoefficientTypeError | ren.equal got int; p.tolist()
    ren.equal(p, 1)
a basis that is no list | RingError | moduli=None; tuple of primes
    p.rescale(None)
a Gaussian of a word | RandomnessError | sigma='wide'; sigma lies in
    Poly.gaussian(ring, sigma="wide")
positions for static_argnames | JitError | static_argnames=1; not their positions
    ren.jit(static_argnames=1)(lambda a, k: a)
names for static_argnums | JitError | static_argnums='k'; not their names; static_argnums=1
    ren.jit(static_argnums="k")(lambda a, k: a)
a position that is none | JitError | static_argnums=(0, 2); 0 to 1; Leave out 2
    ren.jit(static_argnums=(0, 2))(lambda a, k, *more: a)
static=False | JitError | 'static'; static_argnames=; @ren.djit
    ren.jit(lambda a: a, static=False)
fun=f | JitError | 'fun'; ren.jit(f)
    ren.jit(fun=lambda a: a)
a loop that changes the domain | LoopError | domain COEFF and NTT; x.ntt()
    ren.jit(lambda a: jax.lax.fori_loop(0, 3, lambda i, c: c * c, a))(p)
JAX's device_put inside ren.jit | TracedValueError | symbolic; ask for its value outside
    ren.jit(lambda a: jax.device_put(a))(p)
a step that JAX counts | TracedValueError | traced by JAX; jax.lax.switch
    jax.lax.fori_loop(0, 2, lambda i, c: c.rotate(i), p)
a step of slots that JAX counts | TracedValueError | traced by JAX; jax.lax.switch
    jax.lax.fori_loop(0, 2, lambda i, c: c.rotate(i), x)
a plaintext that divides | OperandError | by a plaintext; ct * ctx.encode(1 / values)
    x / ctx.encode([1.0, 2.0, 4.0])
a degree that is negative | ParameterError | degree=-1; 0 to 4095
    ckks.math.exp(x, interval=(-1, 1), degree=-1)
a degree beyond all | ParameterError | degree=100000; 0 to 4095
    ckks.math.exp(x, interval=(-1, 1), degree=10**5)
a function that is not finite | ParameterError | not finite on [-1, 1]; singularity
    ckks.chebyshev(x, np.log, (-1, 1), 9)
a key switch of an array | OperandError | switch_key() got an ndarray; Encrypt it first
    ctx.switch_key(np.ones(3), ctx)
a polynomial times a float | CoefficientTypeError | poly * float; round(value * scale)
    p * 0.5
a fractional power of a polynomial | CoefficientTypeError | power 0.5; integers
    p ** 0.5
a polynomial is divided | OperandError | divides; round_div; pow(c, -1, x.ring.q)
    p // 2
an entry beyond a batch | BatchIndexError | entry 2; -2 to 1; in that range
    Poly([[1] * 8] * 2, ring)[2]
a coefficient is read | OperandError | coefficients; x.tolist()
    p[0]
coefficients one by one | OperandError | coefficients; x.tolist()
    for c in p: pass
a polynomial as a truth value | TracedValueError | truth value; ren.equal
    if p: pass
np.sum of a polynomial | OperandError | np.sum; p.tolist(); p.limbs
    np.sum(p)
np.exp of a polynomial | OperandError | np.exp; modulo q; + - *
    np.exp(p)
np.dot of polynomials | OperandError | np.dot; modulo q; + - *
    np.dot(p, p)
np.convolve with a polynomial | OperandError | np.convolve; modulo q; + - *
    np.convolve([1, 2], p)
np.add with a float array | CoefficientTypeError | ndarray; Poly(coefficients, ring)
    np.add(p, np.ones(8))
a device that is not there | DeviceError | gpu:7; The devices here
    p.to("gpu:7")
two devices | DeviceError | python; .to(
    (p + Poly([1], ring, device="python")).tolist()
bytes that are cut short | SerializationError | from_bytes; Write them again
    Poly.from_bytes(p.to_bytes()[:50])
a setting that is not there | UnknownSettingError | jti; Perhaps you mean 'jit'
    ren.config.jti = True
a setting out of range | SettingError | 'fast'; 'graph'
    ren.config.jit_tier = "fast"
ren.ckks | AttributeError | from ren.schemes import ckks
    ren.ckks
no static_argnames for a step | TracedValueError | 'k'; static_argnames='k'
    ren.jit(lambda a, k: a.rotate(k))(p, 2)
no static_argnames for a branch | TracedValueError | 'k'; static_argnames='k'
    ren.jit(lambda a, k: a if k > 1 else -a)(p, 2)
no static_argnames for a loop | TracedValueError | 'k'; static_argnames='k'
    ren.jit(lambda a, k: [a for _ in range(k)])(p, 2)
a misspelt option of ren.jit | JitError | 'static_argname'; show_graph; mean 'static_argnames'
    ren.jit(lambda a: a, static_argname="a")
an option that ren.djit has not | JitError | ren.djit; 'tier'; auto_device, show_graph
    ren.djit(tier="units")
a strategy for ren.jit | JitError | 'strategy'; ren.submit(f, x)
    ren.jit(strategy="actor")(lambda a: a)
a type of results for ren.jit | JitError | 'return_type'; types that the function returns
    ren.jit(return_type="float")(lambda a: a)
static_argnames that are misspelt | JitError | 'stepz'; name of a parameter
    ren.jit(static_argnames="stepz")(lambda a, steps: a)
no polynomial goes in | JitError | without a polynomial; Pass a Poly
    ren.jit(lambda: p)()
no polynomial comes out | JitError | returned no polynomial; Return a Poly
    ren.jit(lambda a: 3)(p)
values under jit | TracedValueError | value of a polynomial; outside
    ren.jit(lambda a: a * a.tolist()[0])(p)
decrypt under jit | TracedValueError | decrypt(); captured or traced; outside
    ren.jit(lambda a: print(a.decrypt()))(x)
a symbol that leaks from a capture | TracedValueError | symbolic; Return the polynomial
    kept = []
    ren.jit(lambda a: kept.append(a + 1) or a)(p)
    kept[0].tolist()
a ciphertext that leaks from jax.jit | TracedValueError | leaked; Return it from the transformed
    kept = []
    jax.jit(lambda a: kept.append(a + a) or a)(x)
    kept[0].decrypt()
a polynomial that leaks from jax.jit | TracedValueError | leaked; Return it from the transformed
    kept = []
    jax.jit(lambda a: kept.append(a * a) or a)(p)
    kept[0].tolist()
a donated argument is read again | DonatedBufferError | donated; Use the result; copy
    q = Poly([1, 2], ring).realize()
    ren.jit(donate_argnums=0)(lambda a: a * 2)(q)
    q.tolist()
a donated ciphertext is read again | DonatedBufferError | donated; Use the result; copy
    w = ctx.encrypt([1.0]).realize()
    ren.jit(donate_argnames="a")(lambda a: a + 1)(w)
    w.decrypt()
no depth | ParameterError | neither a depth nor parameters; depth=4
    ckks.context()
a depth out of reach | ParameterError | depth 200; Depth 43 fits; less depth
    ckks.context(depth=200)
a degree too small for the depth | InsecureParametersError | n=4096; Use n=16384; security=None
    ckks.context(depth=4, n=4096)
a float as depth | ParameterError | 4.0; integer; depth=4
    ckks.context(depth=4.0)
a degree that is none | ParameterError | 10000; power of two; 8192 or 16384
    ckks.context(depth=1, n=10000)
a scale in place of its bits | ParameterError | scale_bits; 20 to 60; 40
    ckks.context(depth=1, scale_bits=2**40)
more slots than there are | ParameterError | slots is 8192; n/2 = 4096; slots=4096
    ckks.context(depth=1, n=2**13, slots=2**13)
a name for the parameters | ParameterError | params='n14-depth4'; Parameters.preset
    ckks.context(params="n14-depth4")
a preset that is not there | ParameterError | n13; n13-depth2
    ckks.Parameters.preset("n13")
words are encrypted | ParameterError | list; real or complex numbers; Pass a NumPy array
    ctx.encrypt(["a", "b"])
None is encrypted | ParameterError | NoneType; real or complex numbers
    ctx.encrypt(None)
rows of several lengths | ParameterError | rows have one length
    ctx.encrypt([[1.0], [1.0, 2.0]])
NaN is encrypted | ParameterError | NaN; finite; nan_to_num
    ctx.encrypt([1.0, float("nan")])
infinity is added | ParameterError | inf; finite; nan_to_num
    x + float("inf")
numbers that wrap around | ParameterError | 2^100; wrap around; Divide
    ctx.encrypt([1e30])
a level that is not there | ParameterError | level is 9; from 0 to 2
    ctx.encrypt([1.0], level=9)
a ciphertext is encrypted | TracedValueError | encrypted; decrypt()
    ctx.encrypt(x)
exhausted depth | DepthError | level 0 of 2; takes 1 level; ckks.context(depth=3)
    z = x * y * x
    z * y
a power too high | DepthError | power 9 takes 4 levels; level 2 of 2
    x**9
a function too deep | DepthError | exp; takes 3 levels; level 2 of 2
    ckks.math.exp(x.within(1))
two contexts | ContextError | two contexts; Encrypt both with the same context
    x + ckks.context(params=ctx.params).encrypt([1.0])
a sum that surely wraps around | MessageBoundError | 2^30; wrap around; higher level
    ctx.encrypt([1.0], level=0) + 1e9
another context is active | ContextError | active; keys differ; Leave the `with` block
    with ckks.context(params=ctx.params):
        x * y
the context is gone | ContextError | none is active or alive; Keep it in a variable
    data = ckks.context(params=ctx.params).encrypt([1.0]).to_bytes()
    ckks.Ciphertext.from_bytes(data).rotate(1)
a server lacks a key | MissingKeyError | rotation by 5; ctx.rotation_keys([5]); ctx.server()
    with ctx.server():
        x.rotate(5)
a server decrypts | MissingKeyError | the secret key; owner's context
    ctx.server().decrypt(x)
a server encrypts | MissingKeyError | a key to encrypt with; ctx.public()
    ctx.server().encrypt([1.0])
who encrypts multiplies | MissingKeyError | relinearization key; ctx.server()
    with ctx.public():
        x * y
a key inside vmap | MissingKeyError | rotation by 77; never made inside; ctx.rotation_keys([77])
    jax.vmap(lambda v: v.rotate(77))(ckks.stack([x, y]))
encryption inside jax.jit | RandomnessError | encrypt(); JAX transformation; Encrypt outside
    jax.jit(lambda a: a + ctx.encrypt([1.0]))(x)
the owner inside jax.jit | ContextError | secret key; Pass ctx.server()
    jax.jit(lambda c, a: a)(ctx, x)
an array is decrypted | OperandError | ndarray; ctx.encrypt
    ctx.decrypt(np.ones(3))
bool of a ciphertext | TracedValueError | are true; x & y for `x and y`; ckks.where
    if x: pass
less than | DepthError | less with a gap; takes 13 levels; ckks.context(depth=
    x < 1
ct == ct | DepthError | equal with a gap; ckks.context(depth=
    assert x == y
array == ct | DepthError | equal with a gap; ckks.context(depth=
    np.ones(3) == x
max of two | DepthError | greater with a gap; ckks.context(depth=
    max(x, y)
ct / ct | OperandError | divides by; on one side of zero; ckks.intervals; ckks.math.inverse
    x / y
number / ct | OperandError | divides by; ckks.math.inverse
    1 / x
truth of numbers | OperandError | bits or of truth; (x > 0) & (y < 1); x.within(0, 1)
    x & y
an interval for a misspelt function | ParameterError | 'sgrt'; Write one of sqrt
    with ckks.intervals(sgrt=(0.5, 2)): x**0.5
an interval that contradicts another | ParameterError | within(7, 8); known to lie in [-4, 4]
    x.within(7, 8)
division by zero | ParameterError | divides; zero
    x / np.array([1.0, 0.0, 2.0])
a remainder | DepthError | round; ckks.context(depth=
    x % 2
ct ** 0.5 | OperandError | power 0.5; above zero; x.within(low, high); ckks.intervals
    x**0.5
an encrypted exponent | DepthError | pow by a polynomial; ckks.context(depth=
    2**x
abs of a ciphertext | DepthError | abs with a gap; ckks.context(depth=
    abs(x)
float of a ciphertext | TracedValueError | takes the numbers; decrypt()
    float(x)
ct[0] = 1 | OperandError | assigns; never change; mask
    x[0] = 1
ct.level = 1 | FrozenError | 'level'; never changes; x.drop_to(level)
    x.level = 1
plaintext.level = 1 | FrozenError | 'level' of a Plaintext; encode at a level
    ctx.encode([1.0]).level = 1
a scale is assigned | FrozenError | 'scale' of a Ciphertext; x.rescale()
    x.scale = 2**30
an attribute is deleted | FrozenError | 'noise' of a Ciphertext; result of its operators
    del x.noise
ct[0] | ParameterError | indexed by 0; Write ct[0:1]
    x[0]
for v in ct | OperandError | iterates; ckks.unstack; whole ct
    for v in x: pass
len of a number | OperandError | len(); ct.slots
    len(ctx.encrypt(1.0))
np.std(ct) | OperandError | np.std; Write ckks.stats.std(ct, interval=(a, b))
    np.std(x)
np.exp(ct) | DepthError | exp by a polynomial; ckks.context(depth=
    np.exp(x)
jnp.dot(array, ct) | OperandError | jnp.dot; ct.dot(w)
    jnp.dot(np.ones(3), x)
np.stack of ciphertexts | OperandError | np.stack; ckks.stack
    np.stack([x, y])
a method of arrays | UnknownAttributeError | 'argmax' of a Ciphertext; decrypt() first
    x.argmax()
np.median(ct) | OperandError | np.median; decrypt() first
    np.median(x)
a ciphertext as an array | TracedValueError | takes the numbers; decrypt()
    np.asarray(x)
rotate by a float | OperandError | rotate() got 1.5; integer; int(k)
    x.rotate(1.5)
keys for a float | OperandError | rotation_keys() got 0.5; integer
    ctx.rotation_keys([0.5])
a matrix of another width | ParameterError | shape (2, 4); 3 numbers; ckks.pad(ct, 4)
    np.ones((2, 4)) @ x
a matrix with three axes | ParameterError | (2, 2, 2); 2 axes
    np.ones((2, 2, 2)) @ x
vectors of two lengths in dot | ParameterError | 3 numbers and 4 numbers; Pad
    x.dot(np.ones(4))
an array of more numbers than slots | ParameterError | (3,) and (600,); ckks.pad
    x + np.ones(600)
polynomials of other batches | DomainError | (2,) and (4,); broadcasting
    Poly(np.ones((2, 8), int), ring) + Poly(np.ones((4, 8), int), ring)
a batch of another size | ParameterError | (2, 3) and (4, 3); as in NumPy
    ctx.encrypt(np.ones((2, 3))) + np.ones((4, 3))
complex numbers in a real function | ParameterError | exp; complex; x.real
    ckks.math.exp(ctx.encrypt([1j, 2.0]))
an array in a function of ciphertexts | OperandError | exp got an ndarray; ctx.encrypt
    ckks.math.exp(np.ones(3))
an interval upside down | ParameterError | (1, -1); a < b
    ckks.math.exp(x, interval=(1, -1))
a logarithm of zero | ParameterError | log; above zero
    ckks.math.log(x, interval=(0, 1))
one ciphertext to stack | OperandError | ckks.stack() got a Ciphertext; [x, y]
    ckks.stack(x)
an array for a spec | ParameterError | ckks.spec; ren.plan(f, ckks.spec(1000))
    ren.plan(lambda a: a, np.ones(3))
a damaged file | SerializationError | checksum; Write them again
    x.save(folder / "x")
    (folder / "x").write_bytes((folder / "x").read_bytes()[:1000])
    ckks.Ciphertext.load(folder / "x")
bytes of an old version | SerializationError | version 1; this library reads 5
    data = x.to_bytes()
    ckks.Ciphertext.from_bytes(data[:8] + b"\\x01\\x00" + data[10:])
bytes of another kind | SerializationError | not a context; they are a ciphertext
    ckks.Context.from_bytes(x.to_bytes())
the secret is pickled | SerializationError | secret key; ctx.server(); include_secret=True
    pickle.dumps(ctx)
scales that do not meet | ScaleError | scales 2^79; ckks.manual()
    with ckks.manual():
        x * y + x
three components are rotated | ScaleError | 3 components; .relinearize()
    with ckks.manual():
        (x * y).rotate(1)
up a level | DepthError | drop_to(2); levels only go down
    x.drop_to(1).drop_to(2)
too much is shared | SharingError | noise; fewer queries
    ctx.decrypt_shared(x, 1e-3, queries=10)
a wrong result under debug | PrecisionError | is off by; tolerance; scale_bits
    with warnings.catch_warnings(action="ignore"):
        ckks.debug(lambda a: a * 1e5 * 1e5, np.ones(3), context=ctx)  # here
"""


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """Names in the lines of the table; the parameters are insecure, for speed."""
    params = ckks.Parameters.for_depth(2, n=1 << 10, security=None)
    ctx = ckks.context(params=params)
    ring = ren.RingSpec(n=8, moduli=(17, 97))
    return {
        "np": np, "jax": jax, "jnp": jnp, "pickle": pickle, "ren": ren, "ckks": ckks,
        "warnings": warnings, "Poly": ren.Poly, "RingSpec": ren.RingSpec,
        "ring": ring, "p": ren.Poly(range(8), ring), "ctx": ctx,
        "x": ctx.encrypt([1.0, 2.0, 3.0]), "y": ctx.encrypt([4.0, 5.0, 6.0]),
    }  # fmt: skip


@pytest.mark.parametrize("mistake", mistakes(TABLE), ids=lambda mistake: mistake.name)
def test_it_says_what_why_and_the_mend(mistake: Mistake, names: dict, tmp_path) -> None:
    check(mistake, {**names, "folder": tmp_path})


def test_there_are_more_than_thirty_and_each_class_has_one() -> None:
    made = mistakes(TABLE)
    assert len({m.name for m in made}) == len(made) >= 30
    # A base, a defect of Ren itself, a machine without a compiler (tests/lowering/native), a forked
    # process (tests/test_forks.py), one without an optional package (tests/test_plots.py), and one
    # without memory (tests/lowering/native/test_host_call.py).
    never = {
        "RenError", "VerificationError", "NativeError", "ForkError", "MissingPackageError",
        "OutOfMemoryError",
    }  # fmt: skip
    raised = {name for name, kind in vars(errors).items() if is_error(kind)} - never
    assert {m.error for m in made} == raised | {"AttributeError"}


def test_errors_are_pickled_with_their_notes() -> None:
    with pytest.raises(errors.DepthError) as caught:
        raise errors.DepthError("given", "needed", "do")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.do) == ("given\nneeded\ndo", "do")
    assert again.__notes__ == caught.value.__notes__
    assert "raise errors.DepthError" in again.__notes__[0]


def is_error(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, errors.RenError)


def test_what_numpy_can_ask_of_a_ciphertext(names: dict) -> None:
    x, a = names["x"], np.array([1.0, 2.0, 3.0])
    w = np.array([0.5, -1.0, 2.0])
    assert (x.shape, len(x)) == ((3,), 3)
    assert names["ctx"].encrypt(np.ones((2, 600))).shape == (2, 600)
    assert names["ctx"].encrypt(1.0).shape == ()
    assert (x == x) is True and (x == None) is False and x in [x]  # noqa: E711
    total = w
    total += x
    for got, want in (
        (x / 2, a / 2), (x / w, a / w), (x / jnp.asarray(2.0), a / 2), (x / 2j, a / 2j),
        (w * x, w * a), (np.multiply(w, x), w * a), (np.float64(2) - x, 2 - a),
        (np.subtract(x, w), a - np.array([0.5, -1.0, 2.0])), (total, a + w), (w - x, w - a),
        (np.eye(3) @ x, a), (np.power(x, 2), a**2),
    ):  # fmt: skip
        np.testing.assert_allclose(got.decrypt(), want, atol=1e-5)


def test_what_numpy_can_ask_of_a_polynomial(names: dict) -> None:
    p, five = names["p"], np.int64(5)
    for got, want in (
        (np.add(p, 1), p + 1), (np.multiply(p, p), p * p), (five - p, 5 - p), (p - five, p - 5),
        (np.subtract(five, p), 5 - p), (np.power(p, 2), p**2), (five * p, 5 * p),
    ):  # fmt: skip
        assert got == want and np.equal(got, want) and not np.not_equal(got, want)
    for other in (five, np.ones(8), None):
        assert (p == other) is (other == p) is False
        assert (p != other) is (other != p) is True
    numbers = np.array(p.tolist())
    assert np.array_equal(p, numbers) and not np.array_equal(p, numbers + 1)
    np.testing.assert_array_equal(np.stack([p, p], axis=-1), np.stack([numbers] * 2, axis=-1))


def test_a_frozen_error_is_that_of_dataclasses(names: dict) -> None:
    level = names["x"].level
    with pytest.raises(dataclasses.FrozenInstanceError):
        names["x"].level = 0
    assert names["x"].level == level


def test_a_symbolic_divisor_is_static_or_an_input(names: dict) -> None:
    x = names["x"]
    for options in ({}, {"static_argnames": "k"}):
        halved = ren.jit(**options)(lambda a, k: a / k)(x, 2.0)
        np.testing.assert_allclose(halved.decrypt(), [0.5, 1.0, 1.5], atol=1e-6)
    inverse = ren.jit(lambda a, k: a + 1 / k)
    for k in (2.0, 4.0):
        np.testing.assert_allclose(
            inverse(x, k).decrypt(), [1 + 1 / k, 2 + 1 / k, 3 + 1 / k], atol=1e-6
        )
    with pytest.raises(ZeroDivisionError):  # as without ren.jit
        inverse(x, 0.0)
