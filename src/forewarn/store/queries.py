"""The statements: hand-written SQL in `sql/`, each known by its name.

A file opens with a comment of its own. A statement begins with the line
`-- name: vms_on_host`, then a sentence that says what it does, then SQL with
named parameters. Nothing is pasted into a statement, here or later.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

_FILES = ("queries.sql", "records.sql")
_NAME = re.compile(r"^-- name: *(.*)$\n", re.MULTILINE)
_PARAMETER = re.compile(r":([a-z_]+)")
_STATEMENT = re.compile(r"((?:-- .*\n)+)([^-][^;]*;)\s*")


def read_sql(file: str) -> str:
    """Return the text of a file of `sql/`."""
    return resources.files("forewarn.store").joinpath("sql", file).read_text("utf-8")


@dataclass(frozen=True, slots=True)
class Numbered:
    """A statement that is run many times over: its parameters have numbers.

    To find each value by its name, row by row, costs as much as to put it in.
    """

    sql: str
    names: tuple[str, ...]
    """What the numbers stand for, in the order in which they come first."""


def numbered(sql: str) -> Numbered:
    """Return the statement with `?1` for the first of its names, and so on."""
    names = tuple(dict.fromkeys(_PARAMETER.findall(sql)))
    numbers = {name: f"?{number}" for number, name in enumerate(names, start=1)}
    return Numbered(_PARAMETER.sub(lambda found: numbers[found[1]], sql), names)


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
    return {name: sql for file in _FILES for name, sql in parse(read_sql(file)).items()}
