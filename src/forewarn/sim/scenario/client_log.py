"""What the programs in VMs have done since a moment, as a stage has seen it.

The journal keeps a bounded number of requests, and a poller soon fills it; what a
scenario is judged by is noted here when it happens.
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from forewarn.instants import Micros
from forewarn.protocol.events import Event, EventStatus
from forewarn.sim.journal import Journal, Seen
from forewarn.sim.sim_server import SimServer

NOTED_MAX = 10_000
"""Polls, and approvals, that are kept of a VM. Polls are judged many times a second,
so that older ones count no more."""


_HARMLESS = frozenset({"", "ok", "delay", "slow"})
"""Faults with which an answer arrives as it was, if late."""


class Approval(NamedTuple):
    """An approval that the endpoint took."""

    event_id: str
    at: Micros
    in_time: bool
    """It came before NotBefore, and before the event started."""


@dataclass(slots=True)
class Deeds:
    """What the program in one VM has done."""

    asked_first: Micros = 0
    """When it was first answered with its events; 0: never."""
    asked_last: Micros = 0
    polls: deque[Micros] = field(default_factory=lambda: deque(maxlen=NOTED_MAX))
    """When it was given its document as it is, in order. A document that was given
    several times over the same connection may be noted only once."""
    approvals: deque[Approval] = field(default_factory=lambda: deque(maxlen=NOTED_MAX))
    turned_away: Seen | None = None
    """The last request that was not answered with events or an approval."""


class ClientLog:
    """Notes what clients do, until it is closed. Used on the stage's loop."""

    def __init__(self, stage: SimServer, *, since: Micros = 0) -> None:
        """Note what clients of `stage` do, also what they have done since an instant."""
        self._stage = stage
        self._journal = stage.journal
        self._since = since
        self._deeds: dict[str, Deeds] = defaultdict(Deeds)
        for seen in self._journal.find(from_time=since):
            self._note(seen)
        self._journal.on_seen.append(self._note)

    def close(self) -> None:
        """Note nothing any more."""
        self._journal.on_seen.remove(self._note)

    def of(self, vm: str) -> Deeds:
        """Return what the program in a VM has done."""
        latest = self._journal.latest(vm)
        if latest is not None and latest.is_answered_poll and latest.at >= self._since:
            # A poll that repeats the one before is noted by the journal alone.
            deeds = self._deeds[vm]
            deeds.asked_first = deeds.asked_first or latest.at
            deeds.asked_last = max(deeds.asked_last, latest.at)
        return self._deeds.get(vm) or Deeds()

    def has_asked(self, vm: str) -> bool:
        """Tell whether the program in a VM was answered with its events."""
        return bool(self.of(vm).asked_first)

    def asking(self) -> Sequence[str]:
        """Return the VMs whose programs were answered with their events."""
        return sorted(vm for vm in self._journal.vms if self.has_asked(vm))

    def _note(self, seen: Seen) -> None:
        if not seen.vm:
            return
        deeds = self._deeds[seen.vm]
        if seen.is_answered_poll:
            deeds.asked_first = deeds.asked_first or seen.at
            deeds.asked_last = max(deeds.asked_last, seen.at)
            if was_given(seen):
                deeds.polls.append(seen.at)
        elif seen.took_effect:
            deeds.approvals += [self._approval(each, seen.at) for each in seen.approved]
        else:
            deeds.turned_away = seen

    def _approval(self, event_id: str, at: Micros) -> Approval:
        event = self._stage.engine.read(lambda reader: reader.get(Event, event_id))
        # It may have started already, by this very approval.
        return Approval(
            event_id=event_id,
            at=at,
            in_time=event is not None
            and at <= event.not_before
            and (event.status is EventStatus.SCHEDULED or event.started_at >= at),
        )


class Witness:
    """Tells from a journal what VMs asked."""

    def __init__(self, journal: Journal) -> None:
        """Read `journal`, whenever somebody asks."""
        self._journal = journal

    def polls(self, vm: str, *, since: Micros) -> Sequence[Micros]:
        """Return when the VM was given its document as it is, in order."""
        found = self._journal.find(vm=vm, method="GET", from_time=since)
        return [seen.at for seen in found if was_given(seen)]

    def deviations(self, vm: str, *, since: Micros) -> Sequence[str]:
        """Return what the VM did against the protocol; empty: any VM."""
        return [
            f"{seen.vm or seen.address}: {each}"
            for seen in self._journal.find(
                vm=vm or None, from_time=since, deviating=True
            )
            for each in seen.deviations
        ]


def was_given(seen: Seen) -> bool:
    """Tell whether a VM was given its document as it is."""
    return seen.is_answered_poll and seen.fault.partition(" ")[0] in _HARMLESS
