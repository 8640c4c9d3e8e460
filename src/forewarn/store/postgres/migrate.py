"""The schema in PostgreSQL, made from the same numbered steps as in SQLite.

A new database gets the tables and indexes that the steps end with: they run in SQLite's
memory, and the definitions are translated. An existing database gets each new step in
its own transaction.

Several replicas can start at the same time: each transaction first takes an advisory lock,
and does nothing if another has run its steps meanwhile. The server ends the session of one
that is paused in it, and the next one continues. Replicas of the old version read
on; only the transaction of a step makes them wait. The term of one that leads ends.
"""

import contextlib
import re
from collections.abc import Generator, Sequence
from typing import LiteralString

from forewarn.cluster.times import Times
from forewarn.store.migrate import Step, statements
from forewarn.store.port import (
    ConflictError,
    LostError,
    StoreError,
    StoreTooNewError,
)
from forewarn.store.postgres import dialect, lease
from forewarn.store.postgres.connection import PostgresConnection
from forewarn.store.tables import definitions

LOCK = 0x73746570
"""The advisory lock of a transaction that runs steps: "step" in ASCII."""

_TABLES: LiteralString = (
    "SELECT table_name FROM information_schema.tables"
    " WHERE table_schema = current_schema()"
)

_DONE = "CREATE TABLE schema_steps (number INTEGER NOT NULL PRIMARY KEY, name TEXT NOT NULL)"


def count_done(
    connection: PostgresConnection, place: str, steps: Sequence[Step]
) -> int:
    """Return the number of `steps` that the database has; change nothing.

    Raises StoreTooNewError if it has more steps, and StoreError if it belongs to another
    program.
    """
    tables = {name for (name,) in connection.raw(_TABLES)}
    if not tables:
        return 0
    if "schema_steps" not in tables:
        raise StoreError(
            f"{place} is a database of another program",
            hint="Name another database in [store] url.",
        )
    [(done,)] = connection.raw("SELECT count(*) FROM schema_steps")
    if done > len(steps):
        raise StoreTooNewError(
            f"the store {place} was written by a newer forewarn (its schema is"
            f" {done}, this version has {len(steps)})",
            hint="Start that version, or restore a backup from before the upgrade.",
        )
    return done


def bring_up_to_date(
    connection: PostgresConnection,
    place: str,
    steps: Sequence[Step],
    *,
    ends_term: bool = False,
) -> None:
    """Run the steps that are missing: together in a new database, else one by one.

    With `ends_term`, a step ends the term of the replica that leads: if its version
    is older, it does not write what the step derives from other rows. The tables of
    the replicas have no steps: they get the columns that they lack. It raises LostError
    if it would keep the leader from its renewals for long.
    Raises StoreError as `count_done` does.
    """
    while (done := count_done(connection, place, steps)) < len(steps):
        if done:
            step = steps[done]
            sql, run = (
                [translated(statement) for statement in statements(step.sql)],
                [step],
            )
        else:
            schema = definitions(steps)
            everything = (
                _DONE,
                *lease.SCHEMA,
                *schema.tables,
                *schema.indexes.values(),
            )
            sql, run = [dialect.definition(part) for part in everything], steps
        with _alone(connection, place, is_patient=not ends_term):
            if count_done(connection, place, steps) == done:
                if ends_term and done:
                    lease.end_term(connection)
                _do(connection, sql, run)
    if lease.has_columns(connection):
        return  # so a takeover waits for no other replica
    with _alone(connection, place, is_patient=not ends_term):
        lease.add_columns(connection)
        connection.commit()


@contextlib.contextmanager
def _alone(
    connection: PostgresConnection, place: str, *, is_patient: bool
) -> Generator[None]:
    """Open a transaction that no other replica has meanwhile; roll back what is left.

    Unless it is patient, it raises LostError if it must wait for a table: the caller tries
    again, and the leader renews its lease meanwhile.
    """
    connection.begin_limited()
    try:
        connection.raw("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        if not is_patient:
            connection.run(
                f"SET LOCAL lock_timeout = {_table_milliseconds(connection)}"
            )
        yield
    except ConflictError as error:
        raise LostError(
            f"the tables of the store {place} cannot be changed while another session"
            " uses them for long",
            hint="Wait for its end, as of pg_dump, or see pg_stat_activity.",
        ) from error
    finally:
        connection.end()


def _table_milliseconds(connection: PostgresConnection) -> int:
    """Return the maximum wait for a table that another session uses, as pg_dump does.

    The leader's renewals wait meanwhile, so it follows from the lease of the last leader.
    """
    seconds = lease.read(connection).seconds if lease.exists(connection) else 0.0
    times = Times(lease=seconds) if seconds else Times()
    return round(times.table_wait * 1000)


def translated(sql: str) -> str:
    """Return a statement of a step."""
    if re.match(r"\s*(--[^\n]*\n\s*)*(CREATE|ALTER|DROP)\b", sql):
        return dialect.definition(sql)
    return dialect.statement(sql.strip())


def _do(
    connection: PostgresConnection, sql: Sequence[str], steps: Sequence[Step]
) -> None:
    for statement in sql:
        connection.run(statement)
    for step in steps:
        connection.run(
            "INSERT INTO schema_steps (number, name) VALUES (%s, %s)",
            (step.number, step.name),
        )
    connection.commit()
