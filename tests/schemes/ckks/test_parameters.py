"""Parameters: rings, scales, digits, security and identity, against exact rationals."""

from __future__ import annotations

import json
import math
import pickle
from fractions import Fraction

import attrs
import numpy as np
import pytest

from ren.core.errors import FrozenError, InsecureParametersError, ParameterError, RingError
from ren.schemes.ckks.parameters.parameters import PRESETS, Parameters
from ren.schemes.rlwe.keyswitch import gadget_of
from ren.schemes.rlwe.security import max_log_qp

SETS = {
    "n13-depth2": {"depth": 2},
    "n13-depth3-one-special": {"depth": 3, "n": 1 << 13},
    "n14-depth7-dnum4": {"depth": 7, "n": 1 << 14, "dnum": 4},
    "n15-depth21-scale35": {"depth": 21, "n": 1 << 15, "scale_bits": 35},
    "n15-depth4-256bit-scale45": {"depth": 4, "scale_bits": 45, "security": 256},
    "n10-depth3-insecure": {"depth": 3, "n": 1 << 10, "security": None},
    "n14-depth5-scale20": {"depth": 5, "n": 1 << 14, "scale_bits": 20},
    "n14-depth4-scale60": {"depth": 4, "n": 1 << 14, "scale_bits": 60},
    "depth0": {"depth": 0},
}


@pytest.fixture(params=SETS, scope="module")
def params(request) -> Parameters:
    return Parameters.for_depth(**SETS[request.param])


@pytest.fixture(scope="module")
def small() -> Parameters:
    return Parameters.for_depth(2)


def test_rings_are_contiguous_slices_of_the_union(params):
    union = params.union
    assert union == params.terminals + params.mains
    middle = len(params.terminals)
    for level, (t, m) in enumerate(params.path):
        assert params.ring(level).moduli == union[middle - t : middle + m]
        assert params.ring(level).n == params.n
    assert params.depth == len(params.path) - 1


def test_keys_are_over_the_union_so_far_and_the_special_primes(params):
    gadget = gadget_of(params)
    assert gadget.ring.moduli == params.union + params.specials and gadget.ring.n == params.n
    for level in range(params.depth + 1):
        needed = {q for i in range(level + 1) for q in params.ring(i).moduli}
        digits = sum(not needed.isdisjoint(digit) for digit in params.digits)
        limbs = len(needed) + len(params.specials)
        assert params.key_nbytes(level) == 8 * params.n * digits * limbs
        start = min(map(params.union.index, needed))
        assert needed == {*params.union[start : start + len(needed)]}


def test_digits_cut_the_union_and_fit_into_p(params):
    product = math.prod(params.specials)
    assert params.special_product == product
    assert tuple(q for d in params.digits for q in d) == params.union
    assert all(math.prod(digit) <= product for digit in params.digits)
    assert params.dnum == len(params.digits)


def test_scales_halve_their_error_and_keep_the_recurrence_exactly(params):
    scales = [params.scale(level) for level in range(params.depth + 1)]
    assert scales[0] == 1 << params.scale_bits
    assert scales == list(params.scales)
    for level in range(1, params.depth + 1):
        scale = scales[level]
        assert isinstance(scale, Fraction) and (scale * (1 << 64)).denominator == 1
        ratio = Fraction(math.prod(params.ring(level - 1).moduli))
        ratio /= math.prod(params.ring(level).moduli)
        error = abs(scale**2 * ratio / scales[level - 1] - 1)
        assert error < Fraction(1, 1 << (params.scale_bits + 62))
        assert abs(math.log2(scale) - params.scale_bits) <= 0.2 + 1e-6


def test_level_zero_has_room_for_the_message(params):
    assert params.ring(0).q >= 1 << (params.scale_bits + params.integer_bits)


def test_security_counts_the_union_times_p(params):
    total = math.prod(params.union) * math.prod(params.specials)
    assert params.log_qp == pytest.approx(math.log2(total))
    assert params.log_q == pytest.approx(math.log2(math.prod(params.union)))
    if params.security is None:
        assert params.is_insecure and params.security_bits == 0
    else:
        assert params.security_bits >= params.security and params.security_margin >= 0


def test_sizes(params):
    for level in range(params.depth + 1):
        assert params.ciphertext_nbytes(level) == 8 * params.n * len(params.ring(level).moduli)
    assert params.ciphertext_nbytes() == params.ciphertext_nbytes(params.depth)
    limbs = len(params.union) + len(params.specials)
    assert params.key_nbytes() == 8 * params.n * params.dnum * limbs
    assert params.key_nbytes(0) <= params.key_nbytes()


def test_equal_wishes_give_equal_hashable_values(params):
    again = Parameters.from_dict(params.to_dict())
    assert again == params and hash(again) == hash(params)
    assert again.digest == params.digest and len(again.digest) == 32
    assert {params: 1}[again] == 1
    assert Parameters.from_dict(json.loads(json.dumps(params.to_dict()))) == params
    assert pickle.loads(pickle.dumps(params)) == params
    with pytest.raises(FrozenError):
        params.n = 8


def test_the_digest_is_stable():
    # A change of this value makes every saved object unreadable: it needs a new format version.
    params = Parameters.for_depth(7, n=1 << 14, dnum=4)
    assert params.digest.hex() == (
        "503f27c8534bc33e2abc6ba523761d3d5d5e234f38b1b3e8e0917c0b08db6cb8"
    )


def test_compatible_ignores_wishes_and_nothing_else(small):
    assert small.compatible(small)
    assert small.compatible(attrs.evolve(small, slots=16, security=None, integer_bits=5))
    assert not small.compatible(Parameters.for_depth(3))
    assert not small.compatible(attrs.evolve(small, sigma=6.4, security=None))
    single = tuple((q,) for q in small.union)
    assert not small.compatible(attrs.evolve(small, digits=single))
    assert not small.compatible("parameters")


def test_slots_default_to_half_the_degree(small):
    assert small.slots == small.n // 2
    assert Parameters.for_depth(2, slots=8).slots == 8
    assert attrs.evolve(small, slots=0).slots == small.n // 2


def test_digits_left_out_are_as_few_as_will_do(small):
    assert attrs.evolve(small, digits=()).digits == small.digits


def test_parameters_over_the_bound_need_security_none_and_say_insecure(small):
    crowded = Parameters.for_depth(4, n=1 << 13, security=None)
    assert crowded.security_bits == 0 and crowded.security_margin < 0
    assert "INSECURE" in repr(crowded) and "INSECURE" in str(crowded)
    with pytest.raises(InsecureParametersError, match="n=32768"):
        attrs.evolve(crowded, security=128)
    with pytest.raises(InsecureParametersError):
        Parameters.from_dict({**crowded.to_dict(), "security": 128})
    with pytest.raises(InsecureParametersError, match="192-bit"):
        attrs.evolve(small, security=192)
    with pytest.raises(InsecureParametersError, match="sigma"):
        attrs.evolve(small, sigma=1.0)
    assert "INSECURE" in repr(attrs.evolve(small, sigma=1.0, security=None))
    assert "INSECURE" not in repr(small) + str(small)


def test_text(small):
    assert repr(small) == (
        f"Parameters(n=8192, depth=2, scale=2^40, log_qp={small.log_qp:.1f}, 128-bit security)"
    )
    text = str(small)
    assert "n = 8192" in text and "4096 slots" in text and "the 128-bit bound is 214" in text
    assert f"{small.log_qp:.1f} bits" in text
    rows = [line.split()[0] for line in text.splitlines()[2:5]]
    assert rows == ["2", "1", "0"]


def test_the_table_tells_all_sizes_and_the_margin(params):
    """Numbers are read back out of the text, and compared with what they stand for."""
    lines = str(params).splitlines()
    assert " ".join(lines[1].split()) == "level moduli log2 Q log2 scale ciphertext"
    for line, level in zip(lines[2:], range(params.depth, -1, -1), strict=False):
        at, moduli, log_q, scale, size = line.split(maxsplit=4)
        assert (int(at), int(moduli)) == (level, params.ring(level).limbs)
        assert float(log_q) == pytest.approx(math.log2(params.ring(level).q), abs=0.051)
        assert float(scale) == pytest.approx(math.log2(params.scale(level)), abs=0.00051)
        assert bytes_of(size) == pytest.approx(params.ciphertext_nbytes(level), rel=0.01)
    rest = "\n".join(lines[3 + params.depth :])
    assert f"{len(params.union)} moduli, {params.log_q:.1f} bits" in rest
    assert f"union times P: {params.log_qp:.1f} bits" in rest
    bound = max_log_qp(params.n, params.security_bits or 128)
    assert f"bound is {bound:.0f}, margin {bound - params.log_qp:.1f}" in rest
    switching, public = params.key_nbytes(), 8 * params.n * (len(params.union) + 1)
    for name, held in (("relinearization", switching), ("each rotation", switching),
                       ("public", public)):  # fmt: skip
        (row,) = (line for line in lines if line.startswith(name))
        sizes = [" ".join(pair) for pair in zip(*[iter(row.split()[-4:])] * 2, strict=True)]
        assert bytes_of(sizes[0]) == pytest.approx(held, rel=0.01)
        assert bytes_of(sizes[1]) == pytest.approx(held / 2 + 32, rel=0.01)


def bytes_of(text: str) -> float:
    """Of text such as 1.50 MiB; within half a unit of its last digit."""
    number, unit = text.split()
    return float(number) * {"MiB": 2**20, "KiB": 2**10}[unit]


@pytest.mark.parametrize("name", ["n13-depth2", "n13-depth3", "n14-depth4", "n15-depth12"])
def test_presets(name):
    params = Parameters.preset(name)
    assert name in PRESETS and name == f"n{params.n.bit_length() - 1}-depth{params.depth}"
    assert params.security_bits >= 128


def test_unknown_presets_are_refused():
    with pytest.raises(ParameterError, match=r"no preset 'big'.\nThe presets are n13-depth2"):
        Parameters.preset("big")


@pytest.mark.parametrize(
    ("wish", "given", "needed", "do"),
    [
        ({"depth": -1}, "depth is -1", "from 0 to 256", "depth=4"),
        ({"depth": 2.0}, "depth is 2.0", "integer", "depth=4"),
        ({"depth": True}, "depth is True", "integer", "depth=4"),
        ({"depth": 2, "scale_bits": 70}, "scale_bits is 70", "from 20 to 60", "40"),
        ({"depth": 2, "scale_bits": "40"}, "scale_bits is '40'", "integer", "40"),
        ({"depth": 2, "n": 1000}, "n is 1000", "power of two", "n=512 or 1024"),
        ({"depth": 2, "n": 2}, "n is 2", "from 4 to 131072", "n=4"),
        ({"depth": 2, "n": 1 << 40}, "n is 1099511627776", "from 4 to 131072", "n=131072"),
        ({"depth": 2, "n": 8192.0}, "n is 8192.0", "power of two", "n="),
        ({"depth": 2, "slots": 3}, "slots is 3", "power of two", "slots=2 or 4"),
        ({"depth": 2, "slots": 0}, "slots is 0", "power of two", "slots=1"),
        ({"depth": 2, "n": 8192, "slots": 8192}, "slots is 8192", "n/2 = 4096", "slots=4096"),
        ({"depth": 2, "integer_bits": 0}, "integer_bits is 0", "from 1", "10"),
        ({"depth": 2, "dnum": 0}, "dnum is 0", "from 1", "dnum"),
        ({"depth": 2, "security": 80}, "target is 80", "128, 192 and 256", "security=128"),
    ],
)
def test_wishes_out_of_range_say_what_was_given_needed_and_to_do(wish, given, needed, do):
    with pytest.raises(ParameterError) as error:
        Parameters.for_depth(**wish)
    lines = str(error.value).splitlines()
    assert given in lines[0] and needed in lines[1] and do in lines[2]


@pytest.mark.parametrize("level", [-1, 3, 1.0, "1", True])
def test_levels_that_are_not_there(small, level):
    for ask in (small.ring, small.scale, small.key_nbytes, small.ciphertext_nbytes):
        with pytest.raises(ParameterError, match="from 0 to 2"):
            ask(level)
    for size in (small.key_nbytes, small.ciphertext_nbytes):
        assert size() == size(None) == size(2) > size(1)


def test_moduli_that_do_not_fit_together(small):
    def refuse(error: type, match: str, **fields: object) -> None:
        with pytest.raises(error, match=match):
            attrs.evolve(small, **fields)

    spare = small.mains + small.specials[-1:]
    refuse(ParameterError, "no special primes", specials=())
    refuse(RingError, "prime", mains=(15, *small.mains[1:]))
    refuse(ParameterError, "3329 is not an NTT prime", mains=(3329, *small.mains[1:]))
    refuse(ParameterError, "NTT prime", specials=(2**61 - 1,))
    refuse(RingError, "more than once", specials=small.mains[:1], digits=())
    refuse(ParameterError, "unused moduli", specials=small.specials[:1], mains=spare, digits=())
    for path in ((), ((0, 0),), ((1, 1, 1),), ((-1, 2),), ((0, 2.0),), 7, None, ("ab",)):
        refuse(ParameterError, "pair", path=path)
    refuse(ParameterError, "pair", mains=5)
    refuse(ParameterError, "in its order", digits=small.digits[::-1])
    refuse(ParameterError, "in its order", digits=small.digits[:-1])
    refuse(ParameterError, "at most P", digits=(small.union,))
    refuse(ParameterError, "70 bits are needed", integer_bits=30)
    refuse(ParameterError, r"Scales stay within 0\.5 bits", path=_without_the_middle(small))
    refuse(ParameterError, "secret", secret="binary")
    for sigma in (0, -1.0, math.nan, math.inf, "3.2", 10**400):
        refuse(ParameterError, "sigma", sigma=sigma, security=None)


def _without_the_middle(params: Parameters) -> tuple[tuple[int, int], ...]:
    """Level 0 and the top alone: two levels of modulus between two scales."""
    return (params.path[0], params.path[-1])


def test_from_dict_refuses_missing_and_unknown_fields(small):
    fields = small.to_dict()
    for wrong in ({}, {**fields, "bogus": 1}, {k: v for k, v in fields.items() if k != "n"}, None):
        with pytest.raises(ParameterError, match="from_dict"):
            Parameters.from_dict(wrong)


def test_integers_of_numpy_are_integers():
    of_numpy = Parameters.for_depth(
        np.int64(1), scale_bits=np.int32(30), n=np.int64(1 << 12), slots=np.uint8(64)
    )
    assert of_numpy == Parameters.for_depth(1, scale_bits=30, n=1 << 12, slots=64)
    assert Parameters.from_bytes(of_numpy.to_bytes()) == of_numpy
    assert {type(v) for v in (of_numpy.n, of_numpy.slots, of_numpy.scale_bits)} == {int}


def test_levels_of_numpy_travel(ctx):
    x, p = ctx.encrypt([1.0], level=np.int64(1)), ctx.encode([1.0], level=np.int64(1))
    assert type(x.level) is type(p.level) is type(x.drop_to(np.int64(0)).level) is int
    assert type(x).from_bytes(x.to_bytes()).level == type(p).from_bytes(p.to_bytes()).level == 1
