"""A log of the actions of clients, for the judgement of a scenario.

The journal is bounded, and pollers fill it quickly. So the facts for the judgement are
stored here when they happen.
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from forewarn.instants import Micros
from forewarn.protocol.events import Event, EventStatus
from forewarn.sim.journal import Journal, JournalEntry
from forewarn.sim.sim_server import SimServer

NOTED_MAX = 10_000
"""Maximum number of stored polls, and of approvals, of a VM. Polls are judged many times a
second, so older ones no longer count."""


_HARMLESS = frozenset({"", "ok", "delay", "slow"})
"""Faults that do not change an answer, only its time."""


class Approval(NamedTuple):
    """An approval that the endpoint accepted."""

    event_id: str
    at: Micros
    in_time: bool
    """Whether the approval came before NotBefore and before the start of the event."""


@dataclass(slots=True)
class ClientActions:
    """The actions of the program in one VM."""

    asked_first: Micros = 0
    """Time of the first answer with the VM's events; 0: never."""
    asked_last: Micros = 0
    polls: deque[Micros] = field(default_factory=lambda: deque(maxlen=NOTED_MAX))
    """Times when it received its genuine document, in order. Repetitions over the same
    connection may be stored only once."""
    approvals: deque[Approval] = field(default_factory=lambda: deque(maxlen=NOTED_MAX))
    turned_away: JournalEntry | None = None
    """The last request that was answered without events or an approval."""


class ClientLog:
    """A log of clients, until it is closed. Used on the event loop of the server."""

    def __init__(self, stage: SimServer, *, since: Micros = 0) -> None:
        """Log the actions of clients of `stage`, including those since `since`."""
        self._stage = stage
        self._journal = stage.journal
        self._since = since
        self._actions: dict[str, ClientActions] = defaultdict(ClientActions)
        for entry in self._journal.find(from_time=since):
            self._note(entry)
        self._journal.on_seen.append(self._note)

    def close(self) -> None:
        """Stop logging."""
        self._journal.on_seen.remove(self._note)

    def of(self, vm: str) -> ClientActions:
        """Return the actions of the program in a VM."""
        latest = self._journal.latest(vm)
        if latest is not None and latest.is_answered_poll and latest.at >= self._since:
            # A repeated poll triggers no callback, so find it in the journal.
            actions = self._actions[vm]
            actions.asked_first = actions.asked_first or latest.at
            actions.asked_last = max(actions.asked_last, latest.at)
        return self._actions.get(vm) or ClientActions()

    def has_asked(self, vm: str) -> bool:
        """Return whether the program in a VM asked for its events and got an answer."""
        return bool(self.of(vm).asked_first)

    def asking(self) -> Sequence[str]:
        """Return the VMs whose programs asked for their events and got an answer."""
        return sorted(vm for vm in self._journal.vms if self.has_asked(vm))

    def _note(self, entry: JournalEntry) -> None:
        if not entry.vm:
            return
        actions = self._actions[entry.vm]
        if entry.is_answered_poll:
            actions.asked_first = actions.asked_first or entry.at
            actions.asked_last = max(actions.asked_last, entry.at)
            if was_given(entry):
                actions.polls.append(entry.at)
        elif entry.took_effect:
            actions.approvals += [
                self._approval(event_id, entry.at) for event_id in entry.approved
            ]
        else:
            actions.turned_away = entry

    def _approval(self, event_id: str, at: Micros) -> Approval:
        event = self._stage.engine.read(lambda reader: reader.get(Event, event_id))
        # This approval may already have started the event.
        return Approval(
            event_id=event_id,
            at=at,
            in_time=event is not None
            and at <= event.not_before
            and (event.status is EventStatus.SCHEDULED or event.started_at >= at),
        )


class Witness:
    """The polls and deviations of VMs, from a journal."""

    def __init__(self, journal: Journal) -> None:
        """Read `journal` at each call."""
        self._journal = journal

    def polls(self, vm: str, *, since: Micros) -> Sequence[Micros]:
        """Return the times when the VM received its genuine document, in order."""
        entries = self._journal.find(vm=vm, method="GET", from_time=since)
        return [entry.at for entry in entries if was_given(entry)]

    def deviations(self, vm: str, *, since: Micros) -> Sequence[str]:
        """Return the deviations of a VM; empty: of any VM."""
        return [
            f"{entry.vm or entry.address}: {deviation}"
            for entry in self._journal.find(
                vm=vm or None, from_time=since, deviating=True
            )
            for deviation in entry.deviations
        ]


def was_given(entry: JournalEntry) -> bool:
    """Return whether a VM received its genuine document."""
    return entry.is_answered_poll and entry.fault.partition(" ")[0] in _HARMLESS
