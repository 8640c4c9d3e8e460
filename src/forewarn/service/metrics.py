"""The metrics of one service: counts of operations and events, and what a scrape reads.

The control thread updates the counts from the changes of each transaction, so that a
scrape hardly reads the store. Open operations and events are read once at the start. The
counters start at 0 with each process; Prometheus handles the reset.

A GET of a VM updates only the counters of the endpoint. Metrics that need the store are
read at the scrape, in a reader thread, with a limited number of rows. The result is
reused for a few seconds by further scrapes.
"""

import asyncio
import platform
import resource
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from forewarn import __version__
from forewarn.admin.meters import Histogram, Reading
from forewarn.clock import Clock
from forewarn.control.rules import obstacles, relay_links
from forewarn.fleet.model import Host
from forewarn.instants import SECOND, Micros
from forewarn.metadata.endpoint import Endpoint
from forewarn.metadata.server import Server
from forewarn.protocol import blockers
from forewarn.protocol.events import Event, EventStatus, Outcome
from forewarn.protocol.operations import (
    ASKED_STATES,
    ENDED_STATES,
    WAITING_STATES,
    CallState,
    Operation,
    OperationState,
    Verb,
)
from forewarn.protocol.views import View
from forewarn.protocol.visits import Visit
from forewarn.service import limits, metric_definitions
from forewarn.service.api import Api, resident_bytes
from forewarn.service.campaign_metrics import OpenCampaigns
from forewarn.service.checks.asker import Checks
from forewarn.service.inventory import Inventory
from forewarn.service.observed import Change, Listener
from forewarn.service.readings import Readings
from forewarn.service.runner import Runner
from forewarn.service.stop_metrics import Stops
from forewarn.service.visit_metrics import OpenVisits
from forewarn.service.webhooks.receivers import Webhooks
from forewarn.store import kinds
from forewarn.store.port import Reader, Store, every
from forewarn.store.records import AuditEntry, AuditKind, Brake
from forewarn.store.remembered import Remembered
from forewarn.store.wide_blackouts import WideBlackout

VERDICTS: Mapping[AuditKind, str] = {
    AuditKind.DRIVER_DONE: "done",
    AuditKind.DRIVER_FAILED: "failed",
    AuditKind.DRIVER_OUTCOME_UNKNOWN: "unknown",
}
"""The verdicts of driver calls, by kind of audit entry."""


Place: TypeAlias = tuple[str, str]
"""A verb and a state, as label values."""


@dataclass(frozen=True, slots=True)
class Counted:
    """An open operation, and the time when it entered its state."""

    operation: Operation
    since: Micros
    place: Place
    """Stored here, since reading the value of an enum member is slow."""


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

    def committed(self, changes: Sequence[Change]) -> None:
        """Count what a transaction wrote."""
        now = self._clock.now()
        looked_at: set[str] = set()
        for change in changes:
            record = change.after or change.before
            self.campaigns.take(change.before, change.after)
            match record:
                case Operation():
                    self._operation(change, now, looked_at)
                case Event():
                    self._event(change)
                case Brake() | WideBlackout():
                    is_brake = isinstance(record, Brake)
                    self.stops.changed(
                        record.key, is_brake=is_brake, after=change.after
                    )
                case Visit():
                    self.visits.changed(change.before, change.after)
                case Host():
                    self._host(change, record.name)
                case View():
                    self._timer(change, record.view_id, now, looked_at)
                case AuditEntry() if record.kind in VERDICTS:
                    self._result(record)
                case _:
                    pass
        for operation_id in looked_at & self._open.keys():
            if self._open[operation_id].operation.state in ENDED_STATES:
                del self._open[operation_id]

    def _host(self, change: Change, name: str) -> None:
        self.cordoned.discard(name)
        if isinstance(change.after, Host) and change.after.cordons:
            self.cordoned.add(name)

    def _operation(self, change: Change, now: Micros, looked_at: set[str]) -> None:
        before, after = change.before, change.after
        if not isinstance(after, Operation):
            return
        self._timer(change, after.operation_id, now, looked_at)
        known = self._open.get(after.operation_id)
        moved = not isinstance(before, Operation) or before.state is not after.state
        self._open[after.operation_id] = counted(
            after, now if moved or known is None else known.since
        )
        if not isinstance(before, Operation):
            return
        if after.generation > before.generation:
            self.calls[after.action.value] += 1
        if moved and after.state in ENDED_STATES:
            self.ended[after.verb.value, after.state.value] += 1

    def _timer(
        self, change: Change, key: str, now: Micros, looked_at: set[str]
    ) -> None:
        """Observe the delay of a due timer, once per record and transaction."""
        before = change.before
        if key in looked_at:
            return
        looked_at.add(key)
        if isinstance(before, Operation | View) and 0 < before.due_at <= now:
            self.late_seconds.observe((now - before.due_at) / SECOND)

    def _event(self, change: Change) -> None:
        before, after = change.before, change.after
        if not isinstance(after, Event) or not isinstance(before, Event):
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
        if known := self._open.get(entry.operation):
            action = known.operation.action.value
            self.results[action, VERDICTS[entry.kind]] += 1

    # The current state

    def operations(self) -> tuple[dict[Place, int], dict[Place, float]]:
        """Return the number of open operations by verb and state, and the longest time,
        in seconds, that one has been in that state."""
        counts: dict[Place, int] = {}
        since: dict[Place, Micros] = {}
        now = self._clock.now()
        for each in self.open():
            counts[each.place] = counts.get(each.place, 0) + 1
            since[each.place] = min(since.get(each.place, now), each.since)
        return counts, {place: (now - at) / SECOND for place, at in since.items()}

    def vms_down(self) -> tuple[int, float]:
        """Return the number of VMs that are down because of failures, and the seconds
        since the oldest of these failures. A failure of an empty host does not count."""
        now = self._clock.now()
        failures = [
            each
            for each in self.open()
            if each.operation.verb is Verb.FAIL and each.operation.vms
        ]
        down = {vm for each in failures for vm in each.operation.vms}
        since = min((each.since for each in failures), default=now)
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


LATE_SHARE = 5
"""An approval is late if less than one LATE_SHARE-th of the notice is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Why operations cannot proceed, for those that were examined."""

    reasons: Counter[str] = field(default_factory=Counter[str])
    late: int = 0
    unexamined: int = 0
    silent_relays: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The components that a scrape reads."""

    endpoint: Endpoint
    server: Server
    runner: Runner
    readings: Readings
    api: Api
    webhooks: Webhooks
    checks: Checks
    inventory: Inventory
    is_ready: Callable[[], bool]
    listeners_failed: Callable[[], int]


class Metrics:
    """The counters of one service."""

    def __init__(self, clock: Clock) -> None:
        """Start with zero counts."""
        self._clock = clock
        self._started = clock.now()
        self.tally = Tally(clock)
        self.approvals: Counter[str] = Counter()
        self.published = 0
        self.lines_dropped: Callable[[], int] = lambda: 0
        self._held: Held | None = None
        self._held_at = 0.0
        """The monotonic time at which the read of `_held` began."""
        self._looking: asyncio.Task[Held] | None = None

    async def collect(self, parts: Parts) -> list[Reading]:
        """Return the current readings of all metrics."""
        held = await self._look(parts)
        return [
            *self._of_guests(parts),
            *parts.api.readings(),
            *self._of_work(held),
            *parts.webhooks.readings(),
            *parts.checks.readings(),
            *parts.inventory.readings(),
            *self._of_control(parts.runner),
            Reading(metric_definitions.READY, int(parts.is_ready())),
            Reading(
                metric_definitions.BUILD_INFO,
                {(__version__, platform.python_version()): 1},
            ),
            Reading(metric_definitions.LINES_DROPPED, self.lines_dropped()),
            *self._of_process(),
        ]

    def _of_guests(self, parts: Parts) -> list[Reading]:
        endpoint, server = parts.endpoint, parts.server
        counters = endpoint.counters
        served, known = endpoint.count_documents()
        down, age = self.tally.vms_down()
        return [
            Reading(
                metric_definitions.METADATA_RESPONSES,
                {str(code): n for code, n in counters.responses.items()},
            ),
            Reading(metric_definitions.UNKNOWN_CALLERS, counters.unknown_callers),
            Reading(metric_definitions.CONNECTIONS, server.open_connections),
            Reading(metric_definitions.CONNECTIONS_REFUSED, dict(server.refused)),
            Reading(metric_definitions.WAITERS, len(endpoint.waits)),
            Reading(metric_definitions.LISTENERS_FAILED, parts.listeners_failed()),
            Reading(metric_definitions.VMS, len(endpoint.directory.by_vm)),
            Reading(metric_definitions.VMS_DOWN, down),
            Reading(metric_definitions.VMS_DOWN_AGE, age),
            Reading(metric_definitions.HOSTS_CORDONED, len(self.tally.cordoned)),
            *self.tally.stops.readings(),
            *self.tally.campaigns.readings(),
            *self.tally.visits.readings(),
            Reading(
                metric_definitions.DOCUMENTS,
                {"served": served, "disabled": known - served},
            ),
            Reading(metric_definitions.PUBLISHED, self.published),
            Reading(metric_definitions.APPROVALS, dict(self.approvals)),
        ]

    def _of_work(self, held: Held) -> list[Reading]:
        tally = self.tally
        counts, ages = tally.operations()
        return [
            Reading(metric_definitions.EVENTS, dict(tally.live)),
            Reading(metric_definitions.STEPS, dict(tally.steps)),
            Reading(metric_definitions.APPROVAL_SECONDS, dict(tally.approval_seconds)),
            Reading(metric_definitions.APPROVALS_LATE, held.late),
            Reading(metric_definitions.OPERATIONS, counts),
            Reading(metric_definitions.OPERATION_AGE, ages),
            Reading(metric_definitions.OPERATIONS_ENDED, dict(tally.ended)),
            Reading(metric_definitions.HELD, held.reasons),
            Reading(metric_definitions.UNEXAMINED, held.unexamined),
            Reading(metric_definitions.RELAYS_SILENT, held.silent_relays),
            Reading(metric_definitions.DRIVER_CALLS, dict(tally.calls)),
            Reading(metric_definitions.DRIVER_RESULTS, dict(tally.results)),
        ]

    def _of_control(self, runner: Runner) -> list[Reading]:
        tally = self.tally
        return [
            Reading(metric_definitions.HEARTBEAT_AGE, runner.silent_seconds()),
            Reading(metric_definitions.WAITING, runner.waiting),
            Reading(metric_definitions.TURN_SECONDS, runner.turn_seconds),
            Reading(metric_definitions.TIMER_LATE_SECONDS, tally.late_seconds),
            Reading(metric_definitions.TIMER_OVERDUE, runner.overdue_seconds()),
            Reading(metric_definitions.CLOCK_STEPS, dict(runner.clock_steps)),
            Reading(metric_definitions.STORE_SECONDS, tally.transaction_seconds),
            Reading(metric_definitions.STORE_FAILURES, tally.store_failures),
        ]

    def _of_process(self) -> list[Reading]:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        seconds = usage.ru_utime + usage.ru_stime
        return [
            Reading(metric_definitions.CPU_SECONDS, seconds),
            Reading(metric_definitions.MEMORY, resident_bytes()),
            Reading(metric_definitions.START_TIME, self._started / SECOND),
        ]

    # Why operations cannot proceed

    async def _look(self, parts: Parts) -> Held:
        """Return the reasons of waiting operations, at most HELD_KEPT_SECONDS old.

        Simultaneous scrapes share one read, and a failed read leaves nothing.
        """
        now = self._clock.monotonic()
        if self._held is not None and now - self._held_at < limits.HELD_KEPT_SECONDS:
            return self._held
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_now(parts, now))
        return await asyncio.shield(self._looking)

    async def _look_now(self, parts: Parts, began: float) -> Held:
        open_operations, instant = self.tally.open(), self._clock.now()
        held = await parts.readings.read(
            lambda reader: look(reader, open_operations, now=instant)
        )
        self._held, self._held_at = held, began
        return held


def look(reader: Reader, open_operations: Iterable[Counted], *, now: Micros) -> Held:
    """Return why operations cannot proceed.

    Waiting operations are examined one by one, the earliest NotBefore first, up to a
    limit. For the others, the row of the operation has the reason.
    """
    reasons: Counter[str] = Counter()
    waiting: list[Operation] = []
    for operation in (each.operation for each in open_operations):
        if operation.state in WAITING_STATES:
            waiting.append(operation)
        elif operation.state is OperationState.IMPACTING and (said := _said(operation)):
            reasons[said] += 1
    waiting.sort(key=lambda operation: operation.not_before)
    known = Remembered(reader)
    late = 0
    for operation in waiting[: limits.HELD_LOOKED_AT_MAX]:
        # The reader may see a newer state than `open_operations`.
        current = reader.get(Operation, operation.operation_id)
        if current is None or current.state not in WAITING_STATES:
            continue
        found = obstacles.why_waiting(known, current, now=now)
        reasons.update({each.kind for each in found})
        left, notice = current.not_before - now, current.not_before - current.created
        if left * LATE_SHARE < notice:
            late += sum(
                isinstance(each, blockers.NotApproved) and each.listens
                for each in found
            )
    unexamined = max(0, len(waiting) - limits.HELD_LOOKED_AT_MAX)
    silent = sum(1 for _ in relay_links.all_silent(reader, now=now))
    return Held(reasons=reasons, late=late, unexamined=unexamined, silent_relays=silent)


_SAID: Mapping[CallState, str] = {
    CallState.RETRY: blockers.DriverRetry.kind,
    **dict.fromkeys(ASKED_STATES, blockers.DriverAsked.kind),
    CallState.UNKNOWN: blockers.OutcomeUnknown.kind,
}
"""The reason of an impacting operation, by the state of its call."""


def _said(operation: Operation) -> str | None:
    if operation.verb is Verb.FAIL:
        return blockers.StillDown.kind
    return _SAID.get(operation.call_state)
