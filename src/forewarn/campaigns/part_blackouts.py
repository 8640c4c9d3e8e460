"""Blackouts of a part of the fleet: which hosts of a campaign they stop, and when others
can begin."""

from collections.abc import Sequence
from dataclasses import dataclass

from forewarn.campaigns.fleet_map import FleetMap
from forewarn.fleet.blackouts import Blackout
from forewarn.fleet.calendars import Calendar
from forewarn.fleet.windows import Window
from forewarn.instants import Micros


@dataclass(frozen=True, slots=True, kw_only=True)
class PartBlackout:
    """A blackout of the service for the hosts at some places."""

    time: Blackout
    places: tuple[tuple[str, str], ...]
    """Properties or labels of hosts with their values, such as `rack` and `r7`. Values of
    one property are alternatives, and a host matches every property."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedPart:
    """A blackout of a part of the fleet, with the hosts of a campaign that it stops."""

    blackout: PartBlackout
    hosts: frozenset[int]


def stopped_parts(
    fleet: FleetMap, hosts: Sequence[int], blackouts: Sequence[PartBlackout]
) -> tuple[StoppedPart, ...]:
    """Return the blackouts that stop any of these hosts."""
    stopped = (
        StoppedPart(blackout=blackout, hosts=_covered(fleet, hosts, blackout))
        for blackout in blackouts
    )
    return tuple(part for part in stopped if part.hosts)


def _covered(
    fleet: FleetMap, hosts: Sequence[int], blackout: PartBlackout
) -> frozenset[int]:
    left = list(hosts)
    for label in dict.fromkeys(label for label, _ in blackout.places):
        column = fleet.column(label)
        wanted = {
            column.numbers.get(name) for key, name in blackout.places if key == label
        }
        left = [host for host in left if column.of[host] in wanted]
    return frozenset(left)


class Calendars:
    """When the hosts of a campaign can be announced and can begin.

    Hosts under the same blackouts share a calendar, since its times are computed once.
    """

    def __init__(
        self,
        windows: Sequence[Window],
        after: Micros,
        blackouts: Sequence[Blackout] = (),
        parts: Sequence[StoppedPart] = (),
    ) -> None:
        """Find times after `after` when they are needed."""
        self._common = Calendar(windows, after, blackouts)
        self._own: dict[int, Calendar] = {}
        """The calendars of hosts in a part of the fleet that has blackouts."""
        over: dict[int, list[Blackout]] = {}
        for part in parts:
            for host in part.hosts:
                over.setdefault(host, []).append(part.blackout.time)
        shared: dict[tuple[Blackout, ...], Calendar] = {}
        for host, banned in over.items():
            key = tuple(banned)
            if key not in shared:
                shared[key] = Calendar(windows, after, (*blackouts, *key))
            self._own[host] = shared[key]
        self.has_parts = bool(self._own)
        """Whether any host is in a part of the fleet that has blackouts."""

    def of(self, host: int) -> Calendar:
        """Return the calendar of a host."""
        return self._own.get(host, self._common)

    def passed_until(
        self, host: int, at: Micros, notice: Micros, work: Micros
    ) -> Micros | None:
        """Return until when other hosts go before this one; None: always.

        A campaign does not wait for a blackout of a part of the fleet: it announces the
        hosts that are elsewhere.
        """
        own = self._own.get(host)
        return at if own is None else own.next_notice(at, notice, work)
