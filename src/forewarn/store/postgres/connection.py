"""One connection to PostgreSQL, and the conversion of its errors.

Only this module calls `psycopg`. It converts every error to a StoreError with a hint,
or to a ConflictError if the same work can be tried again at once.
"""

import select
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, LiteralString, TypeVar, cast

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict

from forewarn.store.codec import Row
from forewarn.store.database import Parameters
from forewarn.store.port import ConflictError, LostError, NoSpaceError, StoreError
from forewarn.store.postgres import dialect
from forewarn.store.postgres.url import place_of
from forewarn.store.statements import Write

T = TypeVar("T")

USUAL: Mapping[str, str | int] = {
    "application_name": "forewarn",
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""Parameters of libpq that a URL need not have. A server that does not answer is noticed
within seconds, so that a service does not hang."""

ROWS_PER_STATEMENT = 20_000
"""Maximum rows that one statement writes: with five indexes, they take about two seconds
on a busy machine, far from the limit of a statement. A million take more than a minute."""

STATEMENT_MILLISECONDS = 60_000
"""Maximum time of one statement of a service. None takes a second, so a longer one means
that the database hangs. The steps of the schema have no limit."""

DURABLE = ("on", "remote_apply")
"""Values of the setting `synchronous_commit` with which a commit returns only when it is on
the disks of this server and of the synchronous standby."""

_MAKE_DURABLE = (
    "SELECT set_config('synchronous_commit', 'on', false)"
    " WHERE current_setting('synchronous_commit') <> ALL (%s)"
)

PREPARED_MAX = 1_024
"""Maximum prepared statements of one connection: forewarn has fewer."""

PREPARE_AFTER = 2
"""Runs of a statement after which it is prepared."""

IDLE_MILLISECONDS = 2_000
"""Maximum pause of this program between two statements of a transaction that holds what
other replicas need. It is microseconds, unless the process is paused or cut off: then the
server ends the session, and the others continue. Shorter than the default lease."""

_CONFLICTS = (
    errors.SerializationFailure,
    errors.DeadlockDetected,
    errors.LockNotAvailable,
)

_LOSSES = psycopg.OperationalError, errors.IdleInTransactionSessionTimeout

HINTS: Mapping[type[psycopg.Error], str] = {
    errors.InsufficientPrivilege: "Make the user of [store] url the owner of the database.",
    errors.QueryCanceled: "Check the load and the locks of the database.",
    errors.ReadOnlySqlTransaction: "Connect to the primary server, not to a standby.",
}
"""Hints for kinds of errors; the first that fits counts."""

_CONNECT = (
    "Check that the database runs and exists (createdb --owner=forewarn forewarn), and the"
    " user and the password: the file of `passfile` in the URL, with mode 0600."
)
_LOST = "Check that the database runs and that this machine reaches it."


def translate(error: psycopg.Error, place: str) -> StoreError:
    """Return the StoreError or ConflictError for `error`."""
    if isinstance(error, _CONFLICTS):
        return ConflictError(f"another transaction of the store {place} was first")
    message = _sentence(error, place)
    if isinstance(error, errors.DiskFull):
        hint = "Free some space on the disk of the database."
        return NoSpaceError(message, hint=hint)
    for kind, hint in HINTS.items():
        if isinstance(error, kind):
            return StoreError(message, hint=hint)
    if isinstance(error, _LOSSES):
        return LostError(message, hint=_LOST)
    return StoreError(message, hint="Report this as a bug.")


def _parameters(url: str) -> dict[str, Any]:
    """Return libpq's parameters; those of the URL are stronger than the usual ones."""
    parameters = conninfo_to_dict(url)
    options = {
        "statement_timeout": STATEMENT_MILLISECONDS,
        "idle_in_transaction_session_timeout": 0,
        "default_transaction_read_only": "off",
        "timezone": "UTC",
    }
    ours = " ".join(f"-c {name}={value}" for name, value in options.items())
    return {
        **USUAL,
        **parameters,
        "options": f"{ours} {parameters.get('options', '')}".strip(),
        "client_encoding": "utf8",
    }


def _sentence(error: psycopg.Error, place: str) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return f"the store {place} cannot do its work: {text}"


class PostgresConnection:
    """An open connection, which translates and runs statements.

    Its commits are durable, also at a synchronous standby, even if the server or the URL
    promise less: a renewal that a standby lacks is none after its promotion.
    Several threads may use it, but only one at a time.
    """

    def __init__(self, url: str, *, read_only: bool = False) -> None:
        """Connect to `url`; raises StoreError."""
        self._place = place = place_of(url)
        self._failure: StoreError | None = None
        self._warning = ""
        self._types: dict[tuple[str, str], str] = {}
        self._writes: dict[Write, str] = {}
        self.rows_changed = 0
        """The number of rows that this connection has changed."""
        try:
            self._wire: psycopg.Connection[Row] = psycopg.connect(
                **_parameters(url),
                autocommit=True,
                prepare_threshold=PREPARE_AFTER,
            )
            self._wire.prepared_max = PREPARED_MAX
            self._wire.add_notice_handler(self._note)
            if read_only:
                # Not when it connects: target_session_attrs=read-write would refuse it.
                self._wire.execute("SET default_transaction_read_only = on")
            else:
                self._wire.execute(_MAKE_DURABLE, (list(DURABLE),))
        except psycopg.OperationalError as error:
            # libpq tells the reason only as text, in the server's language.
            raise LostError(_sentence(error, place), hint=_CONNECT) from error
        except psycopg.Error as error:
            raise translate(error, place) from error

    def run(self, sql: str, parameters: Parameters = ()) -> int:
        """Run a statement in PostgreSQL's dialect; return the number of changed rows."""
        return self._cursor(sql, parameters).rowcount

    def write(self, statement: Write, rows: Sequence[Row]) -> int:
        """Run a statement once for each row, many together; return the changed rows."""
        if not rows:
            return 0
        sql = self._writes.get(statement)
        if sql is None:
            table = statement.table
            sql = self._writes[statement] = dialect.write(
                statement, lambda name: self._type_of(table, name)
            )
        changed = 0
        for first in range(0, len(rows), ROWS_PER_STATEMENT):
            some = rows[first : first + ROWS_PER_STATEMENT]
            arrays = [dialect.array(values) for values in zip(*some, strict=True)]
            changed += self._cursor(sql, arrays).rowcount
        self.rows_changed += changed
        return changed

    def _type_of(self, table: str, column: str) -> str:
        if not self._types:
            self._types = {
                (table, name): kind
                for table, name, kind in self.raw(
                    "SELECT table_name, column_name, data_type"
                    " FROM information_schema.columns"
                    " WHERE table_schema = current_schema()"
                )
            }
        return self._types[table, column]

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """Return all rows of a statement."""
        return self.raw(dialect.statement(sql), parameters)

    def raw(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """Return all rows of a statement in PostgreSQL's dialect."""
        cursor = self._cursor(sql, parameters)
        try:
            return cursor.fetchall()
        except psycopg.Error as error:
            raise self._failed(error) from error

    def each(self, sql: str) -> Iterator[Row]:
        """Yield the rows of a statement, without loading all of them."""
        for page in self.pages(sql, dialect.PAGE_ROWS):
            yield from page

    def pages(
        self, sql: str, rows: int, parameters: Parameters = ()
    ) -> Iterator[list[Row]]:
        """Yield the rows of a statement, so many at a time."""
        try:
            with self._wire.cursor(name="forewarn_pages") as cursor:
                cursor.itersize = rows
                cursor.execute(_query(dialect.statement(sql)), parameters)
                while page := cursor.fetchmany(rows):
                    yield page
        except psycopg.Error as error:
            raise self._failed(error) from error

    def load(
        self, table: str, columns: Sequence[str], pages: Iterable[Sequence[Row]]
    ) -> None:
        """Write rows to a table, without a statement for each."""
        sql = f"COPY {table} ({', '.join(columns)}) FROM STDIN"
        try:
            with self._wire.cursor() as cursor, cursor.copy(_query(sql)) as copy:
                for page in pages:
                    for row in page:
                        copy.write_row(row)
        except psycopg.Error as error:
            raise self._failed(error) from error

    def _cursor(self, sql: str, parameters: Any) -> psycopg.Cursor[Row]:
        try:
            return self._wire.execute(_query(sql), parameters)
        except psycopg.Error as error:
            raise self._failed(error) from error

    def limit_statements(self, *, is_limited: bool) -> None:
        """Set whether a statement has a maximum time; at first, it has."""
        limit = STATEMENT_MILLISECONDS if is_limited else 0
        self.run(f"SET statement_timeout = {limit}")

    def begin(self) -> None:
        """Open a transaction that may write."""
        self._failure = None
        self.run("BEGIN")

    def begin_limited(self) -> None:
        """Open a transaction that may write, and ends if this process is paused in it."""
        self.begin()
        self.run(f"SET LOCAL idle_in_transaction_session_timeout = {IDLE_MILLISECONDS}")

    def begin_snapshot(self) -> None:
        """Open a transaction that sees one moment, and only reads."""
        self._failure = None
        self.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def commit(self) -> None:
        """Make the open transaction durable.

        A transaction with a failed statement is never committed, even if the caller
        caught the error. Raises LostError if the outcome is unknown: the connection is lost,
        or an administrator has ended the wait for the standby (`pg_cancel_backend`), which
        the server answers with success and a warning.
        """
        if self._failure:
            raise self._failure
        self._warning = ""
        self.run("COMMIT")
        self._check_confirmed()

    def write_alone(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """Run a statement as a transaction of its own; return its rows.

        Raises LostError as `commit` does.
        """
        self._warning = ""
        rows = self.raw(sql, parameters)
        self._check_confirmed()
        return rows

    def _check_confirmed(self) -> None:
        if self._warning:
            raise LostError(
                f"the store {self._place} has not confirmed a commit: {self._warning}",
                hint="Check its synchronous standby (forewarn cluster show).",
            )

    def _note(self, notice: psycopg.errors.Diagnostic) -> None:
        if notice.severity_nonlocalized == "WARNING":
            self._warning = notice.message_primary or "a warning"

    def rollback(self) -> None:
        """Roll back the open transaction, if there is one."""
        if self._wire.closed:
            return
        if self._wire.info.transaction_status is not psycopg.pq.TransactionStatus.IDLE:
            self.run("ROLLBACK")

    def end(self) -> bool:
        """Roll back an open transaction; close and return False if that fails."""
        try:
            self.rollback()
        except StoreError:
            self.close()
        return not self._wire.closed

    def wait(self, seconds: float, other: int) -> bool:
        """Wait for a notification, or until the descriptor `other` can be read.

        Return whether there was a notification; raises LostError.
        """
        wire = self._wire.pgconn
        try:
            if wire.notifies() is None:
                self.pause(seconds, other, self._wire.fileno())
                wire.consume_input()
                if wire.notifies() is None:
                    return False
            while wire.notifies() is not None:
                pass
        except psycopg.Error as error:
            raise LostError(_sentence(error, self._place), hint=_LOST) from error
        return True

    @staticmethod
    def pause(seconds: float, *descriptors: int) -> None:
        """Wait until one of the descriptors can be read."""
        select.select(descriptors, (), (), seconds)

    def close(self) -> None:
        """Close the connection; this rolls back an open transaction."""
        self._wire.close()

    def _failed(self, error: psycopg.Error) -> StoreError:
        self._failure = translate(error, self._place)
        return self._failure


def _query(sql: str) -> LiteralString:
    """Return a statement of this program: no part of it comes from a caller."""
    return cast("LiteralString", sql)
