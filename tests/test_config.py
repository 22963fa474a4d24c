"""Settings: read from the environment, checked, changed and restored."""

from __future__ import annotations

import logging
import os
import sys
import threading

import pytest

import ren
from ren.config import SETTINGS, Config, config
from ren.core.errors import SettingError, UnknownSettingError

NAMES = [s.name for s in SETTINGS]
OTHER = {
    "jit": ("0", False),
    "check_memory": ("off", False),
    "jit_log": ("off", False),
    "jit_tier": ("graph", "graph"),
    "jit_speculate": ("no", False),
    "rearm_max_volatility": ("0.5", 0.5),
    "native": ("1", True),
    "progress": ("0", False),
    "cache_dir": ("somewhere", os.path.abspath("somewhere")),
    "compile_cooldown_max_ns": ("7_000_000_000", 7_000_000_000),
}


def test_the_object_is_exported():
    assert ren.config is config
    assert isinstance(config, Config)


@pytest.mark.parametrize("name", NAMES)
def test_each_setting_is_read_from_its_variable(name):
    text, value = OTHER.get(name, ("17", 17))
    made = Config({f"REN_{name.upper()}": f" {text} "})
    assert getattr(made, name) == value
    assert all(getattr(made, s.name) == s.default for s in SETTINGS if s.name != name)


@pytest.mark.parametrize("name", [n for n in NAMES if n != "cache_dir"])
def test_a_bad_variable_warns_once_and_keeps_the_default(name):
    variable = f"REN_{name.upper()}"
    with pytest.warns(RuntimeWarning, match=f"{variable}='-x'") as seen:
        made = Config({variable: "-x"})
    assert len(seen) == 1
    assert getattr(made, name) == next(s.default for s in SETTINGS if s.name == name)


def test_bounds_that_cross_in_the_environment_keep_both_defaults():
    with pytest.warns(RuntimeWarning, match="REN_CACHE_FLUSH_MIN and REN_CACHE_FLUSH_MAX"):
        made = Config({"REN_CACHE_FLUSH_MIN": "9", "REN_CACHE_FLUSH_MAX": "3"})
    assert (made.cache_flush_min, made.cache_flush_max) == (8, 64)


@pytest.mark.parametrize("text", ["true", "1", "True"])
def test_nothing_is_compiled_in_the_background_under_ci(text):
    assert not Config({"CI": text}).jit_speculate
    assert Config({"CI": text, "REN_JIT_SPECULATE": "1"}).jit_speculate
    assert Config({"CI": "false"}).jit_speculate


@pytest.mark.parametrize(
    "name", ["jit", "jit_log", "jit_speculate", "native", "progress", "check_memory"]
)
def test_switches_take_the_same_words(name, monkeypatch):
    monkeypatch.setattr(sys.modules["ren.config"], "_log_to_stderr", lambda on: None)
    variable = f"REN_{name.upper()}"
    for value, words in ((True, "1 on Yes TRUE true"), (False, "0 off no False NO")):
        for word in words.split():
            assert getattr(Config({variable: f" {word} "}), name) is value
    with pytest.warns(RuntimeWarning, match=f"{variable}='maybe'"):
        assert getattr(Config({variable: "maybe"}), name) == getattr(Config({}), name)


def test_an_empty_cache_folder_is_the_default_one():
    assert Config({"REN_CACHE_DIR": ""}).cache_dir is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("jit", 1),
        ("jit_tier", "fast"),
        ("jit_tier", ["auto"]),
        ("rearm_min_samples", 0),
        ("rearm_min_samples", 1.5),
        ("compile_budget_ns", True),
        ("compile_budget_ns", -1),
        ("rearm_max_volatility", 0),
        ("rearm_max_volatility", "x"),
        ("rearm_max_volatility", float("nan")),
        ("native", "yes"),
        ("native", 1),
        ("progress", "yes"),
        ("cache_dir", 3),
    ],
)
def test_a_bad_value_is_refused(name, value):
    made = Config({})
    before = getattr(made, name)
    with pytest.raises(SettingError, match=f"ren.config.{name} got") as e:
        setattr(made, name, value)
    assert isinstance(e.value, ValueError)
    assert e.value.needed and e.value.do
    assert getattr(made, name) == before


def test_an_unknown_name_is_refused_with_the_nearest():
    made = Config({})
    for use in (
        lambda: made.jit_teir,  # type: ignore[attr-defined]
        lambda: setattr(made, "jit_teir", "graph"),
        lambda: made.update(jit_teir="graph"),
    ):
        with pytest.raises(UnknownSettingError, match="'jit_tier'"):
            use()
    assert not hasattr(made, "jit_teir")


def test_update_is_all_or_none():
    made = Config({})
    with pytest.raises(SettingError):
        made.update(jit=False, rearm_min_samples=0)
    with pytest.raises(SettingError, match="at most"):
        made.update(jit=False, compile_cooldown_base_ns=10**15)
    assert made.jit
    made.update(compile_cooldown_base_ns=10**15, compile_cooldown_max_ns=10**16)
    assert made.compile_cooldown_base_ns == 10**15


def test_update_restores_as_a_context_also_after_an_error():
    made = Config({})
    with made.update(jit=False, jit_tier="eager") as inside:
        assert inside is made
        assert (made.jit, made.jit_tier) == (False, "eager")
        with made.update(jit_tier="graph"):
            assert made.jit_tier == "graph"
        assert made.jit_tier == "eager"
    assert (made.jit, made.jit_tier) == (True, "auto")
    with pytest.raises(KeyError), made.update(jit=False):
        raise KeyError
    assert made.jit
    made.update(jit=False)
    assert not made.jit
    del made.jit
    assert made.jit


def test_threads_see_whole_updates():
    made = Config({})
    seen = []

    def change(low: int) -> None:
        for _ in range(200):
            made.update(cache_flush_min=low, cache_flush_max=low)
            seen.append(made.cache_flush_max)

    threads = [threading.Thread(target=change, args=(low,)) for low in (1, 50, 100)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert set(seen) <= {1, 50, 100}
    assert made.cache_flush_min == made.cache_flush_max


def test_it_prints_as_a_table():
    lines = str(config).splitlines()
    assert lines[0].split() == ["setting", "value", "variable", "meaning"]
    assert [line.split()[0] for line in lines[1:]] == NAMES
    assert all(s.variable in line for s, line in zip(SETTINGS, lines[1:], strict=True))
    made = Config({})
    assert repr(made) == "<ren.config: all defaults>"
    made.jit = False
    assert repr(made) == "<ren.config: jit=False>"


def test_jit_log_attaches_one_handler_and_takes_it_off(capsys):
    logger = logging.getLogger("ren")
    level, handlers, root = logger.level, list(logger.handlers), list(logging.root.handlers)
    with config.update(jit_log=True):
        config.jit_log = True
        assert len(logger.handlers) == len(handlers) + 1
        logger.info("a line")
        logger.debug("not this")
    assert capsys.readouterr().err == "ren: a line\n"
    logger.info("nor this")
    assert capsys.readouterr().err == ""
    assert (logger.level, logger.handlers, logging.root.handlers) == (level, handlers, root)


@pytest.mark.parametrize("text", ["off", "OFF", "Off"])
def test_a_cache_may_be_off_in_any_case(text):
    assert Config({"REN_CACHE_DIR": text}).cache_dir == "off"


def test_a_cache_folder_may_be_in_the_home(monkeypatch):
    monkeypatch.setenv("HOME", "/somewhere")
    monkeypatch.setenv("USERPROFILE", "/somewhere")
    assert Config({"REN_CACHE_DIR": "~/kernels"}).cache_dir == "/somewhere/kernels"


def test_a_relative_cache_folder_stays_where_it_was_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = Config({"REN_CACHE_DIR": "kernels"})
    assert made.cache_dir == str(tmp_path / "kernels")
    made.cache_dir = os.path.join("..", "others")
    monkeypatch.chdir("/")
    assert made.cache_dir == str(tmp_path.parent / "others")
    with pytest.raises(SettingError, match=r"<integer of \d+ bits>"):
        made.cache_ttl_s = -(10**5000)
