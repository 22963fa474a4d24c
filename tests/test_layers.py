"""Rules of the sources that no linter here knows: read from the syntax tree, not from the text."""

from __future__ import annotations

import ast
import graphlib
import re
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

from ren.lowering.passes.pipeline import PIPELINE

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "ren").rglob("*.py"))
MOST_LINES = 500  # of a file, its longest class apart
MOST_CONTEXT_VARIABLES = 12
FILLING = ("append", "extend", "update", "add", "setdefault", "insert")
# `print(node)` of `ren.core` draws with what stands above it.
PRINTERS = ("ren/core/printer.py", "ren/lowering/inspect/svg.py")
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:home|root|work|Users|tmp)/\w")


def imports(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Each import as the full dotted names that it reaches."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node, f"{node.module}.{alias.name}") for alias in node.names)


def is_global_jax_setting(node: ast.AST) -> bool:
    """`jax.config.update(...)` and assignments to `jax.config.<name>`."""
    targets = node.targets if isinstance(node, ast.Assign) else []
    written = [ast.unparse(t) for t in targets]
    called = [ast.unparse(node.func)] if isinstance(node, ast.Call) else []
    return any(text.startswith("jax.config.") for text in written + called)


def trees(*folders: str) -> Iterator[tuple[str, ast.AST]]:
    for path in SOURCES:
        inner = path.relative_to(ROOT)
        if not folders or set(folders) & set(inner.parts):
            yield str(inner), ast.parse(path.read_text())


def attributes(tree: ast.AST) -> set[str]:
    return {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


@pytest.mark.long
def test_imports_of_ren_stand_at_the_top() -> None:
    for path, tree in trees():
        inner = [f for f in ast.walk(tree) if isinstance(f, ast.FunctionDef | ast.Lambda)]
        late = [name for f in inner for _, name in imports(f) if name.split(".")[0] == "ren"]
        assert not late, path


def test_schemes_speak_poly() -> None:
    for path, tree in trees("schemes"):
        if not path.endswith("encoder.py"):
            assert "jax.numpy" not in attributes(tree), path
            assert not [name for _, name in imports(tree) if name.startswith("jax.numpy")], path


@pytest.mark.long
def test_no_global_setting_of_jax_is_written() -> None:
    for path, tree in trees():
        assert not [node for node in ast.walk(tree) if is_global_jax_setting(node)], path


@pytest.mark.long
def test_only_config_reads_the_environment() -> None:
    for path, tree in trees():
        if path != str(Path("ren", "config.py")):
            assert not attributes(tree) & {"os.environ", "os.getenv"}, path


def test_files_are_short_and_say_what_they_are_for() -> None:
    """Half of the files have under 150 lines. A file is long only where it is one class."""
    lengths = []
    for path, tree in trees():
        assert isinstance(tree, ast.Module)
        assert ast.get_docstring(tree), path
        lengths.append(len((ROOT / path).read_text().splitlines()))
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        longest = max((length(node) for node in classes), default=0)
        assert lengths[-1] - longest <= MOST_LINES, path
    assert statistics.median(lengths) < 150


def length(node: ast.ClassDef) -> int:
    """Lines of a class."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def test_a_room_is_seen_at_a_glance() -> None:
    rooms = {path.parent for path in SOURCES}
    for room in rooms - {ROOT / "ren" / "lowering" / "passes"}:
        modules = [p for p in room.glob("*.py") if p.name != "__init__.py"]
        assert len(modules) <= 16, room.relative_to(ROOT)
        assert (room / "__init__.py").exists(), room.relative_to(ROOT)


def test_state_of_a_thread_stands_in_few_variables() -> None:
    """One record for each concern: 23 variables once."""
    calls = [n for _, tree in trees() for n in ast.walk(tree) if isinstance(n, ast.Call)]
    assert sum(ast.unparse(call.func) == "ContextVar" for call in calls) <= MOST_CONTEXT_VARIABLES


def test_no_module_fills_a_variable_of_another() -> None:
    """A higher module is an argument, or a method of a class that stands higher."""
    for path, tree in trees():
        if path in PRINTERS:
            continue
        assert isinstance(tree, ast.Module)
        names = set(imported_names(tree))
        filled = [ast.unparse(node) for node in tree.body if names & filled_names(node)]
        assert not filled, path


def imported_names(tree: ast.AST) -> Iterator[str]:
    """Names that imports from ren bind in a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "ren":
            yield from (alias.asname or alias.name for alias in node.names)


def filled_names(node: ast.stmt) -> set[str]:
    """Names whose attributes or items a statement assigns, or that it calls a filling method of."""
    targets = node.targets if isinstance(node, ast.Assign) else []
    written: list[ast.expr] = [t for t in targets if isinstance(t, ast.Attribute | ast.Subscript)]
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        called = node.value.func
        if isinstance(called, ast.Attribute) and called.attr in FILLING:
            written.append(called)
    return {ast.unparse(w).partition(".")[0].partition("[")[0] for w in written}


def test_every_pass_has_a_module_of_its_name() -> None:
    made = {step.run.__name__ for step in PIPELINE}
    folder = ROOT / "ren" / "lowering" / "passes"
    assert made <= {path.stem for path in folder.glob("*.py")}


@pytest.mark.long
def test_modules_import_each_other_in_one_direction() -> None:
    """No circle; imports for types alone count."""
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in SOURCES}
    modules = {name.removesuffix(".__init__"): path for name, path in modules.items()}
    graph = {name: imported_modules(path, set(modules)) for name, path in modules.items()}
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, with the circle


def imported_modules(path: Path, modules: set[str]) -> set[str]:
    """The modules of ren that a module imports, packages around them apart."""
    reached: set[str] = set()
    for node, name in imports(ast.parse(path.read_text())):
        owner = node.module if isinstance(node, ast.ImportFrom) else name
        reached |= {name if name in modules else str(owner)} & modules
    return reached


def test_files_named_for_contributors_exist() -> None:
    text = (ROOT / "docs" / "contributing.md").read_text()
    named = set(re.findall(r"`((?:ren|tests)/[\w/.]+)`", text))
    assert len(named) > 20
    for name in named:
        assert (ROOT / name).exists(), name


def private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("_")  # not __dunder__, not _repr_html_


def private_names_of_ren(tree: ast.AST, own: set[str]) -> list[str]:
    """Private names that a test imports from ren, or reads of what is not `self`.

    `own` are the names that ren defines: those of JAX and NumPy are not counted.
    """
    named = [name for _, name in imports(tree) if name.startswith("ren.")]
    read = [
        (node.attr, ast.unparse(node))
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) != "self"
    ]
    return [n for n in named if any(map(private, n.split(".")))] + [
        text for name, text in read if private(name) and name in own
    ]


@pytest.mark.long
def test_tests_read_few_private_names() -> None:
    """What a test needs is public, or of a module: 93 once, and fewer each time."""
    own = {name for _, tree in trees() for name in defined(tree)}
    read = [
        f"{path.name}: {name}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for name in private_names_of_ren(ast.parse(path.read_text()), own)
    ]
    assert len(read) <= 40, read


def defined(tree: ast.AST) -> Iterator[str]:
    """Names of functions and classes, and of what is assigned to: fields, attributes, variables."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr


def test_no_path_of_one_machine_stands_in_the_sources() -> None:
    for path in SOURCES:
        assert not MACHINE_PATH.search(path.read_text()), path
