"""No test waits less than a minute for a process.

A limit is there to end a test that hangs. On a machine under load a process may take
many times as long to start as usual, so a tight limit fails tests that are right.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import processes, simulators

ROOT = Path(__file__).resolve().parents[2]

SECONDS_MIN = 60

_RUNS = frozenset({"run", "check_output", "check_call", "call", "communicate"})


def _number(node: ast.expr | None) -> float | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    return None


def _is_process(holder: ast.expr) -> bool:
    return ast.unparse(holder).endswith(("process", "daemon", "Popen"))


def short_waits(source: str) -> Iterator[tuple[int, float]]:
    """Yield line and seconds of each literal limit on a process that is too tight."""
    if not any(f".{name}(" in source for name in {*_RUNS, "wait"}):
        return  # to parse it takes most of the time
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        name = node.func.attr
        seconds: float | None = None
        if name in _RUNS:
            limits = [word.value for word in node.keywords if word.arg == "timeout"]
            seconds = _number(limits[0]) if limits else None
        elif name == "wait" and _is_process(node.func.value):
            arguments = [*node.args, *(word.value for word in node.keywords)]
            seconds = _number(arguments[0]) if arguments else None
        if seconds is not None and seconds < SECONDS_MIN:
            yield node.lineno, seconds


def test_process_waits_are_found_in_source() -> None:
    source = """
subprocess.run(words, timeout=30)
found.process.wait(20)
process.wait(timeout=5)
daemon.communicate(timeout=10)
subprocess.run(words, timeout=60)
process.wait(PATIENCE_SECONDS)
event.wait(1)
"""
    assert list(short_waits(source)) == [(2, 30), (3, 20), (4, 5), (5, 10)]


@pytest.mark.parametrize("directory", ["tests", "bench"])
def test_no_wait_for_a_process_is_shorter_than_a_minute(directory: str) -> None:
    too_short = [
        f"{file.relative_to(ROOT)}:{line}: {seconds:g} s"
        for file in sorted((ROOT / directory).rglob("*.py"))
        for line, seconds in short_waits(file.read_text("utf-8"))
    ]
    assert too_short == []


def test_helper_timeouts_are_at_least_a_minute() -> None:
    limits = (processes.PATIENCE_SECONDS, simulators.SECONDS)
    assert min(limits) >= SECONDS_MIN
