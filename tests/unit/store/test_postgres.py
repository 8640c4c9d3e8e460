"""The store in PostgreSQL: lost connections, other writers, and what is refused."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from forewarn.clock import VirtualClock
from forewarn.fleet.model import Host
from forewarn.instants import SECOND
from forewarn.service.cluster.postgres import PostgresBackend
from forewarn.store import kinds
from forewarn.store.migrate import load_steps
from forewarn.store.port import (
    LostError,
    NotLeaderError,
    Reader,
    StoreBusyError,
    StoreError,
    StoreGoneError,
    StoreTooNewError,
    Transaction,
)
from forewarn.store.postgres import fence, migrate
from forewarn.store.postgres.cluster import PostgresCluster
from forewarn.store.postgres.connection import PostgresConnection
from forewarn.store.postgres.fence import Fence
from forewarn.store.postgres.store import PATIENCE_SECONDS, PostgresStore
from tests.support import postgres, postgres_server
from tests.support.processes import eventually
from tests.support.unpacked import ROOT

pytestmark = postgres.needing_postgres


@pytest.fixture
def url() -> Iterator[str]:
    with postgres.one_database() as new_url:
        yield new_url


class Waits:
    """Time that passes only in pauses; in each, something can happen."""

    def __init__(self, *happens: Callable[[], object]) -> None:
        self.clock = VirtualClock(0)
        self.happens = list(happens)

    def pause(self, seconds: float) -> None:
        self.clock.advance_to(self.clock.now() + round(seconds * SECOND))
        if self.happens:
            self.happens.pop(0)()


def opened(url: str, waits: Waits | None = None) -> PostgresStore:
    waits = waits or Waits()
    return PostgresStore(url, clock=waits.clock, pause=waits.pause)


def leading(url: str, waits: Waits | None = None) -> PostgresStore:
    """Return the store of a replica that leads."""
    waits, cluster = waits or Waits(), PostgresCluster(url)
    row = cluster.take(cluster.lease(), holder="a", url="")
    cluster.close()
    assert row is not None
    return PostgresStore(url, term=row.term, clock=waits.clock, pause=waits.pause)


def sql(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def names(store: PostgresStore) -> list[str]:
    return [host.name for host in store.read(lambda r: r.select(kinds.ALL_HOSTS))]


def add(name: str) -> Callable[[Transaction], Host]:
    return lambda tx: tx.add(Host(name=name))


def test_a_lost_connection_only_delays_the_next_transaction(url: str) -> None:
    store = opened(url)
    store.transact(add("h1"))
    postgres.lose_connections(url)
    store.transact(add("h2"))
    assert names(store) == ["h1", "h2"]
    store.close()


def test_readers_notice_a_lost_connection(url: str) -> None:
    store = opened(url)
    store.transact(add("h1"))
    assert names(store) == ["h1"]
    postgres.lose_connections(url)
    assert names(store) == ["h1"]
    store.close()


def test_read_runs_again_if_its_connection_is_lost_meanwhile(url: str) -> None:
    store, runs = opened(url), list[str]()
    store.transact(add("h1"))

    def read(reader: Reader) -> list[str]:
        runs.append("run")
        if len(runs) == 1:
            postgres.lose_connections(url)
        return [host.name for host in reader.select(kinds.ALL_HOSTS)]

    assert store.read(read) == ["h1"]
    assert len(runs) == 2
    store.close()


def test_work_runs_again_if_its_commit_was_lost(url: str) -> None:
    store, runs = opened(url), list[str]()

    def work(tx: Transaction) -> None:
        tx.add(Host(name="h1"))
        runs.append("run")
        if len(runs) == 1:
            postgres.lose_connections(url)

    store.transact(work)
    assert names(store) == ["h1"]
    assert len(runs) == 2
    store.close()


def test_work_does_not_run_again_if_only_the_answer_was_lost(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, runs = opened(url), list[str]()
    commit = PostgresConnection.commit

    def lost_answer(connection: PostgresConnection) -> None:
        commit(connection)
        monkeypatch.undo()
        raise LostError("the answer is lost")

    monkeypatch.setattr(PostgresConnection, "commit", lost_answer)

    def work(tx: Transaction) -> str:
        tx.add(Host(name="h1"))
        runs.append("run")
        return "done"

    assert store.transact(work) == "done"
    assert runs == ["run"]
    store.transact(add("h2"))
    assert names(store) == ["h1", "h2"]
    store.close()


def wait_at_commits(url: str, body: str) -> None:
    """Run `body` at the server in each commit that adds a host."""
    sql(
        url,
        "CREATE FUNCTION at_commit() RETURNS trigger LANGUAGE plpgsql"
        f" AS $$ BEGIN {body}; RETURN NULL; END $$",
    )
    sql(
        url,
        "CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON hosts"
        " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION at_commit()",
    )


def cut(connection: PostgresConnection) -> None:
    """End a connection; its session at the server does not notice."""
    with socket.socket(fileno=os.dup(connection._wire.fileno())) as wire:
        wire.shutdown(socket.SHUT_RDWR)


def sessions_wait(url: str, count: int) -> None:
    """Return when so many sessions wait for a lock."""
    waiting = (
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        " AND datname = current_database()"
    )
    eventually(lambda: sql(url, waiting) == [(count,)], bool, what="a wait")


@contextmanager
def commit_without_connection(
    url: str, store: PostgresStore
) -> Generator[tuple["Future[str]", list[str], Callable[[], object]]]:
    """Cut the connection while a commit waits.

    Yield the result of the transaction, the runs of its work, and what lets it commit.
    """
    wait_at_commits(url, "PERFORM pg_advisory_xact_lock(7)")
    runs = list[str]()

    def work(tx: Transaction) -> str:
        tx.add(Host(name="h1"))
        runs.append("run")
        return "done"

    writer = store._writer
    assert writer is not None
    holding = psycopg.connect(url, autocommit=True)
    with holding as holder, ThreadPoolExecutor(1) as thread:
        holder.execute("SELECT pg_advisory_lock(7)")
        result = thread.submit(store.transact, work)
        sessions_wait(url, 1)
        cut(writer)
        yield result, runs, lambda: holder.execute("SELECT pg_advisory_unlock(7)")


def test_commit_that_goes_on_after_its_connection_was_lost_is_waited_for(
    url: str,
) -> None:
    """Its session is still at the commit, so the records look as before."""
    store = leading(url)
    with commit_without_connection(url, store) as (result, runs, go_on):
        # The store asks about the outcome.
        sessions_wait(url, 2)
        go_on()
        assert result.result() == "done"
        assert runs == ["run"]
    store.transact(add("h2"))
    assert names(store) == ["h1", "h2"]
    store.close()


def test_commit_that_does_not_end_closes_the_store(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fence, "SETTLE_MILLISECONDS", 50)
    waits = Waits()
    store = leading(url, waits)
    waits.happens.append(store.stop_waiting)
    with commit_without_connection(url, store) as (result, runs, go_on):
        with pytest.raises(StoreGoneError):
            result.result()
        assert runs == ["run"]
        go_on()
    with pytest.raises(StoreError, match="closed"):
        store.transact(add("h2"))
    store.close()


def test_commit_with_a_warning_is_confirmed_by_another_write(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the server answers if the wait for its standby was ended."""
    store, settled = opened(url), list[int]()
    wait_at_commits(url, "RAISE WARNING 'canceling wait'")
    settle = Fence.settle

    def noted(fence: Fence, connection: PostgresConnection, number: int) -> bool:
        settled.append(number)
        return settle(fence, connection, number)

    monkeypatch.setattr(Fence, "settle", noted)
    store.transact(add("h1"))
    assert settled == [1]
    assert names(store) == ["h1"]
    store.close()


@pytest.mark.parametrize("is_connected", [True, False], ids=["connected", "lost"])
def test_a_database_that_was_restored_meanwhile_ends_the_term(
    url: str, is_connected: bool
) -> None:
    """Its number is another one, so the service may have seen what it has not."""
    store = opened(url)
    store.transact(add("h1"))
    store.transact(add("h2"))
    sql(url, "UPDATE fence SET number = number - 1")
    sql(url, "DELETE FROM hosts WHERE name = 'h2'")
    if not is_connected:
        postgres.lose_connections(url)
    with pytest.raises(
        NotLeaderError, match="is at transaction 1, and this service at 2"
    ):
        store.transact(add("h3"))
    store.close()
    again = opened(url)
    assert names(again) == ["h1"]
    again.transact(add("h2"))
    again.close()


def test_a_store_that_was_taken_over_writes_nothing(url: str) -> None:
    store = opened(url)
    store.transact(add("h1"))
    postgres.lose_connections(url)
    another = opened(url)
    another.transact(add("h2"))
    another.close()
    with pytest.raises(StoreError, match="another service has written to it"):
        store.transact(add("h3"))
    assert names(store) == ["h1", "h2"]
    with pytest.raises(StoreError, match="closed"):
        store.transact(add("h3"))
    store.close()


def test_a_store_whose_lock_is_gone_ends_after_some_time(url: str) -> None:
    waits = Waits()
    store = opened(url, waits)
    postgres.lose_connections(url)
    another = opened(url)
    with pytest.raises(StoreError, match="another service uses the store"):
        store.transact(add("h1"))
    assert waits.clock.monotonic() >= PATIENCE_SECONDS
    with pytest.raises(StoreError, match="closed"):
        store.transact(add("h1"))
    another.close()
    store.close()


def test_a_store_that_is_to_stop_waits_no_more(url: str) -> None:
    def stop() -> None:
        store.stop_waiting()

    waits = Waits(stop)
    store = opened(url, waits)
    postgres.lose_connections(url)
    another = opened(url)
    with pytest.raises(StoreGoneError):
        store.transact(add("h1"))
    assert waits.clock.monotonic() < PATIENCE_SECONDS / 2
    another.close()
    store.close()


def test_a_second_service_is_refused(url: str) -> None:
    store = opened(url)
    with pytest.raises(
        StoreBusyError, match="another service uses the store"
    ) as caught:
        opened(url)
    assert caught.value.hint
    store.close()
    opened(url).close()


def test_a_service_that_was_just_killed_is_waited_for(url: str) -> None:
    store = opened(url)
    opened(url, Waits(store.close)).close()


def test_a_newer_schema_is_refused(url: str) -> None:
    sql(url, "INSERT INTO schema_steps VALUES (9999, 'of the future')")
    with pytest.raises(StoreTooNewError, match="was written by a newer forewarn"):
        opened(url)


def test_the_database_of_another_program_is_refused() -> None:
    with postgres.one_database(is_empty=True) as url:
        sql(url, "CREATE TABLE shopping (item text)")
        with pytest.raises(StoreError, match="a database of another program"):
            opened(url)
        assert sql(
            url,
            "SELECT count(*) FROM information_schema.tables"
            " WHERE table_schema = 'public'",
        ) == [(1,)]


def test_a_reader_cannot_write(url: str) -> None:
    connection = PostgresConnection(url, read_only=True)
    with pytest.raises(StoreError, match="read-only"):
        connection.run("DELETE FROM hosts")
    connection.close()


def test_order_of_texts_is_that_of_their_bytes(url: str) -> None:
    store = opened(url)
    hosts = ["B", "a", "a-b", "a.b", "aB", "ä", "Z"]
    store.transact(lambda tx: [tx.add(Host(name=name)) for name in hosts])
    assert names(store) == sorted(hosts, key=str.encode)
    store.close()


# With a server of its own


@pytest.fixture
def directory() -> Iterator[Path]:
    if postgres_server.GIVEN:
        pytest.skip("these tests need a server that they may stop")
    # PostgreSQL runs as another user, who cannot enter the directories of pytest.
    place = Path(tempfile.mkdtemp(prefix="forewarn-postgres-"))
    place.chmod(0o755)
    yield place / "server"
    shutil.rmtree(place)


def test_a_restart_of_the_server_loses_nothing(directory: Path) -> None:
    postgres_server.make(directory)
    servers = [postgres_server.start(directory, fsync="on")]
    waits = Waits(lambda: servers.append(postgres_server.start(directory)))
    store = opened(postgres_server.url_of(directory), waits)
    store.transact(add("h1"))
    postgres_server.stop(servers[0])
    store.transact(add("h2"))
    assert names(store) == ["h1", "h2"]
    store.close()
    postgres_server.stop(servers[1])


def test_a_wrong_password_is_said_and_not_shown(directory: Path) -> None:
    postgres_server.make(directory)
    server = postgres_server.start(directory)
    admin = postgres_server.url_of(directory)
    sql(admin, "CREATE ROLE forewarn LOGIN PASSWORD 'right'")
    sql(admin, "CREATE DATABASE forewarn")
    hba = directory / "data" / "pg_hba.conf"
    hba.write_text("local all postgres trust\nlocal all all scram-sha-256\n")
    sql(admin, "SELECT pg_reload_conf()")
    password = directory.parent / "pgpass"
    password.write_text("*:*:*:*:geheim\n")
    password.chmod(0o600)
    url = postgres_server.url_of(directory, "forewarn", user="forewarn")
    with pytest.raises(StoreError, match="password") as caught:
        opened(f"{url}&passfile={password}")
    assert "geheim" not in f"{caught.value.message} {caught.value.hint}"
    assert "passfile" in caught.value.hint
    postgres_server.stop(server)


def test_a_server_that_does_not_run_is_said(directory: Path) -> None:
    with pytest.raises(StoreError, match="No such file") as caught:
        opened(f"postgresql:///forewarn?host={directory}")
    assert "Check that the database runs" in caught.value.hint


def test_the_server_ends_with_the_processes_that_used_it() -> None:
    """Even if they are killed."""
    if postgres_server.GIVEN:
        pytest.skip("the server is given")
    run = f"killed-{os.getpid()}"
    code = (
        "import os; from tests.support import postgres_server as it;"
        f"print(it.joined('{run}'), flush=True); os.kill(os.getpid(), 9)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    url = ended.stdout.strip()
    eventually(postgres_server.place_of(run).exists, lambda exists: not exists)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)


def test_replicas_that_start_together_make_the_tables_once() -> None:
    with postgres.one_database(is_empty=True) as url:
        backends = [PostgresBackend(url) for _ in range(4)]
        with ThreadPoolExecutor(len(backends)) as pool:
            readers = list(pool.map(lambda backend: backend.prepare(), backends))
        done = [(step.number,) for step in load_steps()]
        assert sql(url, "SELECT number FROM schema_steps ORDER BY number") == done
        for reader in readers:
            reader.close()


def test_a_step_that_another_replica_runs_now_is_not_run_again(url: str) -> None:
    *_, last = load_steps()
    sql(url, f"DELETE FROM schema_steps WHERE number = {last.number}")
    with psycopg.connect(url) as other, ThreadPoolExecutor(1) as pool:
        other.execute("SELECT pg_advisory_xact_lock(%s)", (migrate.LOCK,))
        preparing = pool.submit(PostgresBackend(url).prepare)
        waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        eventually(lambda: sql(url, waiting), bool, what="a replica that waits")
        row = last.number, last.name
        other.execute("INSERT INTO schema_steps VALUES (%s, %s)", row)
        other.commit()
        preparing.result().close()
