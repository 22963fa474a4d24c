"""The garbage collector stands still while programs are planned, and is on again afterwards."""

from __future__ import annotations

import gc
import threading

import pytest

from ren.core.node import collector_paused


@pytest.fixture(autouse=True)
def collector_on():
    gc.enable()
    yield
    gc.enable()


def test_it_is_on_again_after_the_outermost_pause_and_after_an_error():
    with collector_paused():
        with pytest.raises(KeyError), collector_paused():
            raise KeyError
        assert not gc.isenabled()
    assert gc.isenabled()
    assert collector_paused()(gc.isenabled)() is False and gc.isenabled()


def test_a_user_who_turned_it_off_finds_it_off():
    gc.disable()
    with collector_paused():
        pass
    assert not gc.isenabled()


def test_the_last_of_several_threads_turns_it_on():
    inside, leave = threading.Barrier(2), threading.Event()

    def pause() -> None:
        with collector_paused():
            inside.wait()
            leave.wait()

    other = threading.Thread(target=pause)
    other.start()
    with collector_paused():
        inside.wait()
    assert not gc.isenabled()
    leave.set()
    other.join()
    assert gc.isenabled()
