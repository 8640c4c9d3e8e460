"""The statements: that each is known, used, quick and whole."""

import dataclasses
import re
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest

from forewarn.store import codec, kinds, queries
from forewarn.store.kinds import Query, Range, Ranking
from forewarn.store.migrate import load_steps

STATEMENTS = queries.load()
CODECS: tuple[codec.Codec[Any], ...] = codec.CODECS


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    for step in load_steps():
        connection.executescript(step.sql)
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
    for known in CODECS:
        yield from (f"{verb}_{known.noun}" for verb in ("get", "add", "replace"))
        yield f"remove_{known.noun}"
        yield from (f"amend_{amendment.noun}" for amendment in known.amendments)
        for links in known.links:
            yield from (f"add_{links.noun}", f"remove_{links.noun}")
    yield from ("take_safety", "audit_keys")


def parameters(statement: str) -> set[str]:
    return set(re.findall(r":(\w+)", statement))


def test_every_question_has_a_statement_and_every_statement_a_question() -> None:
    assert sorted(STATEMENTS) == sorted(wanted_names())


def test_a_statement_for_many_rows_has_numbers() -> None:
    sql = "UPDATE t SET a = :new, b = :old_b WHERE a = :old AND c = :new;"
    found = queries.numbered(sql)
    assert found.sql == "UPDATE t SET a = ?1, b = ?2 WHERE a = ?3 AND c = ?1;"
    assert found.names == ("new", "old_b", "old")


def test_no_statement_has_a_colon_that_names_nothing() -> None:
    for name, sql in STATEMENTS.items():
        # A colon may stand in a text, as in 'vm:'.
        assert ":" not in re.sub(r"'[^']*'", "''", queries.numbered(sql).sql), name


@pytest.mark.parametrize("known", CODECS, ids=lambda known: known.noun)
def test_links_are_written_in_the_order_of_their_rows(
    known: codec.Codec[Any],
) -> None:
    for links in known.links:
        added = queries.numbered(STATEMENTS[f"add_{links.noun}"]).names
        assert added == queries.numbered(STATEMENTS[f"remove_{links.noun}"]).names
        assert added[1] == known.key
        assert links.noun.endswith(added[0])


def test_every_kind_has_a_codec() -> None:
    assert tuple(known.kind for known in CODECS) == kinds.KINDS


@pytest.mark.parametrize("known", CODECS, ids=lambda known: known.noun)
def test_writes_name_every_field(known: codec.Codec[Any]) -> None:
    fields = {field.name for field in dataclasses.fields(known.kind)}
    guard = {known.key, "old_revision"}
    if known.status:
        guard.add(f"old_{known.status}")
    assert parameters(STATEMENTS[f"add_{known.noun}"]) == fields
    assert parameters(STATEMENTS[f"replace_{known.noun}"]) == fields | guard
    assert parameters(STATEMENTS[f"remove_{known.noun}"]) == guard
    for name in fields - {known.key}:
        assert f"    {name} = :{name}" in STATEMENTS[f"replace_{known.noun}"]


@pytest.mark.parametrize("known", CODECS, ids=lambda known: known.noun)
def test_amendments_name_what_they_change_and_the_guard(
    known: codec.Codec[Any],
) -> None:
    for amendment in known.amendments:
        statement = STATEMENTS[f"amend_{amendment.noun}"]
        written = {*amendment.fields, "revision"}
        guard = {known.key, "old_revision", f"old_{known.status}"}
        assert parameters(statement) == written | guard
        assert (
            set(re.findall(r"^    (\w+) = :\1,?$", statement, re.MULTILINE)) == written
        )
        assert statement.endswith(
            f"WHERE {known.key} = :{known.key} AND revision = :old_revision"
            f" AND {known.status} = :old_{known.status};"
        )


@pytest.mark.parametrize("known", CODECS, ids=lambda known: known.noun)
def test_what_has_a_state_is_guarded_by_it(known: codec.Codec[Any]) -> None:
    fields = {field.name for field in dataclasses.fields(known.kind)}
    assert {known.status} - {""} == fields & {"state", "status"}


GATHERING = {"audit_of_subject"}
"""Statements that gather keys from several places and sort them."""


@pytest.mark.parametrize("name", STATEMENTS)
def test_what_a_statement_costs_is_what_it_touches(
    database: sqlite3.Connection, name: str
) -> None:
    """No statement reads a whole table, or sorts what it has read."""
    statement = STATEMENTS[name]
    given = dict.fromkeys(parameters(statement), "")
    plan = database.execute(f"EXPLAIN QUERY PLAN {statement}", given).fetchall()
    for *_, detail in plan:
        if name in GATHERING:
            # What the subject's operations wrote is gathered, and nothing else read.
            assert not detail.startswith("SCAN ") or "VIRTUAL TABLE" in detail, detail
            continue
        if name.startswith("earliest_"):
            assert re.match(r"SCAN \w+ USING (COVERING )?INDEX", detail)
        else:
            assert detail.startswith("SEARCH "), detail
            assert " USING " in detail


def test_what_is_open_or_due_is_found_by_an_index_of_just_that(
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
            f"EXPLAIN QUERY PLAN {statement}", dict.fromkeys(parameters(statement), "")
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


def test_every_table_says_what_it_is_for() -> None:
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
def test_a_file_that_is_not_well_formed_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^a (is|stands)"):
        queries.parse(text)


def test_statements_are_taken_by_name_without_their_comments() -> None:
    text = "-- About.\n\n-- name: a\n-- Say\n-- one.\nSELECT\n  1;\n\n-- name: b\n-- Two.\nSELECT 2;\n"
    assert queries.parse(text) == {"a": "SELECT\n  1;", "b": "SELECT 2;"}
