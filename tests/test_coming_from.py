"""The tables of calls for those who come from other libraries: what they name of Ren is there."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ren
from ren.schemes import ckks

PAGE = Path(__file__).resolve().parents[1] / "docs" / "coming-from.md"
SECTIONS = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
TABLES = {s.split("\n")[0]: s for s in SECTIONS if "| task |" in s and "| Ren |" in s}
PEERS = ("SEAL", "TenSEAL", "OpenFHE", "Lattigo", "desilofhe")

# What the page calls `ctx`, `x` and so on: classes stand for their instances.
NAMES = {
    "ckks": ckks, "ctx": ckks.Context, "other": ckks.Context, "print": print, "ren": ren,
    "x": ckks.Ciphertext, "y": ckks.Ciphertext,
}  # fmt: skip
VALUES = {"a", "b", "c", "d", "data", "f", "k", "m", "path", "v"}
# Attributes that only instances have, with their classes.
HELD = {"ctx.params": ckks.Parameters, "x.level": int}


def cells(section: str, column: int) -> Iterator[str]:
    for line in section.splitlines():
        if line.startswith("| ") and not line.startswith("| task |"):
            yield line.strip("|").split("|")[column].strip()


def calls(section: str) -> list[str]:
    return [code for cell in cells(section, -1) for code in re.findall(r"`([^`]+)`", cell)]


def resolved(node: ast.expr) -> Any:
    """What a name or a chain of attributes is; None for a value or a result."""
    if isinstance(node, ast.Name):
        assert node.id in NAMES or node.id in VALUES, node.id
        return NAMES.get(node.id)
    if isinstance(node, ast.Attribute):
        text = ast.unparse(node)
        if text in HELD:
            return HELD[text]
        owner = resolved(node.value)
        return owner if owner is None else getattr(owner, node.attr)
    return None


def names_of(section: str) -> Iterator[str]:
    """The calls and attributes of another library that a table has, by their names."""
    for cell in cells(section, 1):
        for code in re.findall(r"`([^`]+)`", cell):
            yield from re.findall(r"[A-Za-z_]\w*(?=\()|(?<=\.)[A-Za-z_]\w*|^\w+$", code)


@pytest.mark.parametrize("peer", PEERS)
def test_a_call_of_another_library_is_there_or_says_what_to_write(peer):
    """Asked of a ciphertext, of a context or of the package: users try all three."""
    ctx = ckks.context(depth=1, n=1 << 10, security=None)
    names = set(names_of(TABLES[peer]))
    assert len(names) > 15
    for owner in (ctx.encrypt([0.5]), ctx, ckks):
        for name in names:
            try:
                getattr(owner, name)
            except ren.errors.UnknownAttributeError as error:
                assert error.do.startswith("Write "), (owner, name, error.do)


def check(code: str) -> None:
    """Raises where a name, a method or an argument is not there."""
    for node in ast.walk(ast.parse(code, mode="eval")):
        if isinstance(node, ast.Name | ast.Attribute):
            resolved(node)
        if isinstance(node, ast.Call) and (called := resolved(node.func)) is not None:
            bind(called, ast.unparse(node.func), node)


def bind(called: Any, name: str, node: ast.Call) -> None:
    if called is print:
        return
    owner, _, method = name.rpartition(".")
    is_bound = owner in ("x", "y", "ctx") and not inspect.ismethod(getattr(NAMES[owner], method))
    given = ([None] if is_bound else []) + [None] * len(node.args)
    inspect.signature(called).bind(*given, **{str(k.arg): None for k in node.keywords})


def test_there_is_a_table_for_each_library() -> None:
    assert tuple(TABLES) == PEERS


@pytest.mark.parametrize("peer", PEERS)
def test_every_call_of_ren_is_there(peer: str) -> None:
    found = calls(TABLES[peer])
    assert len(found) >= 20
    for code in found:
        check(code)


@pytest.mark.long
def test_every_call_on_rings_runs() -> None:
    ring = ren.RingSpec(n=8, moduli=(17, 97))
    p, r = (ren.Poly(c, ring) for c in ([1, 1], [5, 0, 2]))
    names = {"ren": ren, "ring": ring, "c": [1, 2], "p": p, "r": r}
    names["batch"] = ren.Poly([[1] * 8, [2] * 8], ring)
    (section,) = (s for s in SECTIONS if s.startswith("Rings of integers"))
    found = calls(section)
    assert len(found) > 20
    for code in found:
        made = eval(code, names)
        if isinstance(made, ren.Poly):
            made.realize()


@pytest.mark.parametrize("peer", PEERS)
def test_every_table_covers_the_same_tasks(peer: str) -> None:
    tasks = " ".join(cells(TABLES[peer], 0))
    for word in ("parameters", "key", "encode", "encrypt", "decrypt", "rotat", "server", "bytes"):
        assert word in tasks, word
    assert list(cells(TABLES[peer], 0))[-1] == "bootstrapping"
    assert all(c.replace("\\|", "").count("`") % 2 == 0 for c in cells(TABLES[peer], 1))


@pytest.mark.parametrize("peer", PEERS)
def test_each_table_says_how_to_bootstrap(peer: str) -> None:
    (row,) = [r for r in TABLES[peer].splitlines() if r.startswith("| bootstrapping |")]
    assert "`x.bootstrap()`" in row


def test_the_table_of_what_is_missing_names_both_peers_and_is_true_of_ren() -> None:
    (section,) = (s for s in SECTIONS if s.startswith("What Ren has not"))
    head, _, *table = [line for line in section.splitlines() if line.startswith("|")]
    assert [cell.strip() for cell in head.strip("|").split("|")] == [
        "",
        "OpenFHE",
        "Lattigo",
        "Ren",
    ]
    missing = " ".join(line.split("|")[1] for line in table)
    for word in ("BFV", "TFHE", "threshold", "re-encryption", "quantum", "secrets", "real numbers"):
        assert word in missing, word
    assert len(table) >= 10
    p = ckks.Parameters.for_depth(2)
    assert p.secret == "ternary" and max(*p.union, *p.specials) < 1 << 30 and p.slots == p.n // 2
    with pytest.raises(ren.errors.ParameterError, match="128, 192 and 256"):
        ckks.context(depth=2, security=100)


@pytest.mark.parametrize("wrong", ["x.rotates(1)", "ckks.context(dept=2)", "q + x", "ctx.encode()"])
def test_a_wrong_call_would_be_noticed(wrong: str) -> None:
    with pytest.raises((AssertionError, AttributeError, TypeError)):
        check(wrong)
