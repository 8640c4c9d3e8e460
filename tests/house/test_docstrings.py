"""Names in the docstrings of functions exist.

A name in backticks is looked up in the function, then in its module, then among all
definitions and short texts of the package. A name that the language guide discourages
must be in the function itself: it is usually left over from a renaming.
"""

import ast
import builtins
import keyword
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.house.test_language import DISCOURAGED_NAMES
from tests.support.sources import statements

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "forewarn"
OLD = DISCOURAGED_NAMES | {
    "desk",
    "leash",
    "named",
    "trail",
    "wish",
    "wished",
}
WORD = re.compile(r"`([a-z_]\w*)`")
TEXT_CHARACTERS_MAX = 60  # commands and keys are short; longer texts are sentences

ELSEWHERE = frozenset(
    {
        "pg_cancel_backend",  # a function of PostgreSQL
        "x00000i",  # an example of a name
        "x_18",  # the same
    }
)
"""Names of other programs, and of examples."""


def names_in(tree: ast.AST) -> set[str]:
    """Return all identifiers in a part of a module."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.arg(arg=name) | ast.Name(id=name) | ast.Attribute(attr=name):
                names.add(name)
            case ast.keyword(arg=str(name)):
                names.add(name)
            case ast.alias(name=name):
                names.update((node.asname or name).split("."))
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.AsyncFunctionDef(name=name):
                names.add(name)
            case _:
                pass
    return names


def defined_in(tree: ast.AST) -> set[str]:
    """Return the functions, classes and fields of a module, and the words in its short
    texts."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.ClassDef(name=name, body=body):
                fields = (
                    statement
                    for statement in body
                    if isinstance(statement, ast.AnnAssign)
                )
                names |= {name, *(ast.unparse(field.target) for field in fields)}
            case ast.Constant(value=str(text)) if len(text) < TEXT_CHARACTERS_MAX:
                names.update(re.findall(r"\w+", text))
            case _:
                pass
    return names


@cache
def known() -> frozenset[str]:
    """Return the names that any docstring can use."""
    names = {*dir(builtins), *keyword.kwlist, *sys.stdlib_module_names, *ELSEWHERE}
    for path in PACKAGE.rglob("*.py"):
        names |= {path.stem, path.parent.name}
        names |= defined_in(ast.parse(path.read_text("utf-8")))
    return frozenset(names - OLD)


def unknown_names(text: str) -> Iterator[str]:
    """Yield each name in a docstring of a module that does not exist."""
    module = ast.parse(text)
    around: set[str] | None = None
    functions = [
        node
        for node in statements(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    for node in sorted(functions, key=lambda function: function.lineno):
        mentioned = set(WORD.findall(ast.get_docstring(node) or ""))
        # Most docstrings name nothing, or what the whole package knows.
        unknown = mentioned - known()
        if not unknown:
            continue
        around = names_in(module) - OLD if around is None else around
        for word in sorted(unknown - names_in(node) - around):
            yield f"{node.lineno}: {node.name}: `{word}`"


def test_names_in_docstrings_exist() -> None:
    stale = [
        f"{path.relative_to(ROOT)}:{name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for name in unknown_names(path.read_text("utf-8"))
    ]
    assert not stale, "\n".join(stale)


def test_a_renamed_parameter_is_found() -> None:
    text = """
def judge(status: int, output: str) -> None:
    '''Judge a `status`; `said` is the last line, and `nothing_like_it` is unknown.'''
    said = output
    print(status, said)

def other(output: str) -> None:
    '''Take `said`, which is the parameter of another function.'''
"""
    assert list(unknown_names(text)) == [
        "2: judge: `nothing_like_it`",
        "7: other: `said`",
    ]
