"""Migrated files equal new ones, and files of newer versions stay unchanged."""

import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import pytest

from forewarn.store import kinds
from forewarn.store.check import check
from forewarn.store.connection import Connection
from forewarn.store.migrate import Step, count_done, load_steps, migrate, statements
from forewarn.store.port import StoreError, StoreTooNewError, every
from forewarn.store.sqlite import SqliteStore
from forewarn.verbs.roles import ALL_ROLES, READ_ONLY, TENANT_ROLES
from tests.unit.store.written import write_a_life

STEPS = load_steps()
NEXT = Step(
    number=len(STEPS) + 1,
    name="9999_next.sql",
    sql="""
-- Colours of tenants.
ALTER TABLE tenants ADD COLUMN colour TEXT NOT NULL DEFAULT '';
CREATE INDEX tenants_by_colour ON tenants (colour, name);
""",
)
BROKEN = Step(
    number=len(STEPS) + 1,
    name="9999_broken.sql",
    sql="CREATE TABLE half (done TEXT);\nCREATE TABLE tenants (name TEXT);\n",
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def connection(path: Path) -> Iterator[Connection]:
    connection = Connection(path, may_make=True)
    yield connection
    connection.close()


def bring(connection: Connection, path: Path, steps: Sequence[Step]) -> None:
    migrate(connection, steps[count_done(connection, path, steps) :])


def schema(path: Path) -> list[tuple[object, ...]]:
    """Return everything that makes a schema, and the steps that were noted."""
    database = sqlite3.connect(path)
    rows = database.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    rows += database.execute("SELECT * FROM schema_steps").fetchall()
    database.close()
    return sorted(rows, key=repr)


def test_migrated_old_file_equals_a_new_one(tmp_path: Path) -> None:
    everything = (*STEPS, NEXT)
    fresh, growing = tmp_path / "fresh.db", tmp_path / "growing.db"
    connection = Connection(fresh, may_make=True)
    bring(connection, fresh, everything)
    connection.close()
    for age in range(len(everything)):
        # One step older than the last, which was closed: its file is all of it.
        connection = Connection(growing, may_make=True)
        bring(connection, growing, everything[:age])
        connection.close()
        old = tmp_path / f"old{age}.db"
        shutil.copyfile(growing, old)
        connection = Connection(old)
        bring(connection, old, everything)
        connection.close()
        assert schema(old) == schema(fresh)


def test_a_store_has_the_schema_of_all_steps(tmp_path: Path, path: Path) -> None:
    SqliteStore(path).close()
    stepped = tmp_path / "stepped.db"
    connection = Connection(stepped, may_make=True)
    bring(connection, stepped, STEPS)
    connection.close()
    assert schema(path) == schema(stepped)


def test_step_runs_once(connection: Connection, path: Path) -> None:
    bring(connection, path, STEPS)
    before = schema(path)
    bring(connection, path, STEPS)
    assert schema(path) == before


def test_failed_step_changes_nothing(connection: Connection, path: Path) -> None:
    bring(connection, path, STEPS)
    before = schema(path)
    with pytest.raises(StoreError, match="already exists"):
        bring(connection, path, (*STEPS, BROKEN))
    assert schema(path) == before
    bring(connection, path, (*STEPS, NEXT))


def test_newer_file_is_refused_and_not_changed(path: Path) -> None:
    connection = Connection(path, may_make=True)
    bring(connection, path, (*STEPS, NEXT))
    connection.close()
    before = path.read_bytes()
    for _ in range(2):  # the first did not keep the lock
        with pytest.raises(StoreTooNewError, match="newer forewarn") as caught:
            SqliteStore(path)
        assert "backup" in caught.value.hint
    assert path.read_bytes() == before


def test_file_of_another_program_is_refused_and_not_changed(path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE recipes (name TEXT)")
    database.commit()
    database.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another program") as caught:
        SqliteStore(path)
    assert "another file" in caught.value.hint
    assert path.read_bytes() == before


def test_statements_are_split_where_they_end() -> None:
    text = "-- One; and\nSELECT ';' ;\nSELECT\n  2;\n"
    assert list(statements(text)) == ["-- One; and\nSELECT ';' ;\n", "SELECT\n  2;\n"]


def test_upgrade_marks_the_time_before_records_as_unknown(path: Path) -> None:
    """What was before the records is unknown; what goes on is noted from then on."""
    write_a_life(path)
    (step,) = (step for step in STEPS if step.name.endswith("_spans.sql"))
    database = sqlite3.connect(path)
    database.execute("DROP TABLE spans")
    database.execute(
        "UPDATE operations SET action = 'freeze' WHERE state = 'Impacting'"
        " AND verb != 'fail'"
    )
    database.executescript(step.sql)
    spans = database.execute(
        "SELECT vm, kind, ended, is_exact, operation != '' FROM spans"
        " WHERE kind != 'existence' ORDER BY vm"
    ).fetchall()
    lives = database.execute(
        "SELECT count(*), max(is_exact), max(ended) FROM spans WHERE kind = 'existence'"
    ).fetchall()
    database.close()
    assert spans == [("down_0", "failure", 0, 1, 1), ("moved_0", "freeze", 0, 0, 1)]
    assert lives == [(7, 0, 0)]
    assert check(path) == []


def test_upgrade_gives_each_token_the_roles_of_its_rights(path: Path) -> None:
    connection = Connection(path, may_make=True)
    before_roles = next(step for step in STEPS if step.name == "0031_roles.sql").number
    migrate(connection, STEPS[: before_roles - 1])
    connection.run("INSERT INTO tenants VALUES ('shop', '', 0)")
    maker = '{"kind":"operator","name":"alice"}'
    for number, (tenant, read_only) in enumerate(product(("", "shop"), (0, 1))):
        connection.run(
            "INSERT INTO tokens VALUES (?, ?, ?, ?, ?, 1, ?, 7, 0, 5, 1)",
            (f"tk-{number}", f"n{number}", tenant, read_only, "0" * 64, maker),
        )
    migrate(connection, STEPS[before_roles - 1 :])
    connection.close()
    store = SqliteStore(path)
    stored = store.read(lambda reader: list(every(reader, kinds.ALL_TOKENS)))
    store.close()
    assert [token.roles for token in stored] == [
        ALL_ROLES,
        READ_ONLY,
        TENANT_ROLES,
        READ_ONLY,
    ]
    first = stored[0]
    assert (first.name, first.expires_at, first.created_by.name) == ("n0", 7, "alice")
    assert (first.last_used_at, first.is_unauthenticated) == (5, True)


def test_upgrade_finds_the_hosts_that_have_two_fault_domains(path: Path) -> None:
    write_a_life(path)
    (step,) = (step for step in STEPS if step.name.endswith("_observed.sql"))
    database = sqlite3.connect(path)
    database.executescript(
        "DROP INDEX vms_observed; ALTER TABLE vms DROP COLUMN is_observed;"
        "UPDATE vms SET fault_domain = 1 WHERE name = 'idle_1';"
    )
    database.executescript(step.sql)
    database.close()
    store = SqliteStore(path)
    stored = store.read(lambda reader: reader.select(kinds.VMS_OBSERVED))
    store.close()
    assert [vm.name for vm in stored] == ["idle_0", "idle_1"]


def test_upgrade_counts_the_hosts_of_each_place(path: Path) -> None:
    write_a_life(path)
    (step,) = (step for step in STEPS if step.name.endswith("_hosts_at_places.sql"))
    database = sqlite3.connect(path)
    rooms = database.execute("SELECT host FROM rooms ORDER BY host").fetchall()
    place = """UPDATE rooms SET stands_at = '["zone=1", "rack=r1"]'"""
    database.execute(place)
    database.execute(
        "UPDATE rooms SET stands_at = '[\"zone=1\"]' WHERE host = ?", rooms[0]
    )
    database.commit()
    database.executescript(step.sql)
    counts = database.execute(
        "SELECT name, count FROM tallies WHERE name LIKE 'hosts at %' ORDER BY name"
    ).fetchall()
    database.close()
    assert counts == [
        ("hosts at rack=r1", len(rooms) - 1),
        ("hosts at zone=1", len(rooms)),
    ]
