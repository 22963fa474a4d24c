"""The pure parts of the benchmarks: rows, tables, the line protocol, and the shared circuits."""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from pathlib import Path

import attrs
import numpy as np
import pytest

import ren
from benchmarks import models, older, record, roofline
from benchmarks import table as tables
from benchmarks.peers import circuits, serving
from benchmarks.peers.processes import PeerError, Process, built_openfhe, started
from benchmarks.rows import Row, aligned, calls_for, repeats_for, table, times
from benchmarks.run import heading
from ren.progress import Progress

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def row() -> Row:
    return Row(
        side="Ren", op="rotation", n=8192, depth=2, scale=40, logQ=130.4, logQP=190.4, limbs=5,
        dnum=3, threads=2, calls=7, compile_s=1.23456, peak_bytes=1 << 30,
        **times([3e-3, 1e-3, 2e-3]),
    )  # fmt: skip


def test_a_row_is_one_line_of_json_with_every_field(row):
    made = json.loads(json.dumps(row.to_json()))
    assert set(made) == {field.name for field in attrs.fields(Row)}
    assert made["median"] == 2e-3 and made["spread"] == [1e-3, 3e-3] and made["repeats"] == 3
    assert made["compile_s"] == 1.235


def test_rows_of_impossible_figures_are_refused(row):
    with pytest.raises(ValueError, match="impossible"):
        attrs.evolve(row, median=4e-3)
    with pytest.raises(ValueError, match="impossible"):
        attrs.evolve(row, logQP=100.0)


def test_rows_stand_where_a_library_tells_no_moduli(row):
    unknown = dict.fromkeys(("logQ", "logQP", "limbs", "dnum", "scale"))
    quiet = attrs.evolve(row, side="desilofhe", **unknown)
    assert json.loads(json.dumps(quiet.to_json()))["logQP"] is None
    title, _, ours, theirs = heading([row, quiet]).splitlines()
    assert title == "n = 8192, depth 2, scale 2^40"
    assert heading([quiet]).startswith("n = 8192, depth 2\n")
    assert ours.split() == ["Ren", "130.4", "190.4", "5", "3", "2", "-"]
    assert theirs.split() == ["desilofhe", "-", "-", "-", "-", "2", "-"]
    with pytest.raises(ValueError, match="impossible"):
        attrs.evolve(quiet, median=4e-3)


def test_a_table_has_a_column_a_library_and_ratios_to_ren(row):
    rows = [row, attrs.evolve(row, side="SEAL", median=5e-3, spread=(5e-3, 5e-3))]
    rows.append(attrs.evolve(row, op="NTT"))
    head, rotation, ntt = table(rows).splitlines()
    assert head.split() == ["ms", "Ren", "SEAL"]
    assert rotation.split() == ["rotation", "2.000", "5.000", "2.50x"]
    assert ntt.split() == ["NTT", "2.000", "-"]


def test_cells_are_aligned():
    assert aligned([("a", "b"), ("long", "12")]) == "a      b\nlong  12"


@pytest.mark.parametrize(("seconds", "calls"), [(1.0, 1), (0.02, 1), (0.003, 7), (0.0, 1000)])
def test_short_calls_are_timed_in_a_row(seconds, calls):
    assert calls_for(seconds) == calls


@pytest.mark.parametrize(("seconds", "repeats"), [(0.0, 9), (6.0, 9), (12.0, 5), (100.0, 3)])
def test_long_rows_have_fewer_repeats(seconds, repeats):
    assert repeats_for(seconds, most=9) == repeats
    assert repeats_for(seconds, most=2) == 2


def test_results_name_no_machine(tmp_path, row):
    record.append(tmp_path / "new" / "rows.jsonl", row.to_json())
    record.append(tmp_path / "new" / "rows.jsonl", {"device": record.device(), **record.stamp()})
    text = (tmp_path / "new" / "rows.jsonl").read_text()
    assert text.count("\n") == 2
    assert str(Path.home()) not in text and str(ROOT) not in text
    assert "cores" in record.device()


@pytest.mark.parametrize("size", [4, 16, 32])
def test_matrices_by_baby_and_giant_steps(size):
    """On plain vectors: the circuit that the other libraries run is a product with the matrix."""
    slots = 4 * size
    matrix = np.array(serving.matrix(size))
    x = np.array(serving.values(size, 0.25))
    used = set()

    def rotate(v: np.ndarray, step: int) -> np.ndarray:
        used.add(step)
        return np.roll(v, -step)

    repeated = np.tile(x, 4)
    encoded = [np.array(d) for d in circuits.diagonals(matrix.tolist(), slots)]
    made = circuits.product(
        lambda count: [repeated, *(rotate(repeated, i) for i in range(1, count))],
        encoded, np.multiply, np.add, rotate,
    )  # fmt: skip
    np.testing.assert_allclose(made[:size], matrix @ x, atol=1e-12)
    assert sorted(used) == circuits.steps(size)


def test_matrices_times_vectors_side_by_side():
    matrix, vectors = np.array(serving.matrix(16)), np.arange(48.0).reshape(16, 3)
    made = circuits.mixed(list(vectors), matrix.tolist(), np.multiply, np.add)
    np.testing.assert_allclose(made, matrix @ vectors, atol=1e-12)


def test_polynomials_under_test_have_every_term_and_stay_small():
    for degree in serving.POLYNOMIALS.values():
        numbers = serving.coefficients(degree)
        assert len(numbers) == degree + 1 and all(numbers)
        assert sum(map(abs, numbers)) < 2.5


ECHO = """
from benchmarks.peers.serving import serve
class Echo:
    def versions(self): return {"echo": "1"}
    def digits(self, n, depth, scale_bits, bound): return [n, bound]
    def setup(self, **wanted): print("no answer", flush=True); return wanted
    def operation(self, name): return {"sum": lambda: sum(range(1000))}.get(name)
    def settled(self, call, with_memory): return {"memory_ratio": 1.0} if with_memory else {}
serve(Echo())
"""


@pytest.fixture
def echo(tmp_path, monkeypatch):
    (tmp_path / "echo_peer.py").write_text(ECHO)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    process = Process("Echo", sys.executable, "echo_peer")
    yield process
    process.close()


def test_a_process_answers_request_by_request(echo):
    assert echo.versions == {"echo": "1"}
    assert echo.ask("digits", n=8, depth=1, scale_bits=40, bound=100) == {"digits": [8, 100]}
    assert echo.ask("setup", n=8) == {"n": 8}  # what it prints is no answer
    assert echo.ask("prepare", op="missing") == {}
    fields = echo.ask("prepare", op="sum", with_memory=True)
    assert {"prepare_s", "compile_s", "warm_s", "peak_bytes", "memory_ratio"} == set(fields)
    assert 0 < echo.ask("time", count=10)["seconds"] < 1
    with pytest.raises(PeerError, match=r"Echo, nothing: AttributeError"):
        echo.ask("nothing")
    assert echo.ask("prepare", op="missing") == {}  # and it lives on


@pytest.fixture
def clone(tmp_path, monkeypatch) -> Path:
    """A checkout whose package `ren` has nothing but a name."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    (tmp_path / "clone" / "ren").mkdir(parents=True)
    (tmp_path / "clone" / "ren" / "__init__.py").write_text("NAME = 'older'")
    return tmp_path / "clone"


def test_a_side_imports_ren_of_a_clone_and_benchmarks_of_this_checkout(tmp_path, clone):
    side = older.Side.linked(clone, tmp_path / "side")
    code = "import ren, benchmarks.rows as r; print(ren.NAME, hasattr(r, 'repeats_for'))"
    made = subprocess.run(
        [sys.executable, "-c", code], cwd=side.folder, capture_output=True, text=True, check=True
    )
    assert side.name == "clone" and made.stdout == "older True\n"
    with pytest.raises(FileNotFoundError, match="name a clone"):
        older.Side.linked(tmp_path, tmp_path / "other")


def test_commits_take_turns_over_the_rows_that_both_know(tmp_path, clone, monkeypatch, capsys):
    sides = older.Side("older", clone), older.Side("this", tmp_path)
    asked = []

    def turn(side, wanted, ops, cores):
        asked.append((side.name, tuple(ops)))
        known = [op for op in ops if side.name == "this" or op != "new"]
        return dict.fromkeys(known, (3e-3 if side.name == "older" else 2e-3) * len(asked))

    monkeypatch.setattr(older, "turn", turn)
    options = argparse.Namespace(ops=["add", "new"], repeats=2, cores=None)
    with Progress(4, "measuring") as progress:
        pairs = older.by_turns(sides, {}, options, progress)
    both, rest = ("add", "new"), ("add",)
    assert asked == [("older", both), ("this", both), ("this", rest), ("older", rest)]
    assert "left out: new" in capsys.readouterr().out
    line = older.table(sides, pairs).splitlines()[1].split()
    assert line == ["add", "7.500", "5.000", "1.38x", "0.75x", "2.00x"]


def test_the_other_libraries_need_nothing_of_ren():
    """Their environments have neither Ren nor JAX, and may have Python 3.10."""
    code = "import sys, benchmarks.peers.serving, benchmarks.peers.circuits, benchmarks.peers\n"
    code += "print(sorted({m.split('.')[0] for m in sys.modules} & {'ren', 'jax', 'attrs'}))"
    made = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert made.stdout == "[]\n"


def test_a_library_that_is_not_there_takes_one_line(capsys):
    assert not started("Nothing", sys.executable, "benchmarks.peers.nothing", "no_such_library")
    expected = "Nothing: left out, no_such_library cannot be imported where it would run\n"
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize("folder", ["", "lib/python3.11/site-packages"])
def test_a_build_of_openfhe_is_found_in_its_prefix_and_says_what_it_is(tmp_path, folder):
    prefix = tmp_path / "openfhe"
    module, header = prefix / folder, prefix / "include" / "openfhe" / "core" / "config_core.h"
    for made in (module, header.parent):
        made.mkdir(parents=True, exist_ok=True)
    with pytest.raises(PeerError, match="has no Python module of OpenFHE"):
        built_openfhe(prefix)
    (module / "openfhe.so").touch()
    header.write_text("/* #undef WITH_TCM */\n#define WITH_OPENMP\n#define WITH_INTEL_HEXL\n")
    variables = built_openfhe(prefix)
    assert variables["PYTHONPATH"].endswith(str(module))

    other = tmp_path / "openfhe.py"  # as the wheel in an environment would be
    other.write_text("")
    variables["PYTHONPATH"] += f":{tmp_path}"
    (module / "openfhe.so").rename(module / "openfhe.of-another-python.so")
    command = sys.executable, "benchmarks.peers.openfhe_peer", variables
    with pytest.raises(PeerError, match="was found, and nothing in"):
        Process("OpenFHE", *command)
    other.rename(module / other.name)
    process = Process("OpenFHE", *command)
    process.close()
    assert process.versions["built with"] == "OPENMP, INTEL_HEXL"
    assert process.versions["openfhe"].endswith("built from source")


def test_desilofhe_is_acknowledged_and_never_installed():
    peer = (ROOT / "benchmarks" / "peers" / "desilofhe_peer.py").read_text(encoding="utf-8")
    assert "uses the DESILO FHE library developed by DESILO Inc. (https://desilo.ai)" in peer
    for name in ("Makefile", "pyproject.toml"):
        assert "desilo" not in (ROOT / name).read_text(encoding="utf-8").lower(), name


@attrs.frozen
class Plain:
    """In place of a ciphertext or of a plaintext: numbers, their level, rescales to come."""

    numbers: np.ndarray
    level: int
    pending: int


@attrs.frozen
class Turn:
    delta: int
    nbytes: int = 1


class Engine:
    """In place of desilofhe's: the calls that are timed, on plain numbers, for one degree."""

    slot_count = 128

    def __init__(self, *, max_level, mode, thread_count):
        assert mode == "parallel" and thread_count >= 1
        self.max_level = max_level

    def create_secret_key(self):
        return "secret"

    def create_relinearization_key(self, secret):
        return "relinearization of " + secret

    def create_fixed_rotation_key(self, secret, delta):
        return Turn(delta)

    def encode(self, numbers):
        return Plain(np.asarray(numbers), self.max_level, 1)

    def encrypt(self, numbers, secret):
        return self.encode(numbers)

    def decrypt(self, x, secret):
        return x.numbers

    def add(self, x, y):
        assert (x.level, x.pending) == (y.level, y.pending)
        return attrs.evolve(x, numbers=x.numbers + y.numbers)

    def multiply(self, x, y, key=None):
        assert x.pending == 0
        return Plain(x.numbers * y.numbers, x.level - 1, 1)

    def rescale(self, x):
        assert x.pending == 1
        return attrs.evolve(x, pending=0)

    def rotate(self, x, key):
        return attrs.evolve(x, numbers=np.roll(x.numbers, -key.delta))

    def rotate_many(self, x, keys):
        return [self.rotate(x, key) for key in keys]

    def evaluate_polynomial(self, x, numbers, key):
        return Plain(np.polynomial.polynomial.polyval(x.numbers, numbers), 0, 0)


@pytest.fixture
def desilofhe(monkeypatch):
    """The class that serves desilofhe, with the engine above in its place."""
    name = "benchmarks.peers.desilofhe_peer"
    library = type(sys)("desilofhe")
    library.Engine = Engine
    monkeypatch.setitem(sys.modules, "desilofhe", library)
    monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module(name).DesilofhePeer()
    del sys.modules[name]


def test_desilofhe_does_what_the_rows_say(desilofhe):
    assert desilofhe.digits(n=256, depth=6, scale_bits=40, bound=200) == [0]
    fields = desilofhe.setup(n=256, depth=6, scale_bits=40, dnum=0)
    assert fields.pop("threads") >= 1 and set(fields.values()) == {None}
    x, y = (np.array(serving.values(128, phase)) for phase in (0.0, 0.5))
    expected = {
        "add": x + y, "plaintext product": x * y, "product": x * y, "rotation": np.roll(x, -1),
        "polynomial of degree 27": np.polynomial.polynomial.polyval(x, serving.coefficients(27)),
    }  # fmt: skip
    for size in (16, 128):
        made = np.array(serving.matrix(size)) @ serving.values(size)
        expected[f"matrix {size}x{size}"] = np.tile(made, 128 // size)
    for op, numbers in expected.items():
        made = desilofhe.operation(op)()
        np.testing.assert_allclose(made.numbers, numbers, atol=1e-12, err_msg=op)
        assert made.pending == 0, op
        assert made.level == (6 if op in ("add", "rotation") else 5) or "polynomial" in op
    mixed = desilofhe.operation("mix 16x16")()
    numbers = np.array([y.numbers for y in mixed])
    np.testing.assert_allclose(numbers, np.outer(np.sum(serving.matrix(16), 1), x), atol=1e-12)
    assert {(y.level, y.pending) for y in mixed} == {(5, 0)}
    turned = desilofhe.operation("8 rotations")()
    assert [np.argmax(t.numbers) for t in turned] == [(np.argmax(x) - i) % 128 for i in range(1, 9)]
    np.testing.assert_array_equal(desilofhe.operation("encode")().numbers, x)
    np.testing.assert_array_equal(desilofhe.operation("encode and encrypt")().numbers, x)
    np.testing.assert_array_equal(desilofhe.operation("decrypt and decode")(), x)
    assert desilofhe.operation("NTT of 32 limbs") is None


def test_desilofhe_is_left_out_where_its_degree_is_another(desilofhe):
    with pytest.raises(ValueError, match="depth 6 takes n = 256, and not 512"):
        desilofhe.setup(n=512, depth=6, scale_bits=40, dnum=0)


def test_a_kernel_is_held_against_the_nearer_limit():
    rate = {"bytes": 1e9, "products": 1e10}
    figures = {"seconds": 6e-3, "bytes": 2e6, "products": 1e7}
    found = roofline.limits(figures, rate)
    assert found == pytest.approx({"memory_s": 2e-3, "multiply_s": 1e-3, "over": 3.0})
    assert roofline.limits({**figures, "bytes": 0, "products": 0}, rate)["over"] == 0
    row = {"program": "rotation", "kernel": "NTT", "limbs": 5, **figures, **found}
    assert roofline.table([row]).splitlines()[1].split()[2:] == ["5", "6000", "2000", "1000", "3.0"]


def test_kernels_of_a_plan_are_timed_once_each():
    jitted = ren.jit(lambda x: (x + 1).ntt().contiguous().intt().contiguous(), tier="units")
    jitted(ren.Poly([1, 2, 3, 4], ren.RingSpec(n=4, moduli=(17,))))
    rows = list(roofline.kernels(jitted.plans[0].plan, repeats=1))
    assert [row["kernel"] for row in rows] == [unit.name for unit in jitted.plans[0].plan.units]
    assert all(row["seconds"] > 0 and row["bytes"] >= 32 for row in rows)
    butterflies = 2 * 2  # n/2 in each of log2 n stages
    assert sum(row["products"] for row in rows) >= 2 * 3 * butterflies


@pytest.mark.parametrize(
    ("page", "operations"),
    [("README.md", tables.SHOWN), ("docs/performance.md", tables.MORE)],
)
def test_tables_of_pages_are_those_of_the_results(page, operations) -> None:
    rows = tables.newest(record.RESULTS / "bench.jsonl")
    assert tables.markdown(rows, operations) in (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["08", "scoring"])
def test_estimates_of_programs_are_bounds_and_near_the_errors(monkeypatch, name):
    estimates = pytest.importorskip("benchmarks.estimates", reason="it takes scikit-learn's data")
    monkeypatch.setattr(estimates, "RUNS", 1)
    for line in estimates.measured(estimates.PROGRAMS[name]):
        assert 0 < line.pessimism < 8 and line.largest <= line.message
        assert line.cells(name)[:2] == (name, line.name)


@pytest.mark.long
@pytest.mark.parametrize("name", models.NETWORKS)
def test_numbers_of_a_network_keep_to_the_bound_that_it_runs_with(name):
    draw = np.random.default_rng(0)
    found = models.clear(models.NETWORKS[name].layers(draw), draw.random(models.PIXELS))
    assert found.shape == (10,) and 0.1 < np.abs(found).max() < models.BOUND
