"""ARCHITECTURE.md names modules, and the classes, functions and values in them: each
exists."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from keyword import iskeyword
from pathlib import Path

from tests.support.sources import statements

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "forewarn"

NAME = re.compile(r"`((?:[a-z_]+/)+[a-z_]+)(?:\.py)?(?::(\w+))?`")
"""Such as `control/plane.py:Plane`, `admin/access.py` or `service/option_table`."""

WORD = re.compile(r"`([A-Za-z_]\w*(?:\.\w+)*)(?:\(\))?`")
"""A name without a slash: `Work`, `release.start_if_ready` or `plane.py`."""

FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)

SOURCES = ("src", "tests", "deploy", "bench")


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


class Names:
    """The definitions of the sources: all names, those in each module or class, all files."""

    def __init__(self) -> None:
        """Start without names."""
        self.inside: defaultdict[str, set[str]] = defaultdict(set)
        self.bases: dict[str, list[str]] = {}
        self.texts: set[str] = set()

    def read(self, path: Path) -> None:
        """Add the names of a module: to it and to all packages that it is part of."""
        module = path.parent.name if path.name == "__init__.py" else path.stem
        owners = {module, path.parent.name, *path.relative_to(ROOT).parts[:-1]}
        is_test = path.is_relative_to(ROOT / "tests")
        tree = ast.parse(path.read_text("utf-8"))
        names = {path.stem, *defined_in(tree)}
        for owner in owners:
            self.inside[owner] |= names
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                self.inside[node.name].update(defined_in(node), attributes(node))
                self.bases[node.name] = [ast.unparse(base) for base in node.bases]
            elif isinstance(node, ast.arg):
                self.inside[""].add(node.arg)
            elif not is_test and isinstance(node, ast.Constant):
                self.texts.add(str(node.value))
        self.inside[""] |= names | owners

    def of(self, owner: str) -> set[str]:
        """Return the names in a module, package or class, with those of its bases."""
        inherited = (self.of(base) for base in self.bases.get(owner, ()))
        return self.inside.get(owner, set()).union(*inherited)


def defined_in(tree: ast.Module | ast.ClassDef) -> Iterator[str]:
    """Yield the names that the statements of a module or class define or import."""
    for node in statements(tree):
        yield name_of(node)
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (name.name for name in node.names)


def attributes(node: ast.ClassDef) -> Iterator[str]:
    """Yield the attributes that the methods of a class use."""
    return (child.attr for child in ast.walk(node) if isinstance(child, ast.Attribute))


@cache
def sources() -> Names:
    names = Names()
    for top in SOURCES:
        for path in (ROOT / top).rglob("*.py"):
            names.read(path)
    return names


@cache
def files() -> frozenset[str]:
    tops = (ROOT / top for top in SOURCES)
    below = (path.name for top in tops for path in top.rglob("*.*"))
    return frozenset({*below, *(path.name for path in ROOT.glob("*.*"))})


def is_there(name: str) -> bool:
    """Return whether the sources define a name: a file, a definition, an argument, or a
    word that they contain, such as a setting or a command."""
    if name in files() or name in sources().texts or iskeyword(name):
        return True
    *owners, last = name.split(".")
    return last in sources().of(owners[-1] if owners else "")


def names_without_path(text: str) -> list[str]:
    """Return the names in backticks that name no path."""
    return sorted({hit[1] for hit in WORD.finditer(FENCE.sub("", text))})


def test_every_name_without_a_path_exists() -> None:
    arguments = names_without_path((ROOT / "ARCHITECTURE.md").read_text("utf-8"))
    missing = [argument for argument in arguments if not is_there(argument)]
    assert not missing, missing
    assert len(arguments) > 200


def test_a_name_that_does_not_exist_is_found() -> None:
    text = "`Given`, `Work`, `event_json.write_messages`, `Work.finish`, `nothing.py`"
    arguments = names_without_path(text)
    assert [argument for argument in arguments if not is_there(argument)] == [
        "Given",
        "event_json.write_messages",
        "nothing.py",
    ]
