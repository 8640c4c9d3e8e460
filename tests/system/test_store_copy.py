"""`forewarn store copy` in processes of its own: moved stores, and a killed copy."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from forewarn.store.copy import PAGE_ROWS
from forewarn.store.migrate import load_steps
from forewarn.store.sqlite import SqliteStore
from forewarn.store.tables import made_by
from tests.support import postgres
from tests.support.processes import Serving, eventually

pytestmark = [pytest.mark.system, pytest.mark.slow, postgres.needing_postgres]

FLEET = '[[host]]\nname = "h0"\n[[vm]]\nname = "web_0"\nhost = "h0"\nlisten = "127.0.0.1:0"\n'

ROWS = PAGE_ROWS + 1_000
"""Rows of the table that a killed copy was copying: two pages."""

WAITING = "SELECT 1 FROM pg_locks WHERE locktype = 'relation' AND NOT granted"

STOPS = f"""
import sys
from pathlib import Path
from forewarn.store.copy import copy

def told(part, done, of):
    if done >= {PAGE_ROWS}:
        print("has written rows", flush=True)
        sys.stdin.read()

copy(Path(sys.argv[1]), Path(sys.argv[2]), told)
"""
"""A copy that stops after a page of rows."""


@pytest.fixture
def url() -> Iterator[str]:
    with postgres.one_database(is_empty=True) as database:
        yield database


def begin(*words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "forewarn", "store", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def done(*words: str) -> str:
    process = begin(*words)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out


def sql(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(statement.encode()).fetchall()


def test_store_moves_to_a_database_and_back(tmp_path: Path, url: str) -> None:
    """A VM sees the same document from each, and an approval is the next one's work."""
    service = Serving(tmp_path, FLEET).wait_ready()
    service.document("web_0")
    service.admin("/v1/maintain", {"hosts": ["h0"], "impact": "reboot"})
    [event] = eventually(lambda: service.document("web_0")["Events"], bool)
    announced = service.document("web_0")
    assert service.terminate() == 0
    file = str(tmp_path / "forewarn.db")
    there = json.loads(done("copy", file, url, "--json"))
    assert there["tables"]["vms"]["rows"] == 1

    service = Serving(tmp_path, FLEET, store_url=url).wait_ready()
    assert service.document("web_0") == announced
    assert service.approve("web_0", event["EventId"]) == 200
    eventually(
        lambda: service.document("web_0")["Events"],
        lambda events: events != announced["Events"],
    )
    assert service.terminate() == 0
    back = str(tmp_path / "back.db")
    assert "is a verified copy of" in done("copy", url, back)
    assert done("check", back) == f"{back}: no violations\n"
    assert "no violations" in done("check", url)

    service = Serving(tmp_path, FLEET, store_url=f"sqlite:///{back}").wait_ready()
    assert service.document("web_0") != announced
    assert service.terminate() == 0


def test_backup_of_a_database_beside_its_service_is_a_file(
    tmp_path: Path, url: str
) -> None:
    service = Serving(tmp_path, FLEET, store_url=url).wait_ready()
    file = tmp_path / "backup.db"
    settings = tmp_path / "backup.toml"
    settings.write_text(f'[store]\nurl = "{url}"\n', "utf-8")
    done("backup", str(file), "--config", str(settings))
    assert done("check", str(file)) == f"{file}: no violations\n"
    assert file.stat().st_mode & 0o777 == 0o600
    assert service.terminate() == 0


def test_copy_that_is_killed_leaves_an_empty_database(large: Path) -> None:
    """Killed when all rows but those of the last table are in its transaction."""
    *_, last = made_by(load_steps())
    with postgres.one_database() as target:
        with psycopg.connect(target) as other:
            other.execute(f"LOCK TABLE {last.name} IN SHARE MODE".encode())
            copying = begin("copy", str(large), target)
            eventually(lambda: sql(target, WAITING), bool, what="a copy that waits")
            os.kill(copying.pid, signal.SIGKILL)
            copying.communicate()
        eventually(lambda: _sessions(target), lambda count: count == 0)
        assert sql(target, "SELECT count(*) FROM losses") == [(0,)]
        # The next one succeeds.
        done("copy", str(large), target)
        assert sql(target, "SELECT count(*) FROM losses") == [(ROWS,)]


def test_copy_that_is_killed_leaves_no_file(tmp_path: Path, large: Path) -> None:
    """Killed when it has written some rows."""
    file = tmp_path / "killed.db"
    copying = subprocess.Popen(
        [sys.executable, "-c", STOPS, str(large), str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert copying.stdout is not None
    assert copying.stdout.readline() == "has written rows\n"
    os.kill(copying.pid, signal.SIGKILL)
    copying.communicate()
    assert not file.exists()
    assert len(list(tmp_path.glob(".killed.db.*.part"))) == 1
    # The next one succeeds.
    done("copy", str(large), str(file))
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT count(*) FROM losses").fetchall() == [(ROWS,)]


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Return a store with more rows than a copy has in memory at once."""
    file = tmp_path / "large.db"
    SqliteStore(file).close()
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT ?)"
            " INSERT INTO losses SELECT 'vm:v' || i, '', i, 0 FROM n",
            (ROWS,),
        )
    return file


def _sessions(url: str) -> object:
    [(count,)] = sql(
        url,
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND backend_type = 'client backend' AND pid != pg_backend_pid()",
    )
    return count
