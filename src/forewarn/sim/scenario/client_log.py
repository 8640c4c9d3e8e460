"""What the programs in VMs have done since a moment, as a stage has seen it.

The journal keeps a bounded number of requests, and a poller soon fills it; what a
scenario is judged by is noted here when it happens.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from forewarn.instants import Micros
from forewarn.protocol.events import Event, EventStatus
from forewarn.sim.journal import Seen
from forewarn.sim.scenario.witness import was_given
from forewarn.sim.sim_server import SimServer

NOTED_MAX = 10_000
"""Polls, and approvals, that are kept of a VM. Polls are judged many times a second,
so that older ones count no more."""


class Approval(NamedTuple):
    """An approval that the endpoint took."""

    event_id: str
    at: Micros
    in_time: bool
    """It came before NotBefore, and before the event started."""


class Deeds:
    """What the program in one VM has done."""

    def __init__(self) -> None:
        """It has done nothing yet."""
        self.asked_first: Micros = 0
        """When it was first answered with its events; 0: never."""
        self.asked_last: Micros = 0
        self.polls: deque[Micros] = deque(maxlen=NOTED_MAX)
        """When it was given its document as it is, in order. A document that was given
        several times over the same connection may be noted only once."""
        self.approvals: deque[Approval] = deque(maxlen=NOTED_MAX)
        self.turned_away: Seen | None = None
        """The last request that was not answered with events or an approval."""


class ClientLog:
    """Notes what clients do, until it is closed. Used on the stage's loop."""

    def __init__(self, stage: SimServer, *, since: Micros = 0) -> None:
        """Note what clients of `stage` do, also what they have done since an instant."""
        self._stage = stage
        self._journal = stage.journal
        self._since = since
        self._deeds: dict[str, Deeds] = {}
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
            deeds = self._of(vm)
            deeds.asked_first = deeds.asked_first or latest.at
            deeds.asked_last = max(deeds.asked_last, latest.at)
        return self._deeds.get(vm) or Deeds()

    def has_asked(self, vm: str) -> bool:
        """Tell whether the program in a VM was answered with its events."""
        return bool(self.of(vm).asked_first)

    def asking(self) -> Sequence[str]:
        """Return the VMs whose programs were answered with their events."""
        return sorted(vm for vm in self._journal.vms if self.has_asked(vm))

    def _of(self, vm: str) -> Deeds:
        found = self._deeds.get(vm)
        if found is None:
            found = self._deeds[vm] = Deeds()
        return found

    def _note(self, seen: Seen) -> None:
        if not seen.vm:
            return
        deeds = self._of(seen.vm)
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
