"""The metrics of visits: their states, late ones, and the lengths of host steps.

They are counts over all visits, because a label with names would never be zero.
"""

from collections import Counter

from forewarn.admin.meters import Reading
from forewarn.clock import Clock
from forewarn.instants import SECOND, Micros
from forewarn.protocol.visits import (
    STEP_OF_STATE,
    STUCK_VISITS,
    SkipReason,
    Visit,
    VisitState,
)
from forewarn.reporting.visit_problems import is_late
from forewarn.service import metric_definitions
from forewarn.store import kinds
from forewarn.store.port import Reader, Record, every


class OpenVisits:
    """Visits that have not ended; the control thread writes, any thread reads."""

    def __init__(self, clock: Clock) -> None:
        """Begin without visits."""
        self._clock = clock
        self._open: dict[str, Visit] = {}
        self.ended: Counter[str] = Counter()
        self.failed: Counter[tuple[str, str]] = Counter()
        """Steps that visits failed in, by step and result."""
        self.steps: Counter[str] = Counter()
        """Steps that have ended, by step."""
        self.seconds: dict[str, float] = {}
        """Their times. A histogram for each step would be a fifth of all series."""

    def load(self, reader: Reader) -> None:
        """Read the visits at the start of the service."""
        for visit in every(reader, kinds.OPEN_VISITS):
            self._open[visit.visit_id] = visit

    def changed(self, before: Record | None, after: Record | None) -> None:
        """Take a changed visit; one without `after` was deleted."""
        if isinstance(after, Visit) and not after.ended_at:
            self._open[after.visit_id] = after
        elif isinstance(before, Visit):
            self._open.pop(before.visit_id, None)
        if not isinstance(before, Visit) or not isinstance(after, Visit):
            return
        if before.state is after.state:
            return
        if after.ended_at:
            self.ended[after.state.value] += 1
        self._step_ended(before, after)

    def _step_ended(self, before: Visit, after: Visit) -> None:
        kind = before.current_kind
        if kind is not None and before.step(kind) is not None and before.since:
            seconds = max(0, after.since - before.since) / SECOND
            self.steps[kind.value] += 1
            self.seconds[kind.value] = self.seconds.get(kind.value, 0) + seconds
        if after.failed_in is not None:
            kind = STEP_OF_STATE.get(after.failed_in)
        elif after.skipped is not SkipReason.NEEDED_FAILED:
            return
        if kind is not None:
            # A visit that failed because VMs do not run again has failed in another way.
            is_unknown = after.state is VisitState.UNKNOWN
            self.failed[kind.value, "unknown" if is_unknown else "failed"] += 1

    def readings(self) -> list[Reading]:
        """Return the metrics."""
        now = self._clock.now()
        visits = list(self._open.values())
        states = Counter(visit.state.value for visit in visits)
        return [
            Reading(
                metric_definitions.VISITS,
                {state: states[state] for state in metric_definitions.VISIT_STATES},
            ),
            Reading(
                metric_definitions.VISITS_LATE,
                sum(is_late(visit, now=now) for visit in visits),
            ),
            Reading(metric_definitions.VISITS_FAILED_AGE, _age(visits, now=now)),
            Reading(metric_definitions.VISITS_ENDED, dict(self.ended)),
            Reading(metric_definitions.VISIT_STEPS_FAILED, dict(self.failed)),
            Reading(metric_definitions.VISIT_STEPS, dict(self.steps)),
            Reading(metric_definitions.VISIT_STEP_SECONDS, dict(self.seconds)),
        ]


def _age(visits: list[Visit], *, now: Micros) -> float:
    """Return the longest time, in seconds, that a visit has waited for an operator."""
    stuck = [
        visit.since for visit in visits if visit.state in STUCK_VISITS and visit.since
    ]
    return max(0, now - min(stuck, default=now)) / SECOND
