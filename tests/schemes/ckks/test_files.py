"""Files: what is saved is loaded, written whole, and refused when damaged or secret."""

from __future__ import annotations

import os
import pickle
import stat
import threading

import numpy as np
import pytest

from ren.schemes import ckks
from ren.schemes.rlwe import frame as files
from tests.schemes.ckks.keys import keys_of

BAR = 2.0**-20


def error(values, want) -> float:
    return float(np.abs(values - want).max())


@pytest.fixture
def path(tmp_path):
    return tmp_path / "object.ren"


def test_parameters_ciphertexts_plaintexts_and_servers_come_back(ctx, path):
    x, p = ctx.encrypt([[1.0, 2.0], [3.0, 4.0]], pack="rows"), ctx.encode([5j, 6.0], level=2)
    ctx.params.save(path)
    assert ckks.Parameters.load(path) == ctx.params
    (x + 1).save(path)
    assert error(ckks.Ciphertext.load(str(path)).decrypt(), [[2, 3], [4, 5]]) < BAR
    p.save(path)
    q = ckks.Plaintext.load(path)
    assert (q.level, q.layout, q.params, q.bits) == (2, p.layout, p.params, p.bits)
    assert error((x + q).decrypt(), [[1 + 5j, 8], [3 + 5j, 10]]) < BAR
    assert (q.scale, q.slots, q.nbytes) == (p.scale, ctx.slots, p.wide.limbs.nbytes)
    assert np.array_equal(pickle.loads(pickle.dumps(p)).wide.limbs, q.wide.limbs)
    ctx.server().save(path)
    assert ckks.Context.load(path).to_bytes() == ctx.server().to_bytes()
    assert os.listdir(path.parent) == [path.name]


def test_long_vectors_come_back(ctx, path):
    values = np.linspace(-1, 1, 1300)
    ctx.encrypt(values).save(path)
    x = ckks.Ciphertext.load(path)
    assert x.layout.blocks == 3 and x.decrypt().shape == (1300,)
    assert error(x.decrypt(), values) < BAR


def test_an_owner_is_saved_only_when_that_is_said(small_params, path):
    owner = ckks.context(params=small_params)
    with pytest.raises(ckks.SerializationError, match="include_secret=True"):
        owner.save(path)
    assert not path.exists()
    owner.save(path, include_secret=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(ckks.SerializationError, match="include_secret=True"):
        ckks.Context.load(path)
    again = ckks.Context.load(path, include_secret=True)
    assert error(again.decrypt(owner.encrypt([7.0])), [7]) < BAR
    for secret in (keys_of(owner), keys_of(owner).secret):
        with pytest.raises(ckks.SerializationError, match="secret"):
            pickle.dumps(secret)


def test_a_write_that_fails_leaves_what_was_there(ctx, path, monkeypatch):
    ctx.params.save(path)
    before = path.read_bytes()

    def fail(*_):
        raise OSError("no space")

    monkeypatch.setattr(files.os, "fsync", fail)
    with pytest.raises(OSError, match="no space"):
        ctx.encrypt([1.0]).save(path)
    assert path.read_bytes() == before and os.listdir(path.parent) == [path.name]


def test_errors_name_the_path_that_was_asked_for(ctx, path):
    x = ctx.encrypt([1.0])
    for call in (x.save, ckks.Ciphertext.load, ctx.params.save):
        with pytest.raises(ckks.ParameterError, match=r"an empty path[^@]*x\.save\('x\.ren'\)"):
            call("")
    absent = path.parent / "absent" / "d.bin"
    with pytest.raises(FileNotFoundError) as caught:
        x.save(absent)
    assert caught.value.filename == str(absent) and str(caught.value).endswith(f"'{absent}'")
    for folder in (path.parent, ".", "/", os.pardir):
        with pytest.raises(IsADirectoryError) as caught:
            x.save(folder)
        assert caught.value.filename == str(folder)
    path.write_bytes(b"")
    with pytest.raises(NotADirectoryError) as caught:
        x.save(path / "d.bin")
    assert caught.value.filename == str(path / "d.bin")


def test_a_symbolic_link_stays_and_what_it_names_is_written(ctx, path):
    link, loop = path.with_name("link"), path.with_name("loop")
    os.symlink(path.name, link)
    os.symlink(loop, loop)
    for value in (1.0, 2.0):  # first it names nothing
        ctx.encrypt([value]).save(link)
        assert link.is_symlink() and not path.is_symlink()
        assert error(ckks.Ciphertext.load(path).decrypt(), [value]) < BAR
    with pytest.raises(OSError, match="symbolic links") as caught:
        ctx.encrypt([1.0]).save(loop)
    assert caught.value.filename == str(loop) and loop.is_symlink()


def test_damaged_files(ctx, path):
    ctx.encrypt([1.0]).save(path)
    whole = path.read_bytes()
    for data in (whole[:-1], whole[:100], b"", b"%PDF-1.7" + bytes(1000), whole + b"\0"):
        path.write_bytes(data)
        with pytest.raises(ckks.SerializationError):
            ckks.Ciphertext.load(path)
    path.write_bytes(whole)
    for other in (ckks.Parameters, ckks.Plaintext, ckks.Context):
        with pytest.raises(ckks.SerializationError, match="they are a ciphertext"):
            other.load(path)
    with pytest.raises(FileNotFoundError):
        ckks.Ciphertext.load(path.with_name("none"))


def test_the_mode_of_a_file_that_was_there_stays(small_params, path):
    owner = ckks.context(params=small_params)
    for mode in (0o600, 0o640):
        owner.server().save(path)
        path.chmod(mode)
        owner.server().save(path)
        assert stat.S_IMODE(path.stat().st_mode) == mode
    owner.save(path, include_secret=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
def test_a_pipe_is_written_to_and_stays(ctx, path):
    os.mkfifo(path)
    x, read = ctx.encrypt([1.0, 2.0]), []
    reader = threading.Thread(target=lambda: read.append(path.read_bytes()))
    reader.start()
    x.save(path)
    reader.join()
    assert stat.S_ISFIFO(path.stat().st_mode) and read == [x.to_bytes()]
