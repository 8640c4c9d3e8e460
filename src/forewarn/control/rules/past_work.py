"""The durations of past work on hosts, from the operations that the store keeps."""

from typing import Any

from forewarn.campaigns.durations import MODEL_LABEL, SAMPLES_MAX, Sample
from forewarn.campaigns.model import Impact
from forewarn.instants import Micros
from forewarn.protocol.host_steps import StepKind
from forewarn.protocol.operations import (
    MOVING_ACTIONS,
    Action,
    OperationState,
    TargetKind,
    Verb,
)
from forewarn.protocol.visits import Visit, VisitState
from forewarn.store import kinds
from forewarn.store.port import Reader, columns, every

SAMPLED_MAX = 2 * SAMPLES_MAX
"""Maximum operations that are looked at, the newest ones. Hosts of other models may be
among them, and each costs a look-up of its events."""

_FIELDS = (
    *("ended_at", "operation_id", "verb", "action", "target_kind", "state", "host"),
    *("started_at", "impact_ended_at", "visit"),
)


def samples(reader: Reader, impact: Impact) -> list[Sample]:
    """Return the durations of the newest hosts that were done with this impact."""
    action = Action(impact.value)
    newest = sorted(
        (
            row
            for page in columns(reader, kinds.ALL_OPERATIONS, _FIELDS)
            for row in zip(*page, strict=True)
            if row[2] is Verb.MAINTAIN
            and row[3] is action
            and row[4] is TargetKind.HOST
            and row[5] is OperationState.DONE
            and row[7]
        ),
        reverse=True,
        key=lambda row: (row[0], row[1]),
    )
    models = {
        name: dict(labels).get(MODEL_LABEL, "")
        for page in columns(reader, kinds.ALL_HOSTS, ("name", "labels"))
        for name, labels in zip(*page, strict=True)
    }
    sampled = [_sample(reader, row, models) for row in newest[:SAMPLED_MAX]]
    return [sample for sample in sampled if sample is not None]


def _sample(
    reader: Reader, row: tuple[Any, ...], models: dict[str, str]
) -> Sample | None:
    at, operation, _, action, *_, host, started, impact_ended, visit_id = row
    over: Micros = impact_ended
    needed: Micros = 0
    step = ""
    if visit_id:
        visit = reader.get(Visit, visit_id)
        if visit is None or visit.state is not VisitState.DONE:
            return None
        over = visit.ended_at
        work = visit.step(StepKind.WORK)
        step = "" if work is None else work.name
        checked = visit.result(StepKind.NEEDED)
        needed = 0 if checked is None else max(0, checked.at - visit.created)
    if not over:
        return None
    # A host without VMs has no events.
    events = list(every(reader, kinds.EVENTS_OF_OPERATION, operation))
    announced = min((event.created for event in events), default=started)
    return Sample(
        at=at,
        model=models.get(host, ""),
        work=max(0, over - started),
        notice=max(0, started - announced),
        has_vms=bool(events),
        step=step,
        needed=needed,
        moving=max(0, impact_ended - started)
        if events and impact_ended and action in MOVING_ACTIONS
        else None,
    )
