"""When planned work can be announced and can begin: windows and blackouts together."""

from collections.abc import Iterator, Sequence
from itertools import islice

from forewarn.fleet.blackouts import Blackout, closed_times
from forewarn.fleet.common_openings import Times
from forewarn.fleet.windows import Opening, Window, openings
from forewarn.instants import DAY, Micros

MISSES_MAX = 400
"""Maximum openings in a row that are too short for a host, or blackouts in a row, before
it counts as never: more than a year of windows, of which a change of the clock can join
some."""

AHEAD_MAX: Micros = 1_000 * DAY
"""Maximum time that is looked ahead; what is later counts as never. A blackout of each
whole day has no end, and each day of it is computed."""


class Calendar:
    """The windows and blackouts of a campaign from an instant on.

    Without windows it is always open. A blackout closes it even in a window.
    """

    def __init__(
        self,
        windows: Sequence[Window],
        after: Micros,
        blackouts: Sequence[Blackout] = (),
    ) -> None:
        """Find openings and blackouts after `after` when they are needed."""
        self._openings = Times(openings(windows, after)) if windows else None
        self._closed = Times(closed_times(blackouts, after)) if blackouts else None

    def next_notice(self, at: Micros, notice: Micros, work: Micros) -> Micros | None:
        """Return when a host can be announced: at this time, later, or never (None).

        It is not announced in a blackout. Its work begins after the notice and the
        opening, and must fit before the close and before the next blackout.
        """
        if self._openings is None and self._closed is None:
            return at
        until = at + AHEAD_MAX
        for _ in range(MISSES_MAX):
            start = self.next_start(at + notice, work)
            if start is None or start > until:
                return None
            announced = max(at, start - notice)
            at = self._after_closed(announced, announced)
            if at == announced:
                return at
        return None

    def next_start(self, at: Micros, work: Micros) -> Micros | None:
        """Return when work can begin: at this time, later, or never (None)."""
        until = at + AHEAD_MAX
        for _ in range(MISSES_MAX):
            start = self._next_open(at, work)
            if start is None or start > until:
                return None
            at = self._after_closed(start, start + work)
            if at == start:
                return at
        return None

    def _next_open(self, at: Micros, work: Micros) -> Micros | None:
        """Return when work can begin by the windows alone."""
        if self._openings is None:
            return at
        coming = self._openings.after(at + work - 1)
        for opening in islice(coming, MISSES_MAX):
            start = max(at, opening.opens)
            if start + work <= opening.closes:
                return start
        return None

    def _after_closed(self, start: Micros, end: Micros) -> Micros:
        """Return the end of the blackout that some work overlaps, or its start."""
        if self._closed is not None:
            time = self._closed.first(start)
            if time is not None and time.opens < max(end, start + 1):
                return time.closes
        return start


def free_times(
    windows: Sequence[Window],
    blackouts: Sequence[Blackout],
    after: Micros,
    until: Micros,
) -> Iterator[Opening]:
    """Yield the times between two instants that are in a window and in no blackout.

    Without windows, only blackouts count.
    """
    closed = closed_times(blackouts, after)
    ban = next(closed, None)
    opened = openings(windows, after) if windows else iter([Opening(after, until)])
    for opening in opened:
        start, end = max(after, opening.opens), min(opening.closes, until)
        if start >= until:
            return
        while ban is not None and ban.opens < end:
            if start < ban.opens:
                yield Opening(start, ban.opens)
            start = max(start, ban.closes)
            if start >= end:
                # The blackout can cover the next window too.
                break
            ban = next(closed, None)
        if start < end:
            yield Opening(start, end)
