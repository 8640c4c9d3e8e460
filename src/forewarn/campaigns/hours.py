"""When the hosts of a campaign can be announced and started: values in, values out.

Windows allow work, and blackouts forbid it even in a window. The gate asks before an
announcement, and an approved host is checked again at its start.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from forewarn.fleet.blackouts import Blackout, Clash, clash
from forewarn.fleet.calendars import Calendar
from forewarn.fleet.windows import Opening, Window, openings
from forewarn.instants import MINUTE, Micros
from forewarn.protocol.turn_blockers import InBlackout, OutsideWindow

DIGEST_DIGITS = 16
"""Hexadecimal digits of a digest of blackouts: enough to notice every change."""

LATE_MAX: Micros = MINUTE
"""Maximum time for which a start may be later than the last one that fits into a window: a
timer, a restart of the service or another leader can take so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hours:
    """The windows and blackouts that count for a campaign."""

    campaign: str
    """Its name."""
    work: Micros
    """Time from the start on that must fit into a window and avoid blackouts."""
    windows: tuple[Window, ...] = ()
    """Empty: work can begin at any time."""
    blackouts: tuple[Blackout, ...] = ()
    """Its own."""
    wide: tuple[Blackout, ...] = ()
    """Those of the service."""

    @property
    def digest(self) -> str:
        """Return a digest of its own blackouts; empty: there are none."""
        if not self.blackouts:
            return ""
        text = repr(self.blackouts).encode()
        return hashlib.sha256(text).hexdigest()[:DIGEST_DIGITS]

    def next_notice(self, now: Micros, notice: Micros) -> Micros | None:
        """Return when the next host can be announced: now, later, or never (None)."""
        return self.calendar(now).next_notice(now, notice, self.work)

    def first_start(self, now: Micros, notice: Micros) -> Micros:
        """Return the first instant at which a host that is announced now may start.

        That is the end of its notice, or later. If there is no such time, it is the end of
        the notice: the gate announces no such host.
        """
        earliest = now + notice
        start = self.next_start(earliest)
        return earliest if start is None else start

    def next_start(self, at: Micros) -> Micros | None:
        """Return when work can begin: at this time, later, or never (None)."""
        return self.calendar(at).next_start(at, self.work)

    def why_not_announced(
        self, now: Micros, notice: Micros, at: Micros | None
    ) -> OutsideWindow | InBlackout:
        """Return why no host can be announced before the instant `at`; None: never.

        If the windows alone hold it as long, they are the reason, and otherwise the
        blackout that stops it when they allow it.
        """
        by_windows = Calendar(self.windows, now)
        allowed = by_windows.next_notice(now, notice, self.work)
        if allowed is None or (at is not None and allowed >= at):
            return OutsideWindow(campaign=self.campaign, opens=at or 0)
        start = by_windows.next_start(allowed + notice, self.work)
        banned = None
        if start is not None:
            banned = self._banned(start, start + self.work, at)
        banned = banned or self._banned(allowed, allowed, at)
        return banned or OutsideWindow(campaign=self.campaign, opens=at or 0)

    def why_held(self, now: Micros) -> OutsideWindow | InBlackout | None:
        """Return why an approved host cannot start now; None: it can.

        Its work would not end before a window closes, or would overlap a blackout. If the
        windows allow it later than the blackouts, they are the reason.
        """
        by_windows = self._start_in_windows(now)
        start = self.next_start(now)
        banned = self._banned(now, now + self.work, start)
        if banned is not None:
            closed = (*self.blackouts, *self.wide)
            free = Calendar((), now, closed).next_start(now, self.work)
            if free is None or (
                by_windows is not None and by_windows < max(free, now + 1)
            ):
                return banned
        if by_windows == now:
            return None
        return OutsideWindow(campaign=self.campaign, opens=start or 0)

    def clash_at(self, start: Micros) -> Clash | None:
        """Return its own blackout that work from an instant on would overlap."""
        return clash(self.blackouts, start, start + self.work)

    def misses_window(self, start: Micros) -> bool:
        """Return whether its windows do not allow work to begin at an instant.

        A start may be as late as in `why_held`.
        """
        return self._start_in_windows(start) != start

    def _start_in_windows(self, now: Micros) -> Micros | None:
        """Return when its windows allow an announced host to start; None: never.

        A host can be announced for the last instant that fits, and starts after that.
        """
        left = max(0, self.work - LATE_MAX)
        return Calendar(self.windows, now).next_start(now, left)

    def starts(self, now: Micros, until: Micros) -> Iterator[Opening]:
        """Yield the times between two instants in which its windows let work begin."""
        coming = openings(self.windows, now)
        for opening in takewhile(lambda found: found.opens <= until, coming):
            last = opening.closes - self.work
            if last >= max(now, opening.opens):
                yield Opening(opening.opens, last + 1)

    def calendar(self, now: Micros) -> Calendar:
        """Return the windows and blackouts from an instant on."""
        return Calendar(self.windows, now, (*self.blackouts, *self.wide))

    def _banned(
        self, start: Micros, end: Micros, allowed: Micros | None
    ) -> InBlackout | None:
        """Return the first blackout that some work would overlap.

        `allowed` is when it is allowed; None: never.
        """
        clashes = [
            (banned, campaign)
            for blackouts, campaign in (
                (self.blackouts, self.campaign),
                (self.wide, ""),
            )
            if (banned := clash(blackouts, start, end)) is not None
        ]
        if not clashes:
            return None
        banned, campaign = min(clashes, key=lambda pair: pair[0].begins)
        return InBlackout(blackout=banned.name, ends=allowed or 0, campaign=campaign)
