"""One service's metrics: what a scrape reads.

Nothing is counted on the way of a GET but what the endpoint counts anyway. What
needs the store is asked for at the scrape, in a thread of the readers, with a
bounded number of rows, and kept for a few seconds for whoever scrapes as well.
"""

import platform
import resource
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from forewarn import __version__
from forewarn.admin.metrics import Reading
from forewarn.clock import Clock
from forewarn.control.rules import obstacles
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
from forewarn.service import api_readings, limits, metric_definitions
from forewarn.service.api import Api
from forewarn.service.readings import Readings
from forewarn.service.runner import Runner
from forewarn.service.tally import Counted, Tally
from forewarn.service.webhooks.deliveries import Webhooks
from forewarn.store.port import Reader

LATE_SHARE = 5
"""An approval is late when less than one part in so many of the notice is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Why operations do not go on, as far as was looked."""

    reasons: Counter[str] = field(default_factory=Counter[str])
    late: int = 0
    unexamined: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a scrape looks at."""

    endpoint: Endpoint
    server: Server
    runner: Runner
    readings: Readings
    api: Api
    webhooks: Webhooks
    is_ready: Callable[[], bool]
    listeners_failed: Callable[[], int]


class Metrics:
    """What one service has counted."""

    def __init__(self, clock: Clock) -> None:
        """Begin at nothing."""
        self._clock = clock
        self._started = clock.now()
        self.tally = Tally(clock)
        self.approvals: Counter[str] = Counter()
        self.published = 0
        self.lines_dropped: Callable[[], int] = lambda: 0
        self._held = Held()
        self._held_at: float | None = None

    async def collect(self, parts: Parts) -> list[Reading]:
        """Return what everything says now."""
        held = await self._look(parts)
        return [
            *self._of_guests(parts),
            *parts.api.readings(),
            *self._of_work(held),
            *parts.webhooks.readings(),
            *self._of_control(parts.runner),
            Reading(metric_definitions.READY, int(parts.is_ready())),
            Reading(
                metric_definitions.BUILD_INFO,
                {(__version__, platform.python_version()): 1},
            ),
            Reading(metric_definitions.LINES_DROPPED, self.lines_dropped()),
            *self._of_process(),
        ]

    def _of_guests(self, parts: Parts) -> Iterable[Reading]:
        endpoint = parts.endpoint
        answers = {str(code): n for code, n in endpoint.counters.responses.items()}
        served, known = endpoint.count_documents()
        yield Reading(metric_definitions.METADATA_RESPONSES, answers)
        yield Reading(
            metric_definitions.UNKNOWN_CALLERS, endpoint.counters.unknown_callers
        )
        yield Reading(metric_definitions.CONNECTIONS, parts.server.open_connections)
        yield Reading(
            metric_definitions.CONNECTIONS_REFUSED, dict(parts.server.refused)
        )
        yield Reading(metric_definitions.WAITERS, len(endpoint.waits))
        yield Reading(metric_definitions.LISTENERS_FAILED, parts.listeners_failed())
        yield Reading(metric_definitions.VMS, len(endpoint.directory.by_vm))
        down, age = self.tally.vms_down()
        yield Reading(metric_definitions.VMS_DOWN, down)
        yield Reading(metric_definitions.VMS_DOWN_AGE, age)
        documents = {"served": served, "disabled": known - served}
        yield Reading(metric_definitions.DOCUMENTS, documents)
        yield Reading(metric_definitions.PUBLISHED, self.published)
        yield Reading(metric_definitions.APPROVALS, dict(self.approvals))

    def _of_work(self, held: Held) -> Iterable[Reading]:
        tally = self.tally
        yield Reading(metric_definitions.EVENTS, dict(tally.live))
        yield Reading(metric_definitions.STEPS, dict(tally.steps))
        yield Reading(metric_definitions.APPROVAL_SECONDS, dict(tally.approval_seconds))
        yield Reading(metric_definitions.APPROVALS_LATE, held.late)
        counts, ages = tally.operations()
        yield Reading(metric_definitions.OPERATIONS, counts)
        yield Reading(metric_definitions.OPERATION_AGE, ages)
        yield Reading(metric_definitions.OPERATIONS_ENDED, dict(tally.ended))
        yield Reading(metric_definitions.HELD, held.reasons)
        yield Reading(metric_definitions.UNEXAMINED, held.unexamined)
        yield Reading(metric_definitions.DRIVER_CALLS, dict(tally.calls))
        yield Reading(metric_definitions.DRIVER_RESULTS, dict(tally.results))

    def _of_control(self, runner: Runner) -> Iterable[Reading]:
        tally = self.tally
        yield Reading(metric_definitions.HEARTBEAT_AGE, runner.silent_seconds())
        yield Reading(metric_definitions.WAITING, runner.waiting)
        yield Reading(metric_definitions.TURN_SECONDS, runner.turn_seconds)
        yield Reading(metric_definitions.TIMER_LATE_SECONDS, tally.late_seconds)
        yield Reading(metric_definitions.TIMER_OVERDUE, runner.overdue_seconds())
        yield Reading(metric_definitions.CLOCK_STEPS, dict(runner.clock_steps))
        yield Reading(metric_definitions.STORE_SECONDS, tally.transaction_seconds)
        yield Reading(metric_definitions.STORE_FAILURES, tally.store_failures)

    def _of_process(self) -> Iterable[Reading]:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        yield Reading(metric_definitions.CPU_SECONDS, usage.ru_utime + usage.ru_stime)
        yield Reading(metric_definitions.MEMORY, api_readings.resident_bytes())
        yield Reading(metric_definitions.START_TIME, self._started / SECOND)

    # Why operations do not go on

    async def _look(self, parts: Parts) -> Held:
        """Return what holds operations, at most some seconds old."""
        now = self._clock.monotonic()
        if self._held_at is None or now - self._held_at >= limits.HELD_KEPT_SECONDS:
            self._held_at = now
            standing, instant = self.tally.open(), self._clock.now()
            self._held = await parts.readings.read(
                lambda reader: look(reader, standing, now=instant)
            )
        return self._held


def look(reader: Reader, standing: Iterable[Counted], *, now: Micros) -> Held:
    """Return why operations do not go on.

    Those that wait are asked about one by one, the earliest first, up to a bound;
    the others say it in their own rows.
    """
    reasons: Counter[str] = Counter()
    waiting: list[Operation] = []
    for operation in (each.operation for each in standing):
        if operation.state in WAITING_STATES:
            waiting.append(operation)
        elif operation.state is OperationState.IMPACTING:
            reasons.update(_said(operation))
    waiting.sort(key=lambda operation: operation.not_before)
    late = 0
    for operation in waiting[: limits.HELD_LOOKED_AT_MAX]:
        # As the reader sees it, which may be a moment ahead.
        current = reader.get(Operation, operation.operation_id)
        if current is None or current.state not in WAITING_STATES:
            continue
        found = obstacles.why_waiting(reader, current, now=now)
        reasons.update({each.kind for each in found})
        left, notice = current.not_before - now, current.not_before - current.created
        if left * LATE_SHARE < notice:
            late += sum(
                isinstance(each, blockers.NotApproved) and each.listens
                for each in found
            )
    unexamined = max(0, len(waiting) - limits.HELD_LOOKED_AT_MAX)
    return Held(reasons=reasons, late=late, unexamined=unexamined)


def _said(operation: Operation) -> Iterable[str]:
    if operation.verb is Verb.FAIL:
        yield blockers.StillDown.kind
    elif operation.call_state is CallState.RETRY:
        yield blockers.DriverRetry.kind
    elif operation.call_state in ASKED_STATES:
        yield blockers.DriverAsked.kind
    elif operation.call_state is CallState.UNKNOWN:
        yield blockers.OutcomeUnknown.kind
