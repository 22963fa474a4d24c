"""The pure parts of the benchmarks: rows, tables, the line protocol, and the shared circuits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import attrs
import numpy as np
import pytest

import ren
from benchmarks import record, roofline
from benchmarks import table as tables
from benchmarks.peers import circuits, serving
from benchmarks.peers.processes import PeerError, Process
from benchmarks.rows import Row, aligned, calls_for, table, times

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


def test_polynomials_under_test_have_every_term_and_stay_small():
    for degree in serving.POLYNOMIALS.values():
        numbers = serving.coefficients(degree)
        assert len(numbers) == degree + 1 and all(numbers)
        assert sum(map(abs, numbers)) < 2


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
    assert {"compile_s", "warm_s", "peak_bytes", "memory_ratio"} == set(fields)
    assert 0 < echo.ask("time", count=10)["seconds"] < 1
    with pytest.raises(PeerError, match=r"Echo, nothing: AttributeError"):
        echo.ask("nothing")
    assert echo.ask("prepare", op="missing") == {}  # and it lives on


def test_the_other_libraries_need_nothing_of_ren():
    """Their environments have neither Ren nor JAX, and may have Python 3.10."""
    code = "import sys, benchmarks.peers.serving, benchmarks.peers.circuits, benchmarks.peers\n"
    code += "print(sorted({m.split('.')[0] for m in sys.modules} & {'ren', 'jax', 'attrs'}))"
    made = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert made.stdout == "[]\n"


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


def test_the_table_of_the_readme_is_that_of_the_results() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert tables.markdown(tables.newest(record.RESULTS / "bench.jsonl")) in readme
