"""The decisions stand on few floors: a module is understood with the modules below it.

A floor is a place in the longest chain of imports that begins at a module. The layers of
the packages are in pyproject.toml; this counts the modules of `control`.
"""

import ast
from functools import cache
from pathlib import Path

from tests.support.pages import ROOT

CONTROL = ROOT / "src" / "forewarn" / "control"

FLOORS_MAX = 18
"""The longest chain of modules. It may only fall: move what both need to a lower module."""


def modules() -> dict[str, Path]:
    """Return the modules of control with their files."""
    source = ROOT / "src"
    return {
        ".".join(file.relative_to(source).with_suffix("").parts): file
        for file in CONTROL.rglob("*.py")
    }


def imports(module: str, files: dict[str, Path]) -> set[str]:
    """Return the modules of control that a module imports."""
    tree = ast.parse(files[module].read_text("utf-8"))
    names = {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
        for name in (node.module, f"{node.module}.{alias.name}")
    }
    return names & set(files) - {module}


def test_longest_chain_of_modules_does_not_grow() -> None:
    files = modules()
    below = {module: imports(module, files) for module in files}

    @cache
    def chain(module: str) -> tuple[str, ...]:
        longest = max(map(chain, below[module]), key=len, default=())
        return (module, *longest)

    longest = max(map(chain, files), key=len)
    assert len(longest) == FLOORS_MAX, "\n".join(longest)
