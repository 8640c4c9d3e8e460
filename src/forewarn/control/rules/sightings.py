"""Sightings that wait for their confirmation. Nothing here reads the store or a clock.

A driver sees that a VM stopped, runs again or is elsewhere. Control acts only if no other
sighting of the VM contradicts that within the confirmation time. If more VMs than a limit
stop within that time, the network or the driver is faulty, not the VMs: then no VM is
failed until few enough of them are left. If all that is too much is on one host, it is a
matter of that host, and only its VMs are not failed.
"""

import heapq
from collections import Counter
from dataclasses import dataclass
from itertools import islice

from forewarn.drivers.port import Sighting, StopCause
from forewarn.instants import MINUTE, Micros
from forewarn.protocol.enumerations import Enumeration

RECHECK_MAX: Micros = 10 * MINUTE
"""Maximum time between two checks of a sighting that cannot be acted on. A check reads the
VM; the time doubles from the confirmation time up to this."""


EARLY_MAX = 200
"""Maximum sightings during calls that are shown to operators: few calls have an unknown
outcome at once."""

NOT_RUNNING_MAX = 1_000
"""Maximum VMs that were off before the driver looked that are shown to operators: those of
some racks that lost power."""


class SightingAct(Enumeration):
    """A reaction to a sighting."""

    FAIL = "fail"
    """A VM that stopped fails."""
    RESTORE = "restore"
    """A VM that failed by a sighting or a driver call, and runs again, is restored."""
    MOVE = "move"
    """A VM that runs on another host is recorded there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Withheld:
    """VMs that stopped together, and are not failed for that reason."""

    vms: int
    since: Micros
    host: str = ""
    """The host of these VMs, if VMs of other hosts are failed as usual; empty: no VM is."""

    def applies_to(self, sighting: Sighting) -> bool:
        """Return whether a VM that stopped is one of them."""
        return not self.host or sighting.host == self.host


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Observations of VMs by drivers that are not recorded."""

    withheld: Withheld | None = None
    early: tuple[Sighting, ...] = ()
    """Sightings of VMs that the driver works on, whose calls decide; at most EARLY_MAX."""
    not_running: tuple[Sighting, ...] = ()
    """Confirmed sightings of VMs that were off before the driver looked, for an unknown
    reason; at most NOT_RUNNING_MAX."""


NOTHING_SEEN = Seen()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    """A sighting that waits."""

    sighting: Sighting
    due: Micros
    wait: Micros
    is_expected: bool
    """The driver works on the VM, so that its stop means nothing yet."""

    @property
    def counts(self) -> bool:
        """Return whether it counts as a VM that stopped."""
        sighting = self.sighting
        is_failure = not sighting.running and sighting.cause is StopCause.FAILED
        return is_failure and not self.is_expected


class Confirmations:
    """The sightings that wait, by VM. A step takes the same time for any number."""

    def __init__(self, *, confirm: Micros, stopped_max: int) -> None:
        """Wait for `confirm`; fail no VM while more than `stopped_max` have stopped."""
        self._confirm = confirm
        self._stopped_max = stopped_max
        self._waiting: dict[str, _Waiting] = {}
        self._dues: list[tuple[Micros, str]] = []
        """The times of sightings; those that do not fit `_waiting` are obsolete."""
        self._early: dict[str, Sighting] = {}
        self._not_running: dict[str, Sighting] = {}
        self._stopped: Counter[str] = Counter()
        """The number of VMs that stopped, by host; empty: a host that is not known."""
        self._stopped_total = 0
        self._stopped_since: dict[str, Micros] = {}
        """When the first of them stopped, by host, the earliest first."""
        self._crowded: set[str] = set()
        """The hosts on which more VMs stopped than may be failed."""

    def seen(self) -> Seen:
        """Return what is seen and not recorded."""
        early = tuple(islice(self._early.values(), EARLY_MAX))
        not_running = tuple(islice(self._not_running.values(), NOT_RUNNING_MAX))
        return Seen(withheld=self.withheld(), early=early, not_running=not_running)

    def show(self, sighting: Sighting) -> None:
        """Show the sighting of a VM that was off before the driver looked.

        It waits on, until it is dropped or replaced.
        """
        self._not_running[sighting.vm] = sighting

    def withheld(self) -> Withheld | None:
        """Return how many VMs are not failed, because too many stopped at once."""
        if self._stopped_total <= self._stopped_max:
            return None
        if len(self._crowded) == 1:
            [host] = self._crowded
            others = self._stopped_total - self._stopped[host]
            if host and others <= self._stopped_max:
                since = self._stopped_since[host]
                return Withheld(vms=self._stopped[host], since=since, host=host)
        since = next(iter(self._stopped_since.values()))
        return Withheld(vms=self._stopped_total, since=since)

    def take(self, sighting: Sighting, *, is_expected: bool, now: Micros) -> None:
        """Let a sighting wait, instead of an earlier one of the same VM."""
        known = self._waiting.get(sighting.vm)
        if (
            known is not None
            and known.is_expected == is_expected
            and _says_the_same(known.sighting, sighting)
        ):
            return
        if (
            known is not None
            and sighting.is_without_reason
            and not known.sighting.is_without_reason
        ):
            # It can be an old definition of a VM that another host has told about.
            return
        self.drop(sighting.vm, now=now)
        self._put(sighting, is_expected=is_expected, now=now)

    def drop(self, vm: str, *, now: Micros) -> None:
        """Remove the sighting of a VM: it was contradicted, or means nothing."""
        known = self._waiting.pop(vm, None)
        self._early.pop(vm, None)
        self._not_running.pop(vm, None)
        if known is None or not known.counts:
            return
        before = self.withheld()
        self._uncount(known.sighting.host)
        after = self.withheld()
        if before is None or (after is not None and after.host == before.host):
            return
        # The others may come back as well: they get the whole time again.
        for confirmation in list(self._waiting.values()):
            is_free = after is None or not after.applies_to(confirmation.sighting)
            if (
                confirmation.counts
                and is_free
                and before.applies_to(confirmation.sighting)
            ):
                self._schedule(confirmation.sighting, is_expected=False, now=now)

    def due(self, *, now: Micros, limit: int) -> list[Sighting]:
        """Return sightings whose time has elapsed; each of them waits twice as long again.

        The caller drops those that it has processed.
        """
        confirmed: list[Sighting] = []
        while self._dues and self._dues[0][0] <= now and len(confirmed) < limit:
            due, vm = heapq.heappop(self._dues)
            known = self._waiting.get(vm)
            if known is None or known.due != due:
                continue
            confirmed.append(known.sighting)
            wait = max(self._confirm, min(2 * known.wait, RECHECK_MAX))
            self._schedule(
                known.sighting, is_expected=known.is_expected, now=now, wait=wait
            )
        return confirmed

    def next_due(self) -> Micros | None:
        """Return the time of the next due sighting."""
        while self._dues:
            due, vm = self._dues[0]
            known = self._waiting.get(vm)
            if known is not None and known.due == due:
                return due
            heapq.heappop(self._dues)
        return None

    def is_expected(self, vm: str) -> bool:
        """Return whether the sighting of a VM is only waiting for the driver's work."""
        known = self._waiting.get(vm)
        return known is not None and known.is_expected

    def _put(self, sighting: Sighting, *, is_expected: bool, now: Micros) -> None:
        self._schedule(sighting, is_expected=is_expected, now=now)
        if self._waiting[sighting.vm].counts:
            self._count(sighting.host, now=now)

    def _count(self, host: str, *, now: Micros) -> None:
        """Count a VM that stopped."""
        self._stopped_since.setdefault(host, now)
        self._stopped[host] += 1
        self._stopped_total += 1
        if self._stopped[host] > self._stopped_max:
            self._crowded.add(host)

    def _uncount(self, host: str) -> None:
        """Count a VM no longer."""
        self._stopped[host] -= 1
        self._stopped_total -= 1
        if self._stopped[host] <= self._stopped_max:
            self._crowded.discard(host)
        if not self._stopped[host]:
            del self._stopped[host], self._stopped_since[host]

    def _schedule(
        self,
        sighting: Sighting,
        *,
        is_expected: bool,
        now: Micros,
        wait: Micros | None = None,
    ) -> None:
        wait = self._confirm if wait is None else wait
        due = now + wait
        waiting = _Waiting(
            sighting=sighting, due=due, wait=wait, is_expected=is_expected
        )
        self._waiting[sighting.vm] = waiting
        if is_expected:
            self._early[sighting.vm] = sighting
        else:
            self._early.pop(sighting.vm, None)
        heapq.heappush(self._dues, (due, sighting.vm))


def _says_the_same(one: Sighting, other: Sighting) -> bool:
    return (one.running, one.host, one.cause) == (
        other.running,
        other.host,
        other.cause,
    )
