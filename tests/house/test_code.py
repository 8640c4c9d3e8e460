"""The house rules that no linter knows.

A rule here is one that a reader feels: small functions, small files, a promise
at the top of each module, and nothing in the tree that only its makers need.
"""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.profiles import SHRINKING_SECONDS
from tests.support.sources import statements

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "forewarn"

FUNCTION_LINES_MAX = 70  # what one screen shows
FILE_LINES_MAX = 500  # what one sitting reads

# Functions that may be longer, as "path:name", each with its reason beside it.
LONG_FUNCTIONS: frozenset[str] = frozenset()

DIRECTORIES = ("src", "tests", "examples", "deploy", "docs", "requirements", ".ci")
TEXT_SUFFIXES = frozenset(
    {"", ".cfg", ".in", ".json", ".md", ".py", ".service", ".sh", ".sql", ".toml"}
    | {".txt", ".yaml", ".yml"}
)

# The brackets keep a pattern from finding itself in this file.
FORBIDDEN = {
    "a path of one machine": r"(?<![\w.}>*-])/(?:work|root(?!@)|home/\w+)(?![\w-])",
    "the address of a package registry": (
        r"py[p]i\.org|py[p]i\.python|python[h]osted\.org|registry\.n[p]mjs"
    ),
    "a word about who made it": (
        r"\bC[E]O\b|(?i:\b(?:agent|helper|coding) [s]ession)|(?i:\bissue [#]\d)"
    ),
    "a mark of a merge left open": r"^(?:<{7}|>{7}) ",
}


def python_files(*directories: str) -> list[Path]:
    files = [
        file for directory in directories for file in (ROOT / directory).rglob("*.py")
    ]
    assert files, f"no Python files in {directories}"
    return sorted(files)


def text_files() -> list[Path]:
    # In a worktree of Git, .git is a file.
    top = [path for path in ROOT.iterdir() if path.is_file() and path.name != ".git"]
    below = [
        path for directory in DIRECTORIES for path in (ROOT / directory).rglob("*")
    ]
    return sorted(
        path
        for path in (*top, *below)
        if path.is_file()
        and path.suffix in TEXT_SUFFIXES
        and "__pycache__" not in path.parts
    )


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=name_of(path))


def long_functions(path: Path, module: ast.Module) -> Iterator[str]:
    for node in statements(module):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        assert node.end_lineno is not None
        lines = node.end_lineno - node.lineno + 1
        allowed = f"{name_of(path)}:{node.name}" in LONG_FUNCTIONS
        if lines > FUNCTION_LINES_MAX and not allowed:
            yield f"{name_of(path)}:{node.lineno} {node.name} has {lines} lines"


def undocumented(path: Path, module: ast.Module) -> Iterator[str]:
    if ast.get_docstring(module) is None:
        yield f"{name_of(path)}:1 the module"
    for node in module.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if not node.name.startswith("_") and ast.get_docstring(node) is None:
            yield f"{name_of(path)}:{node.lineno} {node.name}"


@functools.cache
def found_in_code() -> tuple[list[str], list[str]]:
    """Return the long functions, and in `src` all that has no docstring."""
    long: list[str] = []
    bare: list[str] = []
    for path in python_files("src", "tests"):
        module = parse(path)
        long += long_functions(path, module)
        if path.is_relative_to(PACKAGE):
            bare += undocumented(path, module)
    return long, bare


def test_functions_have_at_most_the_allowed_length() -> None:
    too_long, _ = found_in_code()
    assert not too_long, "\n".join(too_long)


def test_long_and_undocumented_functions_are_found() -> None:
    body = "        pass\n" * FUNCTION_LINES_MAX
    module = ast.parse(f"class A:\n    def f(self):\n{body}\n    def g(self): pass\n")
    path = PACKAGE / "x.py"
    assert [*long_functions(path, module)] == [
        f"src/forewarn/x.py:2 f has {FUNCTION_LINES_MAX + 1} lines"
    ]
    assert [*undocumented(path, module)] == [
        "src/forewarn/x.py:1 the module",
        "src/forewarn/x.py:1 A",
    ]


def test_files_have_at_most_the_allowed_length() -> None:
    sizes = {
        name_of(path): len(path.read_text(encoding="utf-8").splitlines())
        for path in python_files("src", "tests")
    }
    too_long = {name: lines for name, lines in sizes.items() if lines > FILE_LINES_MAX}
    assert not too_long, f"longer than {FILE_LINES_MAX} lines: {too_long}"


def test_public_code_has_docstrings() -> None:
    _, without_docstring = found_in_code()
    assert not without_docstring, "no docstring:\n" + "\n".join(without_docstring)


@pytest.mark.parametrize("what", FORBIDDEN)
def test_repository_contains_no_forbidden_text(what: str) -> None:
    pattern = re.compile(FORBIDDEN[what], re.MULTILINE)
    lines = [
        f"{name_of(path)}:{number} {line.strip()}"
        for path in text_files()
        if pattern.search(text := path.read_text(encoding="utf-8", errors="replace"))
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]
    assert not lines, f"{what}:\n" + "\n".join(lines)


def test_every_source_directory_is_a_package() -> None:
    directories = {path.parent for path in python_files("src")}
    names = [
        name_of(directory)
        for directory in sorted(directories)
        if not (directory / "__init__.py").exists()
    ]
    assert not names, f"no __init__.py in {names}"


def test_steps_of_the_schema_are_numbered_without_gaps() -> None:
    """Two changes that land one after the other can have the same next number."""
    directory = ROOT / "src/forewarn/store/sql"
    numbers = sorted(path.name[:4] for path in directory.glob("0*.sql"))
    assert numbers == [f"{1 + at:04}" for at in range(len(numbers))]


def test_only_system_tests_sleep() -> None:
    """Tests with real sockets or processes are marked; all others advance a clock of
    their own."""
    sleeping: list[str] = []
    for path in python_files("tests"):
        text = path.read_text(encoding="utf-8")
        if not path.name.startswith("test_") or "sleep" not in text:
            continue
        tree = ast.parse(text)
        if _is_marked(tree.body, "pytestmark"):
            continue
        for node in tree.body:
            decorators = getattr(node, "decorator_list", [])
            if not any(
                "mark.system" in ast.unparse(decorator) for decorator in decorators
            ):
                sleeping += [f"{name_of(path)}:{line}" for line in _sleeps(node)]
    assert not sleeping, "mark it as system, or wait for what happens: " + "\n".join(
        sleeping
    )


def _is_marked(body: list[ast.stmt], name: str) -> bool:
    return any(
        isinstance(node, ast.Assign)
        and ast.unparse(node.targets[0]) == name
        and "mark.system" in ast.unparse(node.value)
        for node in body
    )


def _sleeps(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that sleep: to give the other tasks their turn is none."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) in {"asyncio.sleep", "time.sleep"}
            and ast.unparse(node.args[0]) != "0"
        ):
            yield node.lineno


def test_no_test_uses_a_mock_library() -> None:
    """The linter bans the import in code; this finds it in text too."""
    mock = re.compile(r"unittest[.]mock|from unittest import [m]ock")
    names = [
        name_of(path)
        for path in python_files("src", "tests")
        if mock.search(path.read_text(encoding="utf-8"))
    ]
    assert not names, f"write a fake instead of a mock: {names}"


def test_package_is_marked_as_typed() -> None:
    assert (PACKAGE / "py.typed").exists()


def test_pins_have_hashes_and_no_url() -> None:
    for name in ("server.txt", "run.txt", "dev.txt", "lock.txt"):
        text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
        assert "://" not in text, name
        pins = re.findall(r"^[a-z0-9][\w.-]*==", text, flags=re.MULTILINE)
        hashed = re.findall(
            r"^[a-z0-9][\w.-]*==[^\n]*\\\n +--hash=sha256:", text, flags=re.MULTILINE
        )
        assert len(pins) == len(hashed) > 0, name


def test_state_machines_have_time_to_shrink_a_failure() -> None:
    """A state machine that only generates examples never shortens a failure."""
    short = [
        name_of(path)
        for path in python_files("tests")
        if path.name.startswith("test_")
        and "run_state_machine_as_test(\n" in (text := path.read_text("utf-8"))
        and not re.search(r"@drawing_limit\(|phases=\[Phase\.generate\]", text)
    ]
    assert short == []


@given(seconds=st.just(SHRINKING_SECONDS))
def test_drawing_tests_have_time_to_shrink_a_failure(
    request: pytest.FixtureRequest, seconds: int
) -> None:
    limit = request.node.get_closest_marker("timeout")
    assert limit.args[0] > seconds
