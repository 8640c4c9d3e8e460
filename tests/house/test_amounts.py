"""A test is marked `amounts` if the numbers of a run change it, and only then.

`make far` repeats the tests with this mark. Without the mark, a test would never be run with
the larger numbers. With the mark but without numbers, it would run twice in the same way.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
MARK = "pytest.mark.amounts"
DRAWING = {"given", "run_state_machine_as_test"}
"""Calls that draw as many examples as the profile of the run sets."""


def _names(node: ast.AST) -> set[str]:
    return {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}


def _has_number(node: ast.AST) -> bool:
    """Return whether a part of a module asks for a number of the run itself."""
    return any(
        ast.unparse(child) == "settings().max_examples"
        if isinstance(child, ast.Attribute) and child.attr == "max_examples"
        else isinstance(child, ast.Call) and ast.unparse(child.func) == "amounts"
        for child in ast.walk(node)
    )


def _defined(node: ast.stmt) -> set[str]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return {node.name}
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return {name for target in targets for name in _names(target)}
    return set()


def _with_numbers(module: ast.Module) -> set[str]:
    """Return the names of a module that depend on a number of the run."""
    names = set[str]()
    while True:
        more = {
            name
            for node in module.body
            if _has_number(node) or _names(node) & names
            for name in _defined(node)
        }
        if more <= names:
            return names
        names |= more


def errors_of(text: str, fixtures: str = "") -> Iterator[str]:
    """Yield the tests of a module that lack the mark, or have it without need.

    `fixtures` is the text of the module with the fixtures of its directory.
    """
    module = ast.parse(text)
    with_numbers = _with_numbers(module)
    fixtures_with_numbers = _with_numbers(ast.parse(fixtures))
    all_marked = any(
        "pytestmark" in _defined(node) and MARK in ast.unparse(node)
        for node in module.body
    )
    for node in module.body:
        if not isinstance(node, ast.FunctionDef) or not node.name.startswith("test_"):
            continue
        fixtures_used = {argument.arg for argument in node.args.args}
        needs = node.name in with_numbers or bool(fixtures_used & fixtures_with_numbers)
        is_marked = all_marked or any(
            MARK in ast.unparse(decorator) for decorator in node.decorator_list
        )
        if needs and not is_marked:
            yield f"{node.name} is not marked"
        elif is_marked and not needs and not _names(node) & DRAWING:
            yield f"{node.name} is marked, and would run twice with the same numbers"


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        ("def test_a():\n    assert amounts().kills", ["test_a is not marked"]),
        ("N = amounts().kills\ndef test_a():\n    f(N)", ["test_a is not marked"]),
        (
            "def f():\n    return settings().max_examples\ndef test_a():\n    f()",
            ["test_a is not marked"],
        ),
        (f"pytestmark = {MARK}\ndef test_a():\n    assert amounts().kills", []),
        (f"@{MARK}\n@given(x())\ndef test_a(y):\n    pass", []),
        (
            f"pytestmark = [{MARK}]\ndef test_a():\n    pass",
            ["test_a is marked, and would run twice with the same numbers"],
        ),
        ("def test_a():\n    pass", []),
    ],
)
def test_missing_and_needless_marks_are_reported(text: str, errors: list[str]) -> None:
    assert [*errors_of(text)] == errors


def test_fixture_with_a_number_counts() -> None:
    fixtures = "def kills(request):\n    return amounts().kills"
    errors = errors_of("def test_a(kills):\n    assert kills", fixtures)
    assert [*errors] == ["test_a is not marked"]


def test_tests_are_marked_whose_amounts_differ_between_runs() -> None:
    errors = list[str]()
    marked = 0
    for path in TESTS.rglob("test_*.py"):
        text = path.read_text("utf-8")
        if path == Path(__file__) or not re.search("amounts|max_examples|kills", text):
            continue
        marked += MARK in text
        shared = path.with_name("conftest.py")
        fixtures = shared.read_text("utf-8") if shared.exists() else ""
        name = path.relative_to(TESTS)
        errors.extend(f"{name}: {error}" for error in errors_of(text, fixtures))
    assert marked > 20
    assert errors == []
