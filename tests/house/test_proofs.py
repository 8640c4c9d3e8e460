"""The page of the argument for replicas: what it names is there."""

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "proofs.md"

ROW = re.compile(r"^\| (P(\d+)\.(\d+)) \|(.+)\|$", re.MULTILINE)
FUNCTION = re.compile(r"`(forewarn[\w.]*):([\w.]+)`")
TEST = re.compile(r"`(tests/[\w/]+\.py)(?::(\w+))?`")

ROWS = {name: text for name, _, _, text in ROW.findall(PAGE.read_text("utf-8"))}


def test_steps_are_numbered_without_gaps() -> None:
    numbers = [
        (int(part), int(step)) for _, part, step, _ in ROW.findall(PAGE.read_text())
    ]
    assert numbers == sorted(set(numbers))
    for part, step in numbers:
        assert step == 1 or (part, step - 1) in numbers
    assert {part for part, _ in numbers} == {1, 2, 3, 4, 5}


@pytest.mark.parametrize("step", ROWS)
def test_step_names_a_function_and_a_test_that_exist(step: str) -> None:
    row = ROWS[step]
    functions, tests = FUNCTION.findall(row), TEST.findall(row)
    assert tests, row
    assert functions or step.startswith("P5."), row
    for module, path in functions:
        member = importlib.import_module(module)
        for name in path.split("."):
            member = getattr(member, name)
    for file, name in tests:
        tree = ast.parse((ROOT / file).read_text("utf-8"))
        defined = {
            child.name
            for child in ast.walk(tree)
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert not name or name in defined, (file, name)


def test_words_of_the_page_are_functions_or_tests() -> None:
    """A misspelled path would not count as a path, so no test would check it."""
    for row in ROWS.values():
        for word in re.findall(r"`([^`]+)`", row):
            if "/" in word or ":" in word:
                assert FUNCTION.fullmatch(f"`{word}`") or TEST.fullmatch(f"`{word}`")
