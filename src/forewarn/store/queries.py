"""The hand-written SQL in `sql/`, by name.

A file begins with a comment. A statement begins with the line
`-- name: vms_on_host`, followed by a sentence that describes it, and SQL with named
parameters. `load` completes statements with names of columns, never with values.
"""

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import resources
from typing import Any, cast

from forewarn.store import kinds, questions, statements
from forewarn.store.codec import Codec

COUNTED = frozenset(
    query.name
    for query in (
        kinds.HOSTS_AT_PLACE,
        kinds.ROOMS_AT_WORK,
        kinds.ROOMS_AWAY,
        kinds.ALL_CAMPAIGNS,
        kinds.CAMPAIGNS_OPEN,
        kinds.ROLLOUTS_IMPLYING,
        kinds.ROLLOUTS_IMPLYING_OPEN,
    )
)
"""The queries whose records can be counted without reading them."""

LATEST = frozenset(
    query.name
    for query in (
        kinds.ALL_AUDIT,
        kinds.AUDIT_OF_SUBJECT,
        kinds.ALL_OPERATIONS,
        kinds.OPERATIONS_OF_VM,
        kinds.OPERATIONS_OF_SCOPE,
        kinds.OPERATIONS_OF_REQUEST,
        kinds.OPERATIONS_IN_STATE,
        kinds.ALL_CAMPAIGNS,
        kinds.CAMPAIGNS_OPEN,
        kinds.ROLLOUTS_IMPLYING,
        kinds.ROLLOUTS_IMPLYING_OPEN,
    )
)
"""The queries whose records can be read from the last one on: those of the history and the campaigns."""

_NAME = re.compile(r"^-- name: *(.*)$\n", re.MULTILINE)
_ORDERED = re.compile(r"(.*?)(?:\s+ORDER BY ([^;]*))?;", re.DOTALL)
"""A statement, and its order if it has one."""
_FOR_VALUE = re.compile(
    r"SELECT \* FROM (.*) (?:AND|WHERE) (?:(\w+) = :value|:value = '');", re.DOTALL
)
"""A statement for rows with a value in one column, or for the empty value: the other
conditions, and the column."""
_EVERY = re.compile(r"\ASELECT (|\w+\.)\*")
"""The beginning of a statement for whole records."""
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
            raise ValueError(f"{name} is defined twice")
        statements[name] = match[2]
    return statements


def load(codecs: Iterable[Codec[Any]]) -> Mapping[str, str]:
    """Return the statements for all questions in the module `kinds`, by name."""
    written = parse(read_sql("queries.sql"))
    codec_of = {codec.kind: codec for codec in codecs}
    texts = {"audit_keys": written["audit_keys"]}
    for item in vars(kinds).values():
        if isinstance(item, questions.Question):
            question = cast("questions.AnyQuestion[Any]", item)
            codec = codec_of[question.kind]
            for name, sql in _complete(question, codec, written).items():
                texts[name] = _EVERY.sub(_listing(codec), sql)
                if name in LATEST:
                    texts[f"latest_{name}"] = _from_the_end(texts[name])
    return texts


def _listing(codec: Codec[Any]) -> Callable[[re.Match[str]], str]:
    """Return what names the columns of records instead of a star.

    A newer version can add columns while this one reads.
    """

    def listed(found: re.Match[str]) -> str:
        return "SELECT " + ", ".join(f"{found[1]}{name}" for name in codec.columns)

    return listed


def _complete(
    question: questions.AnyQuestion[Any], codec: Codec[Any], written: Mapping[str, str]
) -> dict[str, str]:
    """Return the statements that answer one question, by name."""
    name, key = question.name, codec.key
    if name.startswith("all_"):
        page = _page(f"SELECT * FROM {codec.table} WHERE :value = ''", key)  # noqa: S608
        return {name: page, **_count(name, page)}
    if ":limit" in written[name]:
        return {name: written[name]}
    parts = _ORDERED.fullmatch(written[name])
    assert parts is not None, "a statement ends with a semicolon"
    sql, order = parts.groups("")
    if isinstance(question, questions.Query):
        page = _page(sql, f"links.{key}" if " AS links" in sql else key)
        return {name: page, **_count(name, page)}
    if isinstance(question, questions.Range):
        first = sql.replace("SELECT *", f"SELECT {order}", 1)
        until = f"{sql} AND {order} <= :until ORDER BY {order}, {key} LIMIT :limit"
        return {name: until, f"earliest_{name}": f"{first} ORDER BY {order} LIMIT 1"}
    terms = order.split(", ")
    highest = ", ".join(f"{term} DESC" for term in terms)
    return {
        name: f"{sql} ORDER BY {highest} LIMIT :limit",
        f"lowest_{name}": f"{sql} ORDER BY {order} LIMIT :limit",
        f"above_{name}": f"{sql} AND {terms[0]} > :above ORDER BY {order} LIMIT :limit",
    }


BETWEEN = "BETWEEN ? AND ?"
AMONG = "IN (SELECT value FROM json_each(?))"
"""Conditions for the values of a query."""


def columns(
    query: questions.Query[Any],
    names: Sequence[str],
    codec: Codec[Any],
    condition: str = "",
) -> str:
    """Return the statement that gets columns of the records under all values of a query.

    Its statement ends with the condition for the value. With `BETWEEN`, the result has
    two parameters, the first value and the last one; with `AMONG`, a JSON array of values.
    """
    if query.name.startswith("all_"):
        return statements.columns(codec.table, names, [codec.key])
    source, column = _source(query)
    if condition:
        assert column, f"{query.name} finds rows under one value only"
        word = "AND" if " WHERE " in source else "WHERE"
        source = f"{source} {word} {column} {condition}"
    return statements.columns(source, names, [*filter(None, [column]), codec.key])


def those_found(query: questions.Query[Any]) -> str:
    """Return the statement that gets the values of a JSON array which have a record."""
    source, column = _source(query)
    assert column, f"{query.name} finds rows under one value only"
    table, _, conditions = source.partition(" WHERE ")
    before = f"{conditions} AND " if conditions else ""
    return statements.those_found(table, before + column)


@functools.cache
def _source(query: questions.Query[Any]) -> tuple[str, str]:
    """Return the table of a query with its conditions, and the column of its values.

    The column is empty if the query finds records under the empty value only.
    """
    match = _FOR_VALUE.fullmatch(parse(read_sql("queries.sql"))[query.name])
    assert match is not None, f"{query.name} does not find rows by one column"
    return match[1], match[2] or ""


def _from_the_end(page: str) -> str:
    """Return the statement for the page of a query that ends at a key, backwards."""
    turned = page.replace(" > :after", " < :before")
    return turned.replace(" LIMIT :limit", " DESC LIMIT :limit")


def _count(name: str, page: str) -> dict[str, str]:
    """Return the statement that counts the rows of a page, by its name.

    Only the questions that code counts have one.
    """
    if name not in COUNTED:
        return {}
    return {f"count_{name}": f"SELECT COUNT(*) FROM ({page})"}  # noqa: S608


def _page(sql: str, key: str) -> str:
    return f"{sql} AND {key} > :after ORDER BY {key} LIMIT :limit"
