"""The rows of the lease in PostgreSQL, and the takeover.

The beat and the number are in different tables: a transaction of the leader holds a lock
on the number until its end, and a renewal must not wait for it. A takeover changes the
lease first, so that the leader cannot renew it, and then the number. If a transaction of
the old leader is still open, as after SIGSTOP, the takeover ends its session. That of a
candidate that is paused in its own takeover is ended by the server.
"""

from forewarn.cluster.port import LeaseRow
from forewarn.store.codec import Row
from forewarn.store.postgres.connection import PostgresConnection

CHANNEL = "forewarn"
"""The channel of notifications: commits, positions, takeovers and releases."""

LEADER_NAME = "forewarn leader"
"""The application name of sessions that write."""

TAKE_MILLISECONDS = 2_000
"""Maximum wait for the end of a session whose transaction is open: the server ends it in
milliseconds. The candidate tries again after a failure."""

_TABLES = """
CREATE TABLE lease (
  term bigint NOT NULL, holder text NOT NULL, url text NOT NULL, beat bigint NOT NULL,
  seconds double precision NOT NULL, database text NOT NULL
);
INSERT INTO lease (term, holder, url, beat, seconds, database)
VALUES (0, '', '', 0, 0, gen_random_uuid()::text);
CREATE TABLE fence (
  number bigint NOT NULL, term bigint NOT NULL, writer text NOT NULL, fed bigint NOT NULL
);
INSERT INTO fence (number, term, writer, fed) VALUES (0, 0, '', 0);
CREATE TABLE feed (
  number bigint NOT NULL PRIMARY KEY, term bigint NOT NULL, changes text
);
CREATE TABLE feed_floor (number bigint NOT NULL);
INSERT INTO feed_floor (number) VALUES (0);
CREATE TABLE replicas (
  key text COLLATE "C" NOT NULL PRIMARY KEY, name text NOT NULL, url text NOT NULL,
  position bigint NOT NULL, beat bigint NOT NULL, role text NOT NULL,
  version text NOT NULL, led_for double precision, lease double precision
);
CREATE SEQUENCE replica_rows;
"""

SCHEMA = tuple(table.strip() for table in _TABLES.split(";") if table.strip())
"""The tables, with their only rows. `fed` is the number of the last transaction whose
changes are in the feed: a store without a cluster writes none."""

_HAS_LEASES = (
    "SELECT EXISTS (SELECT FROM information_schema.columns WHERE table_name = 'replicas'"
    " AND column_name = 'lease' AND table_schema = current_schema())"
)


def has_columns(connection: PostgresConnection) -> bool:
    """Return whether the tables have all columns of this version."""
    [(has_leases,)] = connection.raw(_HAS_LEASES)
    return bool(has_leases)


def add_columns(connection: PostgresConnection) -> None:
    """Add the columns that the tables of an older version lack, in the open transaction.

    Replicas of that version continue: they name the columns that they read and write.
    """
    if not has_columns(connection):
        connection.run("ALTER TABLE replicas ADD COLUMN lease double precision")


def read(connection: PostgresConnection) -> LeaseRow:
    """Return the row of the lease."""
    [row] = connection.raw(
        "SELECT lease.term, holder, url, beat, number, seconds, database FROM lease, fence"
    )
    return _row_of(row)


def exists(connection: PostgresConnection) -> bool:
    """Return whether the database has the table."""
    [(name,)] = connection.raw("SELECT to_regclass('lease')::text")
    return name is not None


def take(
    connection: PostgresConnection,
    seen: LeaseRow,
    *,
    holder: str,
    url: str,
    seconds: float = 0.0,
) -> LeaseRow | None:
    """Begin a new term if the row still has the term and beat of `seen`."""
    connection.begin_limited()
    try:
        # The old leader's renewals wait meanwhile.
        connection.run(f"SET LOCAL lock_timeout = {TAKE_MILLISECONDS}")
        taken = connection.raw(
            "UPDATE lease SET term = term + 1, beat = beat + 1, holder = %s, url = %s,"
            " seconds = %s WHERE term = %s AND beat = %s RETURNING term",
            (holder, url, seconds, seen.term, seen.beat),
        )
        if not taken:
            return None
        if not connection.raw("SELECT number FROM fence FOR UPDATE SKIP LOCKED"):
            connection.raw(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = %s AND datname = current_database()"
                " AND pid <> pg_backend_pid()",
                (LEADER_NAME,),
            )
        # A store without a cluster may have written without a feed.
        connection.run(
            "WITH old AS (SELECT number, fed FROM fence FOR UPDATE)"
            " UPDATE feed_floor SET number = old.number FROM old"
            " WHERE old.fed <> old.number"
        )
        connection.run("UPDATE fence SET term = %s, fed = number", taken[0])
        connection.run(f"NOTIFY {CHANNEL}")
        row = read(connection)
        connection.commit()
    finally:
        connection.end()
    return row


def renew(connection: PostgresConnection, term: int) -> LeaseRow | None:
    """Raise the beat if the row has this term; return the row, or None.

    Raises LostError if the standby may lack it: it would not count after its promotion.
    """
    rows = connection.write_alone(
        "UPDATE lease SET beat = beat + 1 WHERE term = %s"
        " RETURNING term, holder, url, beat, (SELECT number FROM fence), seconds, database",
        (term,),
    )
    return _row_of(rows[0]) if rows else None


def release(connection: PostgresConnection, term: int) -> bool:
    """Clear the holder if the row has this term; return whether it had."""
    [(released, _)] = connection.write_alone(
        "WITH released AS (UPDATE lease SET holder = '' WHERE term = %s RETURNING 1)"
        " SELECT (SELECT count(*) FROM released), pg_notify(%s, '')::text",
        (term, CHANNEL),
    )
    return released == 1


def end_term(connection: PostgresConnection) -> None:
    """End the term of the replica that leads, in the open transaction.

    It stays the holder, so that others take over only after a whole lease: driver calls
    of the term may still begin meanwhile.
    """
    [(term,)] = connection.raw(
        "UPDATE lease SET term = term + 1, beat = beat + 1 RETURNING term"
    )
    connection.run("UPDATE fence SET term = %s", (term,))
    connection.run(f"NOTIFY {CHANNEL}")


def _row_of(row: Row) -> LeaseRow:
    term, holder, url, beat, number, seconds, database = row
    return LeaseRow(
        term=term,
        holder=holder,
        url=url,
        beat=beat,
        number=number,
        seconds=seconds,
        database=database,
    )
