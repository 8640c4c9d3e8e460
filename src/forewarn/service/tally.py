"""The counts of work of a deciding service: operations, events, calls and transactions.

The control thread updates them from the changes of each transaction. Open operations and
events are read once at the start. The counters start at 0 with each process; Prometheus
handles the reset.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from forewarn.admin.meters import Histogram
from forewarn.clock import Clock
from forewarn.fleet.model import Capacity, Host
from forewarn.instants import SECOND, Micros
from forewarn.protocol.events import Event, EventStatus, Outcome
from forewarn.protocol.operations import (
    ENDED_STATES,
    Operation,
    OperationState,
    Verb,
)
from forewarn.protocol.views import View
from forewarn.protocol.visits import Visit
from forewarn.service import metric_definitions
from forewarn.service.campaign_metrics import OpenCampaigns
from forewarn.service.observed import Change, Changes, Listener
from forewarn.service.stop_metrics import Stops
from forewarn.service.visit_metrics import OpenVisits
from forewarn.store import kinds
from forewarn.store.port import Reader, Store, every
from forewarn.store.records import AuditEntry, AuditKind, Brake
from forewarn.store.wide_blackouts import WideBlackout

VERDICTS: Mapping[AuditKind, str] = {
    AuditKind.DRIVER_DONE: "done",
    AuditKind.DRIVER_FAILED: "failed",
    AuditKind.DRIVER_OUTCOME_UNKNOWN: "unknown",
}
"""The verdicts of driver calls, by kind of audit entry."""


Place: TypeAlias = tuple[str, str]
"""A verb and a state, as label values."""


class Counted(NamedTuple):
    """An open operation, and the time when it entered its state.

    This class is a NamedTuple, since creating a frozen dataclass takes three times as
    long.
    """

    operation: Operation
    since: Micros
    place: Place


def counted(operation: Operation, since: Micros) -> Counted:
    """Return an open operation in its state since the instant `since`."""
    return Counted(operation, since, (operation.verb.value, operation.state.value))


class Tally(Listener):
    """The counters; the control thread writes them, any thread can read them."""

    def __init__(self, clock: Clock) -> None:
        """Start with zero counts."""
        self._clock = clock
        self._open: dict[str, Counted] = {}
        self.stops = Stops(clock)
        self.campaigns = OpenCampaigns(clock)
        self.visits = OpenVisits(clock)
        self.cordoned: set[str] = set()
        """Names of the hosts that take no new VM."""
        self.away: set[str] = set()
        """Names of the hosts that are announced, in work, cordoned or down."""
        self.ended: Counter[tuple[str, str]] = Counter()
        self.live: Counter[tuple[str, str]] = Counter()
        """Events in documents, by status and type."""
        self.steps: Counter[tuple[str, str]] = Counter()
        """Steps of events, by type and step."""
        self.approval_seconds: defaultdict[str, Histogram] = defaultdict(
            lambda: Histogram(metric_definitions.APPROVAL_SECONDS.buckets)
        )
        self.late_seconds = Histogram(metric_definitions.TIMER_LATE_SECONDS.buckets)
        self.transaction_seconds = Histogram(metric_definitions.STORE_SECONDS.buckets)
        self.store_failures = 0
        self.calls: Counter[str] = Counter()
        self.results: Counter[tuple[str, str]] = Counter()

    def load(self, store: Store) -> None:
        """Load the open operations and events; call it before anything writes."""
        now = self._clock.now()

        def read_open(reader: Reader) -> None:
            for operation in every(reader, kinds.OPEN_OPERATIONS):
                self._open[operation.operation_id] = counted(
                    operation, _since(operation, now)
                )
            self.stops.load(reader)
            self.campaigns.load(reader)
            self.visits.load(reader)
            self.cordoned.update(
                host.name for host in every(reader, kinds.HOSTS_CORDONED)
            )
            self.away.update(room.host for room in every(reader, kinds.ROOMS_AWAY))
            for event in every(reader, kinds.LIVE_EVENTS):
                self.live[event.status.value, event.event_type.value] += 1

        store.read(read_open)

    def open(self) -> Sequence[Counted]:
        """Return the open operations; any thread can call this."""
        return list(self._open.values())

    # observed.Listener

    def store_failed(self) -> None:
        """Count a failed transaction."""
        self.store_failures += 1

    def took(self, seconds: float) -> None:
        """Count a transaction."""
        self.transaction_seconds.observe(seconds)

    def committed(self, changes: Changes) -> None:
        """Count what a transaction wrote."""
        now = self._clock.now()
        looked_at: set[str] = set()
        self.campaigns.take(changes)
        for kind in (Brake, WideBlackout):
            for before, after in changes.of(kind):
                self.stops.changed(before, after)
        for before, after in changes.of(Visit):
            self.visits.changed(before, after)
        for change in changes.of(Operation):
            self._operation(change, now, looked_at)
        for change in changes.of(Event):
            self._event(change)
        self._hosts(changes)
        for change in changes.of(View):
            self._timer(change.before, now, looked_at)
        for _before, entry in changes.of(AuditEntry):
            if entry is not None and entry.kind in VERDICTS:
                self._result(entry)
        for _before, operation in changes.of(Operation):
            if operation is not None and operation.state in ENDED_STATES:
                self._open.pop(operation.operation_id, None)

    def _hosts(self, changes: Changes) -> None:
        for before, after in changes.of(Host):
            if before is not None:
                self.cordoned.discard(before.name)
            if after is not None and after.cordons:
                self.cordoned.add(after.name)
        for before, after in changes.of(Capacity):
            if before is not None:
                self.away.discard(before.host)
            if after is not None and after.is_away:
                self.away.add(after.host)

    def _operation(
        self, change: Change[Operation], now: Micros, looked_at: set[str]
    ) -> None:
        before, after = change
        if after is None:
            return
        self._timer(before, now, looked_at)
        last = self._open.get(after.operation_id)
        moved = before is None or before.state is not after.state
        self._open[after.operation_id] = counted(
            after, now if moved or last is None else last.since
        )
        if before is None:
            return
        if after.generation > before.generation:
            self.calls[after.action.value] += 1
        if moved and after.state in ENDED_STATES:
            self.ended[after.verb.value, after.state.value] += 1

    def _timer(
        self, before: Operation | View | None, now: Micros, looked_at: set[str]
    ) -> None:
        """Observe the delay of a due timer, once per record and transaction."""
        if before is None or before.key in looked_at:
            return
        looked_at.add(before.key)
        if 0 < before.due_at <= now:
            self.late_seconds.observe((now - before.due_at) / SECOND)

    def _event(self, change: Change[Event]) -> None:
        before, after = change
        if before is None or after is None:
            return
        kind = after.event_type.value
        if before.status is not after.status:
            if before.is_live:
                self.live[before.status.value, kind] -= 1
            if after.is_live:
                self.live[after.status.value, kind] += 1
        if after.is_approved and not before.is_approved:
            self.steps[kind, "approved"] += 1
            waited = (after.approved_at - after.created) / SECOND
            self.approval_seconds[kind].observe(waited)
        if step := _step(before, after):
            self.steps[kind, step] += 1

    def _result(self, entry: AuditEntry) -> None:
        if counted := self._open.get(entry.operation):
            action = counted.operation.action.value
            self.results[action, VERDICTS[entry.kind]] += 1

    # The current state

    def operations(self) -> tuple[dict[Place, int], dict[Place, float]]:
        """Return the number of open operations by verb and state, and the longest time,
        in seconds, that one has been in that state."""
        counts: dict[Place, int] = {}
        since: dict[Place, Micros] = {}
        now = self._clock.now()
        for entry in self.open():
            counts[entry.place] = counts.get(entry.place, 0) + 1
            since[entry.place] = min(since.get(entry.place, now), entry.since)
        return counts, {place: (now - at) / SECOND for place, at in since.items()}

    def vms_down(self) -> tuple[int, float]:
        """Return the number of VMs that are down because of failures, and the seconds
        since the oldest of these failures. A failure of an empty host does not count."""
        now = self._clock.now()
        failures = [
            entry
            for entry in self.open()
            if entry.operation.verb is Verb.FAIL and entry.operation.vms
        ]
        down = {vm for failure in failures for vm in failure.operation.vms}
        since = min((failure.since for failure in failures), default=now)
        return len(down), (now - since) / SECOND


def _since(operation: Operation, now: Micros) -> Micros:
    """Return the earliest time at which a loaded operation can have entered its state."""
    match operation.state:
        case OperationState.IMPACTING:
            return operation.started_at
        case OperationState.RECOVERING:
            return operation.impact_ended_at
        case OperationState.READY:
            # The time of the release is not stored; at NotBefore it was released.
            return min(now, operation.not_before)
        case _:
            return operation.created


def _step(before: Event, after: Event) -> str:
    if before.status is after.status:
        return ""
    match after.status:
        case EventStatus.SCHEDULED:
            return "scheduled"
        case EventStatus.STARTED:
            if before.status is EventStatus.NEW:
                return "started at once"
            return "started approved" if before.is_approved else "started unapproved"
        case EventStatus.REMOVED:
            return after.outcome.value if after.outcome else Outcome.COMPLETED.value
        case _:
            return ""
