"""ARCHITECTURE.md names modules and what is in them: each name is there."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "forewarn"

NAME = re.compile(r"`((?:[a-z_]+/)+[a-z_]+)(?:\.py)?(?::(\w+))?`")
"""Such as `control/plane.py:Plane`, `admin/access.py` or `service/option_table`."""


def named() -> list[tuple[str, str]]:
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    return sorted({(hit[1], hit[2] or "") for hit in NAME.finditer(text)})


def module_of(path: str) -> Path | None:
    """Return the module or package that a path names, from the package or the root."""
    for top in (PACKAGE, ROOT):
        for place in (top / f"{path}.py", top / path):
            if place.exists():
                return place
    return None


def name_of(node: ast.AST) -> str:
    """Return the name that a node defines: of a class, a function or a value."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name
        case ast.AnnAssign(target=ast.Name(id=name)):
            return name
        case _:
            return getattr(node, "name", "")


def test_every_module_named_in_the_architecture_exists() -> None:
    missing = [path for path, _ in named() if module_of(path) is None]
    assert not missing, missing
    assert len(named()) > 40


def test_every_name_in_the_architecture_is_defined_in_its_module() -> None:
    missing: list[str] = []
    for path, name in named():
        place = module_of(path)
        if not name or place is None:
            continue
        file = place / "__init__.py" if place.is_dir() else place
        defined = {
            name_of(node) for node in ast.walk(ast.parse(file.read_text("utf-8")))
        }
        if name not in defined:
            missing.append(f"{path}:{name}")
    assert not missing, missing
