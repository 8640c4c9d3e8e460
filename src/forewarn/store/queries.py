"""The questions: hand-written SQL in `sql/`, each known by its name.

A file opens with a comment of its own. A statement begins with the line
`-- name: vms_on_host`, then a sentence that says what it does, then SQL with
named parameters. Nothing is pasted into a statement, here or later.
"""

import re
from collections.abc import Mapping
from importlib import resources

_NAME = re.compile(r"^-- name: *(.*)$\n", re.MULTILINE)
_STATEMENT = re.compile(r"((?:-- .*\n)+)([^-][^;]*;)\s*")


def read_sql(file: str) -> str:
    """Return the text of a file of `sql/`."""
    return resources.files("forewarn.store").joinpath("sql", file).read_text("utf-8")


def parse(text: str) -> dict[str, str]:
    """Return the statements of `text` by name; raises ValueError."""
    _, *blocks = _NAME.split(text)
    statements: dict[str, str] = {}
    for name, block in zip(blocks[::2], blocks[1::2], strict=True):
        match = _STATEMENT.fullmatch(block)
        if not match:
            raise ValueError(f"{name} is not one sentence and one statement")
        if name in statements:
            raise ValueError(f"{name} stands there twice")
        statements[name] = match[2]
    return statements


def load_checks() -> Mapping[str, str]:
    """Return the statements of `forewarn store check` by name."""
    return parse(read_sql("check.sql"))


def load() -> Mapping[str, str]:
    """Return all statements by name."""
    return parse(read_sql("queries.sql"))
