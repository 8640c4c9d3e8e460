"""The translation of forewarn's statements into the dialect of PostgreSQL.

The statements and the schema are written once, for SQLite. They use few features, and
differ from PostgreSQL in these: the form of parameters, hints that name an index, the
order of joins, flags (integers that are 0 or 1), and the types of columns. Texts are
compared by their bytes, as SQLite does, so that all stores have the same order.
Pure.
"""

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

from forewarn.store.statements import Verb, Write

TEXT = 'text COLLATE "C"'

TYPES: Mapping[str, str] = {"TEXT": TEXT, "INTEGER": "bigint"}
"""The type of a column, by its type in SQLite."""

PAGE_ROWS = 500
"""Rows of a large result that are read together."""

FLAGS = (
    "implied",
    "is_cordoned",
    "is_observed",
    "is_planned_work",
    "is_up",
    "movable",
)
"""The columns with 0 or 1 that statements use as conditions."""

_FLAG = "|".join(FLAGS)

Rewrite = tuple[re.Pattern[str], str]

_CONDITIONS: tuple[Rewrite, ...] = (
    (re.compile(rf"\bNOT ({_FLAG})\b"), r"\1 = 0"),
    (re.compile(rf"(?<=WHERE )({_FLAG})\b(?! *[=<>!])"), r"\1 = 1"),
    (re.compile(rf"(?<=AND )({_FLAG})\b(?! *[=<>!])"), r"\1 = 1"),
    (re.compile(rf"(?<=OR )({_FLAG})\b(?! *[=<>!])"), r"\1 = 1"),
    # The conversion of a number in a concatenation depends on settings, and an index
    # must not.
    (
        re.compile(r"\|\| '/' \|\| fault_domain\b"),
        "|| '/' || CAST(fault_domain AS text)",
    ),
)

_STATEMENT: tuple[Rewrite, ...] = (
    (re.compile(r" INDEXED BY \w+"), ""),
    # The order of a join is a hint in SQLite only.
    (re.compile(r"\bCROSS JOIN (\w+(?: AS \w+)?) (USING|ON)\b"), r"JOIN \1 \2"),
    (
        re.compile(r"\bjson_each\(([\w.?]+)\) AS (\w+)"),
        r"jsonb_array_elements_text(CAST(\1 AS jsonb)) AS \2(value)",
    ),
    (
        re.compile(r"\bIN \(SELECT value FROM json_each\(\?\)\)"),
        "IN (SELECT jsonb_array_elements_text(CAST(? AS jsonb)))",
    ),
    (
        re.compile(r"\bjson_extract\(([\w.]+), '\$\.(\w+)'\)"),
        r"(CAST(\1 AS jsonb) ->> '\2')",
    ),
    (
        re.compile(r"\bjson_extract\(([\w.]+), '\$\[(\d)\]'\)"),
        r"(CAST(\1 AS jsonb) ->> \2)",
    ),
    (re.compile(r"\A(SELECT COUNT\(\*\) FROM \(.*\))\Z", re.DOTALL), r"\1 AS page"),
    *_CONDITIONS,
    (re.compile(r"(?<!:):(\w+)"), r"%(\1)s"),
    (re.compile(r"\?"), "%s"),
)


@functools.cache
def statement(sql: str) -> str:
    """Return a statement that reads rows, with the parameters of psycopg."""
    assert "%" not in sql, "a percent sign begins a parameter"
    return _rewritten(sql.removesuffix(";"), _STATEMENT)


def _rewritten(sql: str, rewrites: Iterable[Rewrite]) -> str:
    for pattern, text in rewrites:
        sql = pattern.sub(text, sql)
    return sql


_COLUMN = re.compile(r"\b(TEXT|INTEGER)\b")
_COMMENT = re.compile(r"--[^\n]*")


def definition(sql: str) -> str:
    """Return the definition of a table or an index of the schema."""
    plain = _COMMENT.sub("", sql).replace("WITHOUT ROWID", "")
    types = _COLUMN.sub(lambda found: TYPES[found[1]], plain)
    return _indexed(_rewritten(types, _CONDITIONS))


_INDEX = re.compile(
    r"(CREATE INDEX \w+ ON \w+\s*\()(.*?)(\)(?:\s*WHERE .*)?\s*)\Z", re.DOTALL
)
_OPERATOR = re.compile(r"\|\||(?<=\w) - (?=\w)")


def _indexed(sql: str) -> str:
    """Put the expressions of an index in parentheses."""
    match = _INDEX.fullmatch(sql.strip())
    if match is None:
        return sql
    terms = [term.strip() for term in _terms(match[2])]
    columns = [f"({term})" if _OPERATOR.search(term) else term for term in terms]
    return f"{match[1]}{', '.join(columns)}{match[3]}"


def _terms(text: str) -> list[str]:
    """Split at the commas that are not in parentheses."""
    terms, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            terms.append("")
        else:
            terms[-1] += letter
    return terms


def write(statement: Write, type_of: Callable[[str], str]) -> str:
    """Return a statement that writes many rows, with one array for each column.

    `type_of` returns the type of a column of the table.
    """
    names = (*statement.columns, *statement.guards)
    arrays = ", ".join(f"%s::{type_of(name)}[]" for name in names)
    table = statement.table
    if statement.verb is Verb.ADD:
        sql = f"INSERT INTO {table} ({_listed(names)}) SELECT * FROM unnest({arrays})"  # noqa: S608
        new = statement.new_key
        return f"{sql} ON CONFLICT ({new}) DO NOTHING" if new else sql
    places = [f"v{number}" for number in range(len(names))]
    source = f"unnest({arrays}) AS given({', '.join(places)})"
    guards = places[len(statement.columns) :]
    same = " AND ".join(
        f"{table}.{name} = given.{place}"
        for name, place in zip(statement.guards, guards, strict=True)
    )
    if statement.verb is Verb.REMOVE:
        return f"DELETE FROM {table} USING {source} WHERE {same}"  # noqa: S608
    pairs = zip(statement.columns, places, strict=False)
    changes = ", ".join(f"{name} = given.{place}" for name, place in pairs)
    return f"UPDATE {table} SET {changes} FROM {source} WHERE {same}"  # noqa: S608


def array(values: Iterable[str | int | None]) -> str:
    """Return the values of a column as the text of an array.

    psycopg adapts each member of a list by itself, in Python, which takes as long as the
    decision about an approval.
    """
    members = values if isinstance(values, tuple) else tuple(values)
    kinds = {*map(type, members)}
    if kinds == {int}:
        return f"{{{','.join(map(str, members))}}}"
    if kinds == {str}:
        # No text in PostgreSQL has the separator. If one has it, the server refuses it.
        joined = _SEPARATOR.join(cast("tuple[str, ...]", members))
        if joined.count(_SEPARATOR) == len(members) - 1:
            escaped = joined.replace("\\", r"\\").replace('"', r"\"")
            between = escaped.replace(_SEPARATOR, '","')
            return f'{{"{between}"}}'
    return f"{{{','.join(map(_member, members))}}}"


_SEPARATOR = "\0"
"""Separator of the texts of an array while it is written: one call escapes them all."""


def _member(value: str | int | None) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        escaped = value.replace("\\", r"\\").replace('"', r"\"")
        return f'"{escaped}"'
    return str(int(value))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
