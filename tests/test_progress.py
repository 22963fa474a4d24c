"""Progress bars: after two seconds, where someone looks, one at a time; otherwise nothing."""

from __future__ import annotations

import dataclasses
import io
import sys
import threading
from functools import partial
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import ren
from ren import progress
from ren.config import config
from ren.lowering.passes import pipeline as passes
from ren.lowering.runtime import planning, runner
from ren.poly import Poly
from ren.progress import DELAY_S, Progress, titled
from ren.ring import RingSpec
from ren.schemes.rlwe import keychain
from ren.schemes.rlwe.identity import IDENTITY_BYTES, Identity
from ren.schemes.rlwe.keychain import Keychain
from ren.schemes.rlwe.keys import secret_from

RING = RingSpec(8, (17, 97))
IDENTITY = Identity.frombytes(bytes(32), bytes(IDENTITY_BYTES))


class Bar:
    """What stands for tqdm: it notes what is done to it."""

    made: list[Bar]

    def __init__(self, total: int, desc: str, **options: object) -> None:
        self.total, self.desc, self.done, self.start_t = total, desc, 0, 100.0
        self.options, self.is_open, self.written = options, True, []
        Bar.made.append(self)

    def update(self, n: int = 1) -> None:
        self.done += n

    def set_description(self, text: str) -> None:
        self.desc = text

    def write(self, text: str, file: object) -> None:
        self.written.append(text)

    def close(self) -> None:
        self.is_open = False


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def bars(monkeypatch) -> list[Bar]:
    """The bars made, all of them wanted."""
    Bar.made = []
    module = ModuleType("tqdm.auto")
    module.tqdm = Bar  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tqdm.auto", module)
    with config.update(progress=True):
        yield Bar.made


@pytest.fixture
def at_once(monkeypatch, bars) -> list[Bar]:
    """Bars without delay wherever the library makes some."""
    for module in (runner, passes, keychain):
        monkeypatch.setattr(module, "Progress", partial(Progress, delay_s=0.0))
    return bars


def terminal(monkeypatch, is_terminal: bool = True) -> io.StringIO:
    stream = io.StringIO()
    stream.isatty = lambda: is_terminal  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def work(clock: Clock, steps: int = 4, each: float = DELAY_S) -> None:
    with Progress(steps, "work", clock=clock) as bar:
        for _ in range(steps):
            clock.now += each
            bar.step()


def test_a_bar_comes_after_two_seconds_and_knows_what_is_done(bars):
    clock = Clock()
    with Progress(10, "work", clock=clock) as shown:
        for _ in range(3):
            clock.now += 0.9
            shown.step()
        (bar,) = bars
        assert (bar.total, bar.desc, bar.done) == (10, "work", 3)
        assert bar.start_t == pytest.approx(100 - 2.7)
        shown.step("more")
        assert (bar.done, bar.desc, bar.is_open) == (4, "more", True)
    assert not bar.is_open and bar.options["leave"] is False


def test_short_work_imports_and_makes_nothing(monkeypatch, bars):
    monkeypatch.setattr(progress, "import_module", lambda name: pytest.fail(name))
    work(Clock(), 1000, each=DELAY_S / 1001)
    work(Clock(), 1, each=60.0)  # there is nothing left to wait for
    assert not bars


def test_bars_are_for_terminals_and_notebooks(monkeypatch, bars):
    with config.update(progress="auto"):
        terminal(monkeypatch, False)
        work(Clock())
        assert not bars
        terminal(monkeypatch)
        work(Clock())
        assert len(bars) == 1
        monkeypatch.setattr(sys, "stderr", None)
        work(Clock())
        assert len(bars) == 1
        shell = SimpleNamespace(config={"IPKernelApp": {}})
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
        work(Clock())
        assert len(bars) == 2
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
        work(Clock())
        assert len(bars) == 2


def test_the_setting_turns_them_off(monkeypatch, bars):
    terminal(monkeypatch)
    with config.update(progress=False):
        work(Clock())
    assert not bars


def test_without_tqdm_there_is_silence(monkeypatch, capfd):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with config.update(progress=True):
        work(Clock())
    assert capfd.readouterr() == ("", "")


def test_nothing_is_shown_where_output_is_captured(capfd):
    work(Clock())
    assert capfd.readouterr() == ("", "")


def test_tqdm_itself_draws_and_cleans_up(monkeypatch):
    stream = terminal(monkeypatch)
    work(Clock())
    text = stream.getvalue()
    assert "work:" in text and "1/4 [00:02<" in text
    assert text.rpartition("\r")[0].split("\r")[-1].strip() == ""  # the line is blank again


def test_a_stream_that_is_closed_is_no_error(monkeypatch):
    class Closing(io.StringIO):
        def isatty(self) -> bool:
            self.close()
            return True

    monkeypatch.setattr(sys, "stderr", Closing())
    work(Clock())


def test_one_bar_at_a_time(bars):
    clock = Clock()
    with Progress(3, "outer", clock=clock) as outer:
        work(clock)  # the outer one is not there yet
        outer.step()
        work(clock)
        outer.step()
    assert [bar.desc for bar in bars] == ["work", "outer"]
    work(clock)
    assert bars[-1].desc == "work" and not any(bar.is_open for bar in bars)


def test_an_exception_closes_the_bar(bars):
    with pytest.raises(KeyError), Progress(3, "work", delay_s=0):
        raise KeyError
    assert not bars[0].is_open


def test_only_the_main_thread_has_bars(bars):
    thread = threading.Thread(target=work, args=(Clock(),))
    thread.start()
    thread.join()
    assert not bars


def test_a_title_stands_in_place_of_what_is_inside(bars):
    with titled("pruning"):
        work(Clock())
    work(Clock())
    assert [bar.desc for bar in bars] == ["pruning", "work"]


def test_lines_are_printed_above_a_bar_or_as_ever(bars, capsys):
    with Progress(2, "work", delay_s=0) as shown:
        shown.print("a row")
    assert bars[0].written == ["a row"]
    with Progress(2, "work") as shown:
        shown.print("a row")
    assert capsys.readouterr().out == "a row\n" and len(bars) == 1


@dataclasses.dataclass(frozen=True)
class KeyParameters:
    n: int = 8
    digits: tuple[tuple[int, ...], ...] = ((17,),)
    specials: tuple[int, ...] = (97,)
    sigma: float = 3.2
    digest: bytes = bytes(32)


def test_rotation_keys_count(at_once):
    secret = secret_from(np.array([1, -1, 0, 0, 0, 0, 0, 0], np.int8), RING)
    keys = Keychain(IDENTITY, secret).with_galois([5, 9, 13], KeyParameters())
    (bar,) = at_once
    assert (bar.total, bar.done, bar.desc) == (3, 3, "making rotation keys")
    assert list(keys.galois) == [5, 9, 13]
    assert keys.with_galois([5, 13], KeyParameters()) is keys
    assert len(at_once) == 1


def test_the_first_run_of_a_plan_counts_its_units_and_later_ones_do_not(at_once):
    f = ren.jit(lambda x, y: (x + y) * (x - 1), tier="units")
    x, y = Poly([1, 2], RING), Poly([3], RING)
    planning.forget()
    f(x, y)
    units = len(f.plans[0].plan.units)
    rest = len(passes.PIPELINE) - len(passes.ALGEBRA)
    assert [(bar.desc, bar.total, bar.done) for bar in at_once] == [
        ("planning", len(passes.ALGEBRA), len(passes.ALGEBRA)),
        ("planning kernels", rest, rest),
        ("compiling and running kernels", units, units),
    ]
    at_once.clear()
    f(y, x)
    assert not at_once


def test_pruning_says_that_it_is_at_it(at_once):
    x, y = Poly([1, 2], RING), Poly([3], RING)
    f = ren.jit(lambda x: x * (y * y + 1), tier="units", prune=True)
    f(x)
    assert any("computing once what depends on no argument" in bar.desc for bar in at_once)
    assert f.plans[0].memory.pruned_bytes
