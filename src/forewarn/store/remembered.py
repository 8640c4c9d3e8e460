"""A reader that reads nothing twice, for reports that ask much about few records.

The reasons of many operations need the same hosts and scopes. A snapshot does not change,
so the first answer to a question is the answer to all later ones.
"""

from typing import Any, TypeVar

from forewarn.instants import Micros
from forewarn.store.port import PAGE_ROWS, Reader
from forewarn.store.questions import Query, Range, Ranking, Record

R = TypeVar("R", bound=Record)

REMEMBERED_ROWS_MAX = 20_000
"""Maximum rows that are remembered, some 20 MB: 1,000 hosts with their VMs. Further rows
are read again each time."""


class Remembered:
    """A reader of one snapshot that remembers its answers."""

    def __init__(self, reader: Reader) -> None:
        """Read from `reader`, which must not change."""
        self._reader = reader
        self._records: dict[tuple[type, str], Any] = {}
        self._pages: dict[tuple[str | int | None, ...], list[Any]] = {}
        self._rows = 0

    def get(self, kind: type[R], key: str) -> R | None:
        """Return the record with this key, or None."""
        place = kind, key
        if place in self._records:
            return self._records[place]
        record = self._reader.get(kind, key)
        if self._has_room(1):
            self._records[place] = record
        return record

    def select(
        self,
        query: Query[R],
        value: str = "",
        *,
        after: str = "",
        limit: int = PAGE_ROWS,
    ) -> list[R]:
        """Return a page of the records found under `value`."""
        place = query.name, value, after, limit
        if place not in self._pages:
            page = self._reader.select(query, value, after=after, limit=limit)
            return self._kept(place, page)
        return self._pages[place].copy()

    def latest(
        self,
        query: Query[R],
        value: str = "",
        *,
        before: str = "",
        limit: int = PAGE_ROWS,
    ) -> list[R]:
        """Return a page of the records found under `value`, the greatest key first."""
        return self._reader.latest(query, value, before=before, limit=limit)

    def ranked(
        self,
        ranking: Ranking[R],
        value: str,
        *,
        limit: int = PAGE_ROWS,
        lowest: bool = False,
        above: int | None = None,
    ) -> list[R]:
        """Return the records under `value` with the highest numbers, or the lowest."""
        place = ranking.name, value, limit, lowest, above
        if place not in self._pages:
            page = self._reader.ranked(
                ranking, value, limit=limit, lowest=lowest, above=above
            )
            return self._kept(place, page)
        return self._pages[place].copy()

    def due(self, over: Range[R], until: Micros, *, limit: int = PAGE_ROWS) -> list[R]:
        """Return records whose instant is not 0 and at or before `until`."""
        return self._reader.due(over, until, limit=limit)

    def earliest(self, over: Range[R]) -> Micros | None:
        """Return the earliest instant that is not 0, or None."""
        return self._reader.earliest(over)

    def audit_keys(self, first: Micros, end: Micros) -> tuple[str, str] | None:
        """Return bounds of the keys of audit entries with an instant in [first, end)."""
        return self._reader.audit_keys(first, end)

    def _kept(self, place: tuple[str | int | None, ...], page: list[R]) -> list[R]:
        if self._has_room(1 + len(page)):
            self._pages[place] = page.copy()
        return page

    def _has_room(self, rows: int) -> bool:
        if self._rows + rows > REMEMBERED_ROWS_MAX:
            return False
        self._rows += rows
        return True
