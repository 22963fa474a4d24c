"""What the host calls of the native library, against hashlib and NumPy."""

from __future__ import annotations

import hashlib

import jax
import numpy as np
import pytest

import ren
from ren.core.errors import NativeError
from ren.lowering.backends.native import build, library, self_check
from ren.lowering.backends.native.hashing import BLOCK, Functions


@pytest.fixture
def native() -> Functions:
    """The functions; the tests need a compiler."""
    try:
        build.compiler()
    except build.BuildError as error:
        pytest.skip(str(error))
    with ren.config.update(native=True):
        found = library.functions()
    assert found is not None
    return found


def streams(prefix: bytes, first: int, count: int, blocks: int) -> bytes:
    """The same by hashlib."""
    messages = (prefix + i.to_bytes(8, "little") for i in range(first, first + count))
    return b"".join(hashlib.shake_256(m).digest(blocks * BLOCK) for m in messages)


@pytest.mark.parametrize("first", [0, 250, (1 << 32) - 3, (1 << 64) - 20])
def test_prefixes_of_all_lengths_up_to_three_blocks(native, first):
    text = bytes(i * 73 % 251 for i in range(3 * BLOCK + 2))
    for length in range(len(text)):
        prefix = text[:length]
        assert bytes(native.squeezed(prefix, first, 11, 2)) == streams(prefix, first, 11, 2)


@pytest.mark.parametrize("blocks", [1, 2, 30, 31])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 300])
def test_any_number_of_streams(native, count, blocks):
    got = native.squeezed(b"prefix", 3, count, blocks)
    assert got.dtype == np.uint8 and bytes(got) == streams(b"prefix", 3, count, blocks)


def test_nothing_is_written_where_nothing_is_asked_for(native):
    assert native.squeezed(b"prefix", 0, 0, 30).size == 0
    assert native.squeezed(b"prefix", 0, 3, 0).size == 0


def test_the_answers_of_fips_202():
    """What hashlib is, which all else is compared with: SHAKE-256 of no bytes, and of 200 bytes."""
    known = {
        b"": "46b9dd2b0ba88d13233b3feb743eeb243fcd52ea62b81b82b50c27646ed5762f",
        b"\xa3" * 200: "cd8a920ed141aa0407a22d59288652e9d9f1a7ee0c1e7c1ca699424da84a904d",
    }
    for message, digest in known.items():
        assert hashlib.shake_256(message).hexdigest(32) == digest


@pytest.mark.parametrize(
    "q", [3, 97, (1 << 27) - 39, (1 << 33) // 9, (1 << 30) - 35, (1 << 31) + 1]
)
@pytest.mark.parametrize("count", [0, 1, 15, 16, 63, 64, 65, 1000])
def test_words_modulo(native, q, count):
    words = np.frombuffer(streams(b"words", 0, 1, 30)[: 4 * count], "<u4").copy()
    ends = [0, (1 << 32) - 1, q - 1, q, (1 << 32) // q * q - 1, (1 << 32) // q * q % (1 << 32)]
    words[: len(ends)] = ends[:count]
    out, largest = np.zeros(count, np.uint32), (1 << 32) // q * q - 1
    above = native.uniform(words, q, largest, out)
    assert np.array_equal(out, words % np.uint32(q))
    assert np.array_equal(above, np.flatnonzero(words > largest))


@pytest.mark.parametrize(
    ("name", "reason"),
    [("squeezed", "SHAKE-256 after 0 bytes"), ("uniform", "modulo 97"), ("floats", "at n = 16")],
)
def test_a_library_that_computes_something_else(native, monkeypatch, name, reason):
    right = getattr(native, name)

    def wrong(*args):
        found = right(*args)
        for array in (found, *args):
            if isinstance(array, np.ndarray) and array.flags.writeable and array.size:
                array[-1:].view(np.uint8)[..., -1] ^= 1
        return found

    monkeypatch.setattr(native, name, wrong)
    with pytest.raises(build.BuildError, match=reason):
        self_check.check_functions(native)


def test_a_library_whose_programs_do_nothing(native, monkeypatch):
    monkeypatch.setattr(native, "run", lambda *_: None)
    with pytest.raises(build.BuildError, match="self-check of DOT at n = 16"):
        self_check.check_functions(native)


def test_it_is_checked_inside_of_a_mesh(native):
    with jax.set_mesh(jax.make_mesh((1,), ("batch",))):
        self_check.check_functions(native)


def test_the_library_says_which_vectors_it_was_built_for(native):
    name, lanes = native.vectors.removesuffix(" lanes of 32 bits").split(", ")
    assert (name, int(lanes)) in {("AVX-512", 16), ("AVX2", 8), ("NEON", 4), ("no vectors", 1)}


def test_beside_a_gpu_the_host_has_its_functions_and_segments_none(native, monkeypatch):
    monkeypatch.setattr(library, "backends", lambda: {"cpu": None, "cuda": None})
    assert library.functions() is native
    assert library.usable().reason == "JAX sees devices that are no CPU"


def test_without_a_library_there_are_no_functions(monkeypatch):
    with ren.config.update(native=False):
        assert library.functions() is None
    monkeypatch.setattr(library, "_outcome", library.Outcome(reason="none was built"))
    with ren.config.update(native="auto"):
        assert library.functions() is None
    with ren.config.update(native=True), pytest.raises(NativeError, match="none was built"):
        library.functions()
