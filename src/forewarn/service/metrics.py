"""The metrics of one service: counts of operations and events, and what a scrape reads.

`tally` counts the changes of each transaction, so that a scrape hardly reads the store.

A GET of a VM updates only the counters of the endpoint. Metrics that need the store are
read at the scrape, in a reader thread, with a limited number of rows. The result is
reused for a few seconds by further scrapes. While the store does not answer, a scrape has
no such metrics, and all others.
"""

import asyncio
import logging
import platform
import resource
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from forewarn import __version__
from forewarn.admin.meters import Reading
from forewarn.clock import Clock
from forewarn.control.rules import obstacles, relay_links
from forewarn.control.rules.binding import binding_constraints
from forewarn.control.rules.late_approvals import late_from
from forewarn.instants import SECOND, Micros
from forewarn.metadata.endpoint import Endpoint
from forewarn.metadata.server import Server
from forewarn.protocol import blockers
from forewarn.protocol.operations import (
    ASKED_STATES,
    WAITING_STATES,
    CallState,
    Operation,
    OperationState,
    Verb,
)
from forewarn.service import limits, metric_definitions
from forewarn.service.api import Api, resident_bytes
from forewarn.service.checks.asker import Checks
from forewarn.service.inventory import Inventory
from forewarn.service.readings import Readings
from forewarn.service.runner import Runner
from forewarn.service.tally import Counted, Tally
from forewarn.service.webhooks.receivers import Webhooks
from forewarn.store.port import Reader, Store, StoreError
from forewarn.store.remembered import Remembered

logger = logging.getLogger("forewarn.service")


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Why operations cannot proceed, for those that were examined."""

    reasons: Counter[str] = field(default_factory=Counter[str])
    late: int = 0
    unexamined: int = 0
    silent_relays: int = 0
    campaigns: Counter[str] = field(default_factory=Counter[str])
    """Campaigns that announce no further host now, by the kind of the blocker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidingParts:
    """The components of the deciding part that a scrape reads."""

    runner: Runner
    readings: Readings
    webhooks: Webhooks
    checks: Checks
    inventory: Inventory


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The components that a scrape reads."""

    endpoint: Endpoint
    server: Server
    api: Api
    deciding: DecidingParts | None
    """None: this service follows another one, which has the metrics of all work."""
    is_ready: Callable[[], bool]
    listeners_failed: Callable[[], int]
    cluster: Callable[[], Iterable[Reading]]
    """Returns the readings of this replica; none without replicas."""


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
        self._looking: asyncio.Task[Held | None] | None = None

    def begin_tally(self, store: Store) -> None:
        """Count from the present state of a store, in which nothing writes yet."""
        self.tally = Tally(self._clock)
        self.tally.load(store)
        self._held = None

    async def collect(self, parts: Parts) -> list[Reading]:
        """Return the current readings of all metrics."""
        return [
            *self._of_guests(parts),
            *parts.api.readings(),
            *(await self._of_deciding(parts.deciding) if parts.deciding else ()),
            *parts.cluster(),
            Reading(metric_definitions.READY, int(parts.is_ready())),
            Reading(
                metric_definitions.BUILD_INFO,
                {(__version__, platform.python_version()): 1},
            ),
            Reading(metric_definitions.LINES_DROPPED, self.lines_dropped()),
            *self._of_process(),
        ]

    async def _of_deciding(self, parts: DecidingParts) -> list[Reading]:
        held = await self._waiting_reasons(parts.readings)
        return [
            *self._of_fleet(),
            *self._of_work(held),
            *parts.webhooks.readings(),
            *parts.checks.readings(),
            *parts.inventory.readings(),
            *self._of_control(parts.runner),
        ]

    def _of_fleet(self) -> list[Reading]:
        down, age = self.tally.vms_down()
        return [
            Reading(metric_definitions.VMS_DOWN, down),
            Reading(metric_definitions.VMS_DOWN_AGE, age),
            Reading(metric_definitions.HOSTS_CORDONED, len(self.tally.cordoned)),
            Reading(metric_definitions.HOSTS_UNAVAILABLE, len(self.tally.away)),
            *self.tally.stops.readings(),
            *self.tally.campaigns.readings(),
            *self.tally.visits.readings(),
        ]

    def _of_guests(self, parts: Parts) -> list[Reading]:
        endpoint, server = parts.endpoint, parts.server
        counters = endpoint.counters
        served, known = endpoint.count_documents()
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
            Reading(
                metric_definitions.DOCUMENTS,
                {"served": served, "disabled": known - served},
            ),
            Reading(metric_definitions.PUBLISHED, self.published),
            Reading(metric_definitions.APPROVALS, dict(self.approvals)),
        ]

    def _of_work(self, held: Held | None) -> list[Reading]:
        tally = self.tally
        counts, ages = tally.operations()
        late, reasons = ([], []) if held is None else _of_reasons(held)
        return [
            Reading(metric_definitions.EVENTS, dict(tally.live)),
            Reading(metric_definitions.STEPS, dict(tally.steps)),
            Reading(metric_definitions.APPROVAL_SECONDS, dict(tally.approval_seconds)),
            *late,
            Reading(metric_definitions.OPERATIONS, counts),
            Reading(metric_definitions.OPERATION_AGE, ages),
            Reading(metric_definitions.OPERATIONS_ENDED, dict(tally.ended)),
            *reasons,
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

    async def _waiting_reasons(self, readings: Readings) -> Held | None:
        """Return the reasons of waiting operations, at most HELD_KEPT_SECONDS old.

        Simultaneous scrapes share one read. None: the store does not answer, so they are
        not known.
        """
        now = self._clock.monotonic()
        if self._held is not None and now - self._held_at < limits.HELD_KEPT_SECONDS:
            return self._held
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_now(readings, now))
        done, _ = await asyncio.wait({self._looking}, timeout=limits.HELD_WAIT_SECONDS)
        return self._looking.result() if done else None

    async def _look_now(self, readings: Readings, began: float) -> Held | None:
        open_operations, instant = self.tally.open(), self._clock.now()
        try:
            held = await readings.read(
                lambda reader: read_held(reader, open_operations, now=instant)
            )
        except StoreError as error:
            # The other metrics say what has happened, so they must not fail with this one.
            logger.debug("the reasons of waiting operations are not known: %s", error)
            held = None
        self._held, self._held_at = held, began
        return held


def _of_reasons(held: Held) -> tuple[list[Reading], list[Reading]]:
    """Return the readings about approvals, and those about operations."""
    return [Reading(metric_definitions.APPROVALS_LATE, held.late)], [
        Reading(metric_definitions.HELD, held.reasons),
        Reading(metric_definitions.UNEXAMINED, held.unexamined),
        Reading(
            metric_definitions.CAMPAIGNS_WAITING,
            {kind: held.campaigns[kind] for kind in metric_definitions.BINDING_KINDS},
        ),
        Reading(metric_definitions.RELAYS_SILENT, held.silent_relays),
    ]


def read_held(
    reader: Reader, open_operations: Iterable[Counted], *, now: Micros
) -> Held:
    """Return why operations cannot proceed.

    Waiting operations are examined one by one, the earliest NotBefore first, up to a
    limit. For the others, the row of the operation has the reason.
    """
    reasons: Counter[str] = Counter()
    waiting: list[Operation] = []
    for operation in (entry.operation for entry in open_operations):
        if operation.state in WAITING_STATES:
            waiting.append(operation)
        elif operation.state is OperationState.IMPACTING and (
            kind := _kind_of_end(operation)
        ):
            reasons[kind] += 1
    waiting.sort(key=lambda operation: operation.not_before)
    remembered = Remembered(reader)
    late = 0
    for operation in waiting[: limits.HELD_LOOKED_AT_MAX]:
        # The reader may see a newer state than `open_operations`.
        current = reader.get(Operation, operation.operation_id)
        if current is None or current.state not in WAITING_STATES:
            continue
        why = obstacles.why_waiting(remembered, current, now=now)
        reasons.update({blocker.kind for blocker in why})
        if late_from(current) <= now:
            late += sum(
                isinstance(blocker, blockers.NotApproved) and blocker.listens
                for blocker in why
            )
    unexamined = max(0, len(waiting) - limits.HELD_LOOKED_AT_MAX)
    silent = sum(1 for _ in relay_links.all_silent(reader, now=now))
    return Held(
        reasons=reasons,
        late=late,
        unexamined=unexamined,
        silent_relays=silent,
        campaigns=Counter(
            blocker.kind for blocker in binding_constraints(remembered, now=now)
        ),
    )


_SAID: Mapping[CallState, str] = {
    CallState.RETRY: blockers.DriverRetry.kind,
    **dict.fromkeys(ASKED_STATES, blockers.DriverAsked.kind),
    CallState.UNKNOWN: blockers.OutcomeUnknown.kind,
}
"""The reason of an impacting operation, by the state of its call."""


def _kind_of_end(operation: Operation) -> str | None:
    if operation.verb is Verb.FAIL:
        return blockers.StillDown.kind
    return _SAID.get(operation.call_state)
