"""A table in memory, with an index for each question that was used on it."""

import bisect
import math
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from forewarn.store.questions import AnyQuestion, Record

Place: TypeAlias = tuple[float, str]
"""A number and a key: the position of a record under a value. A query has the number
0, a range the instant."""

FIRST: Place = (-math.inf, "")
END: Place = (math.inf, "")


class _Index:
    """The places of the records under each value of a question, sorted."""

    def __init__(self, places: Callable[[Any], Iterable[tuple[str, int]]]) -> None:
        self.places: dict[str, list[Place]] = {}
        self._places = places

    def change(self, key: str, old: Record | None, new: Record | None) -> None:
        before = set[tuple[str, int]]() if old is None else set(self._places(old))
        after = set[tuple[str, int]]() if new is None else set(self._places(new))
        for value, number in before - after:
            places = self.places[value]
            del places[bisect.bisect_left(places, (number, key))]
            if not places:
                del self.places[value]
        for value, number in after - before:
            bisect.insort(self.places.setdefault(value, []), (number, key))


class Table:
    """Records of one kind by key; an index is created at its first use."""

    def __init__(self) -> None:
        """Start empty."""
        self._records: dict[str, Record] = {}
        self._indexes: dict[str, _Index] = {}

    def get(self, key: str) -> Record | None:
        """Return the record with this key, or None."""
        return self._records.get(key)

    def change(self, key: str, new: Record | None) -> None:
        """Replace the record with this key by `new`; None removes it."""
        old = self._records.get(key)
        for index in self._indexes.values():
            index.change(key, old, new)
        if new is not None:
            self._records[key] = new
        elif old is not None:
            del self._records[key]

    def find(
        self,
        question: AnyQuestion[Any],
        value: str,
        limit: int,
        *,
        after: Place = FIRST,
        end: Place = END,
        lowest: bool = True,
    ) -> list[Place]:
        """Return the lowest places after `after` and before `end`, or the highest."""
        index = self._indexes.get(question.name)
        if index is None:
            index = self._indexes[question.name] = _Index(question.places)
            for key in sorted(self._records):
                index.change(key, None, self._records[key])
        places = index.places.get(value, [])
        start = bisect.bisect_right(places, after)
        stop = bisect.bisect_left(places, end)
        if lowest:
            return places[start : min(stop, start + limit)]
        return places[max(start, stop - limit) : stop][::-1]
