"""The connection to a database that readers and transactions need.

Statements are in the dialect of SQLite, with `?` and `:name` for their parameters. A
connection to another database translates them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

from forewarn.store.codec import Row
from forewarn.store.statements import Write

Parameters: TypeAlias = Mapping[str, str | int] | Row


class Database(Protocol):
    """An open connection. Each error becomes a StoreError, or a ConflictError."""

    def write(self, statement: Write, rows: Sequence[Row]) -> int:
        """Run a statement once for each row; return the number of changed rows."""
        ...

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """Return all rows of a statement."""
        ...

    def pages(
        self, sql: str, rows: int, parameters: Parameters = ()
    ) -> Iterator[list[Row]]:
        """Yield the rows of a statement, so many at a time."""
        ...
