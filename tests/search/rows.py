"""A reader over a handful of rows, for the code that asks the store."""

from collections.abc import Sequence
from typing import TypeVar

from forewarn.instants import Micros
from forewarn.store.port import PAGE_ROWS
from forewarn.store.questions import Query, Range, Ranking, Record

R = TypeVar("R", bound=Record)


class Rows:
    """A reader over a handful of rows; each query asks its own function."""

    def __init__(self, rows: Sequence[Record]) -> None:
        self._rows = sorted(rows, key=lambda row: row.key)

    def get(self, kind: type[R], key: str) -> R | None:
        for row in self._rows:
            if isinstance(row, kind) and row.key == key:
                return row
        return None

    def select(
        self,
        query: Query[R],
        value: str = "",
        *,
        after: str = "",
        limit: int = PAGE_ROWS,
    ) -> list[R]:
        rows = [
            row
            for row in self._rows
            if isinstance(row, query.kind)
            and row.key > after
            and value in query.values(row)
        ]
        return rows[:limit]

    def latest(
        self,
        query: Query[R],
        value: str = "",
        *,
        before: str = "",
        limit: int = PAGE_ROWS,
    ) -> list[R]:
        raise NotImplementedError

    def due(self, over: Range[R], until: Micros, *, limit: int = PAGE_ROWS) -> list[R]:
        raise NotImplementedError

    def earliest(self, over: Range[R]) -> Micros | None:
        raise NotImplementedError

    def audit_keys(self, first: Micros, end: Micros) -> tuple[str, str] | None:
        raise NotImplementedError

    def ranked(
        self,
        ranking: Ranking[R],
        value: str,
        *,
        limit: int = PAGE_ROWS,
        lowest: bool = False,
        above: int | None = None,
    ) -> list[R]:
        places = [
            (rank, row.key, row)
            for row in self._rows
            if isinstance(row, ranking.kind)
            for under, rank in set(ranking.places(row))
            if under == value and (above is None or rank > above)
        ]
        places.sort(key=lambda place: place[:2], reverse=not lowest)
        return [row for _, _, row in places[:limit]]
