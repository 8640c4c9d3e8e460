"""A table in memory, with an index for each question that was asked of it."""

import bisect
from operator import itemgetter
from typing import Any, TypeAlias

from forewarn.instants import Micros
from forewarn.store.kinds import Query, Range, Ranking, Record

Place: TypeAlias = tuple[Micros, str]
"""An instant and a key: where a record stands in a range."""


class _Found:
    """The keys of the records found under each value of a query, sorted."""

    def __init__(self, query: Query[Any]) -> None:
        self.keys: dict[str, list[str]] = {}
        self._values = query.values

    def change(self, key: str, old: Record | None, new: Record | None) -> None:
        before = set[str]() if old is None else set(self._values(old))
        after = set[str]() if new is None else set(self._values(new))
        for value in before - after:
            keys = self.keys[value]
            del keys[bisect.bisect_left(keys, key)]
            if not keys:
                del self.keys[value]
        for value in after - before:
            bisect.insort(self.keys.setdefault(value, []), key)


class _Ordered:
    """The places of the records in a range, sorted."""

    def __init__(self, over: Range[Any]) -> None:
        self.places: list[Place] = []
        self._instant = over.instant

    def change(self, key: str, old: Record | None, new: Record | None) -> None:
        before = 0 if old is None else self._instant(old)
        after = 0 if new is None else self._instant(new)
        if before == after:
            return
        if before:
            del self.places[bisect.bisect_left(self.places, (before, key))]
        if after:
            bisect.insort(self.places, (after, key))


class _Ranked:
    """The places of the records under each value of a ranking, sorted."""

    def __init__(self, ranking: Ranking[Any]) -> None:
        self.places: dict[str, list[tuple[int, str]]] = {}
        self._places = ranking.places

    def change(self, key: str, old: Record | None, new: Record | None) -> None:
        before = set[tuple[str, int]]() if old is None else set(self._places(old))
        after = set[tuple[str, int]]() if new is None else set(self._places(new))
        for value, rank in before - after:
            places = self.places[value]
            del places[bisect.bisect_left(places, (rank, key))]
            if not places:
                del self.places[value]
        for value, rank in after - before:
            bisect.insort(self.places.setdefault(value, []), (rank, key))


class Table:
    """Records of one kind by key; an index is made when it is first needed."""

    def __init__(self) -> None:
        """Start empty."""
        self._records: dict[str, Record] = {}
        self._found: dict[str, _Found] = {}
        self._ordered: dict[str, _Ordered] = {}
        self._ranked: dict[str, _Ranked] = {}

    def get(self, key: str) -> Record | None:
        """Return the record with this key, or None."""
        return self._records.get(key)

    def change(self, key: str, new: Record | None) -> None:
        """Put `new` in the place of what has this key; None removes it."""
        old = self._records.get(key)
        for found in self._found.values():
            found.change(key, old, new)
        for ordered in self._ordered.values():
            ordered.change(key, old, new)
        for ranked in self._ranked.values():
            ranked.change(key, old, new)
        if new is not None:
            self._records[key] = new
        elif old is not None:
            del self._records[key]

    def find(self, query: Query[Any], value: str, after: str, limit: int) -> list[str]:
        """Return the first keys under `value` that are behind `after`."""
        found = self._found.get(query.name)
        if found is None:
            found = self._found[query.name] = _Found(query)
            for key in sorted(self._records):
                found.change(key, None, self._records[key])
        keys = found.keys.get(value, [])
        start = bisect.bisect_right(keys, after)
        return keys[start : start + limit]

    def due(self, over: Range[Any], until: Micros, limit: int) -> list[Place]:
        """Return the first places at or before `until`."""
        places = self._places(over)
        end = bisect.bisect_right(places, until, key=itemgetter(0))
        return places[: min(end, limit)]

    def first(self, over: Range[Any], limit: int) -> list[Place]:
        """Return the first places."""
        return self._places(over)[:limit]

    def within(self, over: Range[Any], first: Micros, end: Micros) -> list[str]:
        """Return the keys at the places from `first` on and before `end`."""
        places = self._places(over)
        start = bisect.bisect_left(places, first, key=itemgetter(0))
        stop = bisect.bisect_left(places, end, key=itemgetter(0))
        return [key for _, key in places[start:stop]]

    def ranked(
        self, ranking: Ranking[Any], value: str, limit: int, *, lowest: bool
    ) -> list[tuple[int, str]]:
        """Return the highest places under `value`, or the lowest."""
        ranked = self._ranked.get(ranking.name)
        if ranked is None:
            ranked = self._ranked[ranking.name] = _Ranked(ranking)
            for key, record in self._records.items():
                ranked.change(key, None, record)
        places = ranked.places.get(value, [])
        return places[:limit] if lowest else places[-limit:][::-1]

    def _places(self, over: Range[Any]) -> list[Place]:
        ordered = self._ordered.get(over.name)
        if ordered is None:
            ordered = self._ordered[over.name] = _Ordered(over)
            for key, record in self._records.items():
                ordered.change(key, None, record)
        return ordered.places
