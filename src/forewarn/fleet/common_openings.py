"""When windows of several groups are open together.

A search looks at as few groups as it needs. It begins with the group that opens last, and
goes from one common opening to the next. A group joins when it is closed then. So each
opening is passed once, and the groups that joined show why there is no common opening.
"""

import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappush, heapreplace

from forewarn.fleet.windows import Opening
from forewarn.instants import DAY, Micros

HORIZON: Micros = 14 * DAY
"""Maximum time that is searched for a common opening. Windows recur every week; the
second week covers a change of the clock in one of their time zones."""

LOOKS_MAX = 2_000
"""Maximum openings that a decision computes or looks at for a start, some 2 µs each: two
weeks of 20 openings a day in 7 groups that need each other. It looks at as many again to
explain that there is none. A search that ends before the horizon is repeated later."""


class Times:
    """Times in their order, which are computed once, and when they are needed."""

    def __init__(self, coming: Iterator[Opening]) -> None:
        """Keep the times that an iterator has."""
        self._coming = coming
        self._found: list[Opening] = []
        self._closes: list[Micros] = []

    def __len__(self) -> int:
        """Return how many times were computed."""
        return len(self._found)

    def first(self, instant: Micros) -> Opening | None:
        """Return the first time that closes after an instant; None: there is none."""
        while not self._closes or self._closes[-1] <= instant:
            if not self._find():
                return None
        return self._found[bisect_right(self._closes, instant)]

    def after(self, instant: Micros) -> Iterator[Opening]:
        """Yield the times that close after an instant."""
        if self.first(instant) is None:
            return
        place = bisect_right(self._closes, instant)
        while place < len(self._found) or self._find():
            yield self._found[place]
            place += 1

    def _find(self) -> bool:
        opening = next(self._coming, None)
        if opening is None:
            return False
        self._found.append(opening)
        self._closes.append(opening.closes)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The result of a search for a common opening."""

    opens: Micros | None
    """The first instant at which a window of each group is open; None: not found."""
    until: Micros
    """The time that was searched ends here."""
    apart: tuple[int, ...] = ()
    """Numbers of groups that are not open together in this time; empty: it was found."""


class CommonOpenings:
    """The openings that groups of windows have in common."""

    def __init__(self, groups: Iterable[Iterator[Opening]]) -> None:
        """Take the openings of each group when they are needed."""
        self._groups = [Times(coming) for coming in groups]
        self.looks = 0
        """The number of openings that were computed or compared."""
        self._most = LOOKS_MAX
        self._searches: dict[Micros, Search] = {}

    def opens(self, group: int, at: Micros) -> Micros | None:
        """Return the first instant, from `at` on, at which a group is open."""
        opening = self._first_opening(group, at)
        return None if opening is _NEVER else max(at, opening.opens)

    def opening(self, group: int, at: Micros) -> Opening:
        """Return the first opening of a group that closes after an instant."""
        return self._first_opening(group, at)

    def first(self, at: Micros) -> Search:
        """Find the first instant, from `at` on, at which all groups are open."""
        if at not in self._searches:
            self._searches[at] = self._search(range(len(self._groups)), at)
        return self._searches[at]

    def apart(self, search: Search, at: Micros) -> tuple[int, ...]:
        """Return the groups because of which a search from `at` on has found nothing.

        Without any of them, the others are open together. If that takes too many looks to
        find out, a group is kept.
        """
        self._most = self.looks + LOOKS_MAX
        needed = search.apart
        for group in search.apart:
            if group in needed:
                others = [other for other in needed if other != group]
                again = self._search(others, at)
                if again.opens is None and again.until >= search.until:
                    needed = again.apart
        return needed

    def _search(self, groups: Iterable[int], at: Micros) -> Search:
        until = at + HORIZON
        left = list(groups)
        joined: list[int] = []
        closing: list[tuple[Micros, int]] = []
        """When the current openings of the groups that joined close: a heap."""
        opens = at
        while True:
            opens = self._open_together(closing, opens, until)
            if opens > until or self.looks >= self._most:
                return Search(opens=None, until=min(opens, until), apart=tuple(joined))
            coming = [(self._first_opening(group, opens), group) for group in left]
            opening, last = max(coming, default=(Opening(opens, opens), -1))
            if opening.opens <= opens:
                return Search(opens=opens, until=opens)
            opens = opening.opens
            joined.append(last)
            left.remove(last)
            heappush(closing, (opening.closes, last))

    def _open_together(
        self, closing: list[tuple[Micros, int]], at: Micros, until: Micros
    ) -> Micros:
        """Return the first instant, from `at` on, at which some groups are open.

        It ends after `until`, or when it has looked at too many openings.
        """
        opens = at
        while closing and closing[0][0] <= opens <= until and self.looks < self._most:
            group = closing[0][1]
            opening = self._first_opening(group, opens)
            heapreplace(closing, (opening.closes, group))
            opens = max(opens, opening.opens)
        return opens

    def _first_opening(self, group: int, at: Micros) -> Opening:
        """Return the first opening of a group that closes after an instant."""
        times = self._groups[group]
        before = len(times)
        opening = times.first(at)
        self.looks += 1 + len(times) - before
        return _NEVER if opening is None else opening


_NEVER = Opening(sys.maxsize - 1, sys.maxsize)
"""The opening of windows that have none left."""
