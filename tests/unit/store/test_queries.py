"""Each statement has a question, uses an index, and is well-formed."""

import dataclasses
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from forewarn.fleet.model import Host, HostState
from forewarn.store import codec, kinds, queries, statements
from forewarn.store.migrate import load_steps
from forewarn.store.questions import Query, Range, Ranking

CODECS: tuple[codec.Codec[Any], ...] = codec.CODECS

QUERIES = queries.load(CODECS)
WRITES = {
    f"{what} {known.noun}": sql
    for known in CODECS
    for what, sql in (
        ("get", known.get),
        ("remove", known.remove.sql),
        (
            "update",
            statements.update(known.table, tuple(known.columns), known.guards).sql,
        ),
    )
} | {
    f"remove {links.noun}": links.remove.sql
    for known in CODECS
    for links in known.links
}
STATEMENTS = {**QUERIES, **WRITES}


@pytest.fixture(scope="module")
def database() -> Iterator[sqlite3.Connection]:
    """Yield a database with the schema, which no test can change."""
    connection = sqlite3.connect(":memory:")
    for step in load_steps():
        connection.executescript(step.sql)
    connection.execute("PRAGMA query_only = ON")
    yield connection
    connection.close()


def wanted_names() -> Iterator[str]:
    for item in vars(kinds).values():
        if isinstance(item, Query):
            yield item.name
        elif isinstance(item, Range):
            yield item.name
            yield f"earliest_{item.name}"
        elif isinstance(item, Ranking):
            yield item.name
            yield f"lowest_{item.name}"
            yield f"above_{item.name}"
    yield "audit_keys"
    yield from (f"count_{name}" for name in queries.COUNTED)
    yield from (f"latest_{name}" for name in queries.LATEST)


def given(sql: str) -> dict[str, str] | tuple[str, ...]:
    """Return an empty text for each parameter."""
    names = re.findall(r":(\w+)", sql)
    return dict.fromkeys(names, "") if names else ("",) * sql.count("?")


def test_queries_and_statements_match() -> None:
    assert sorted(QUERIES) == sorted(wanted_names())
    assert set(queries.parse(queries.read_sql("queries.sql"))) <= QUERIES.keys()


def test_every_kind_has_a_codec() -> None:
    assert tuple(known.kind for known in CODECS) == kinds.KINDS


def test_statements_are_built_from_the_columns() -> None:
    known: codec.Codec[Host] = next(
        found_codec for found_codec in CODECS if found_codec.kind is Host
    )
    listed = ", ".join(known.columns)
    assert known.get == f"SELECT {listed} FROM hosts WHERE name = ?"
    assert known.add.sql == (
        "INSERT INTO hosts (name, applied, found, revision, zone, cluster, rack, pool,"
        " capacity, vcpu, memory, labels, last, state, cordons, drift_of)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO NOTHING"
    )
    assert known.remove.sql == (
        "DELETE FROM hosts WHERE name = ? AND revision = ? AND state = ?"
    )


def test_update_contains_the_changed_columns_and_the_guard() -> None:
    known: codec.Codec[Host] = next(
        found_codec for found_codec in CODECS if found_codec.kind is Host
    )
    old = Host(name="h1", revision=3)
    new = replace(old, state=HostState.DOWN, capacity=7, revision=4)
    statement, values = known.change(old, new)
    assert statement.sql == (
        "UPDATE hosts SET revision = ?, capacity = ?, state = ?"
        " WHERE name = ? AND revision = ? AND state = ?"
    )
    assert values == (4, 7, "down", "h1", 3, "up")


@pytest.mark.parametrize("known", CODECS, ids=lambda known: known.noun)
def test_links_have_the_key_of_their_record(known: codec.Codec[Any]) -> None:
    for links in known.links:
        assert links.columns[1] == known.key
        assert links.noun.endswith(links.columns[0])


@pytest.mark.parametrize("known", CODECS, ids=lambda known: known.noun)
def test_each_insert_fits_its_table(
    database: sqlite3.Connection, known: codec.Codec[Any]
) -> None:
    for sql in (known.add.sql, *(links.add.sql for links in known.links)):
        database.execute(f"EXPLAIN {sql}", given(sql))


@pytest.mark.parametrize("known", CODECS, ids=lambda known: known.noun)
def test_record_with_a_state_is_guarded_by_it(known: codec.Codec[Any]) -> None:
    fields = {field.name for field in dataclasses.fields(known.kind)}
    assert {known.status} - {""} == fields & {"state", "status"}


GATHERING = {"audit_of_subject", "latest_audit_of_subject"}
"""Statements that gather keys from several places and sort them."""


@pytest.mark.parametrize("name", STATEMENTS)
def test_statements_read_only_the_rows_that_they_need(
    database: sqlite3.Connection, name: str
) -> None:
    """No statement reads a whole table, or sorts what it has read."""
    statement = STATEMENTS[name]
    plan = database.execute(
        f"EXPLAIN QUERY PLAN {statement}", given(statement)
    ).fetchall()
    for *_, detail in plan:
        if name.startswith("count_") and re.match(r"CO-ROUTINE|SCAN \(sub", detail):
            continue  # the page that is counted
        if name in GATHERING:
            # What the subject's operations wrote is gathered, and nothing else read.
            assert not detail.startswith("SCAN ") or "VIRTUAL TABLE" in detail, detail
            continue
        if name.startswith("earliest_"):
            assert re.match(r"SCAN \w+ USING (COVERING )?INDEX", detail)
        else:
            assert detail.startswith("SEARCH "), detail
            assert " USING " in detail


def test_each_partial_index_is_used_by_a_query(
    database: sqlite3.Connection,
) -> None:
    """An index with a condition is used only if the query repeats it."""
    partial = [
        name
        for (name,) in database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'index' AND sql LIKE '%WHERE%'"
        )
    ]
    plans = " ".join(
        detail
        for statement in STATEMENTS.values()
        for *_, detail in database.execute(
            f"EXPLAIN QUERY PLAN {statement}", given(statement)
        )
    )
    assert len(partial) > 10
    assert [name for name in partial if f"INDEX {name} " not in f"{plans} "] == []


def test_no_table_has_rowids(database: sqlite3.Connection) -> None:
    tables = database.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'table'"
    ).fetchall()
    assert len(tables) > len(kinds.KINDS)
    assert [name for name, sql in tables if "WITHOUT ROWID" not in sql] == []


def test_every_table_has_a_comment() -> None:
    for step in load_steps():
        for block in step.sql.split("\n\n"):
            if "CREATE TABLE" in block:
                assert block.startswith("-- "), block


@pytest.mark.parametrize(
    "text",
    [
        "-- name: a\nSELECT 1;\n",
        "-- name: a\n-- It has no end.\nSELECT 1\n",
        "-- name: a\n-- There are two.\nSELECT 1;\nSELECT 2;\n",
        "-- name: a\n-- One.\nSELECT 1;\n\n-- name: a\n-- Again.\nSELECT 1;\n",
    ],
)
def test_malformed_file_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^a is"):
        queries.parse(text)


def test_statements_are_parsed_by_name_without_comments() -> None:
    text = "-- About.\n\n-- name: a\n-- Say\n-- one.\nSELECT\n  1;\n\n-- name: b\n-- Two.\nSELECT 2;\n"
    assert queries.parse(text) == {"a": "SELECT\n  1;", "b": "SELECT 2;"}
