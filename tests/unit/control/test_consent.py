"""Consent: OR inside an event, AND over the events, or NotBefore."""

import itertools

import pytest

from forewarn.control.rules.consent import is_released, waiting_for
from forewarn.protocol.actors import vm_actor
from forewarn.protocol.blockers import BatchWaits, NotApproved, NotDue
from forewarn.protocol.events import Event, EventSource, EventStatus, EventType
from forewarn.protocol.operations import (
    Action,
    Operation,
    OperationState,
    TargetKind,
    Verb,
)

NOT_BEFORE = 1_000

OPERATION = Operation(
    operation_id="op-1",
    request="rq-1",
    verb=Verb.TERMINATE,
    action=Action.DELETE,
    target_kind=TargetKind.VM,
    target="a",
    host="h1",
    state=OperationState.ANNOUNCED,
    routine=False,
    not_before=NOT_BEFORE,
    moves=(),
    scopes=("web",),
    duration_seconds=-1,
    description="",
    created=0,
)


def event(scope: str, *, approved: bool, operation: str = "op-1") -> Event:
    return Event(
        event_id=f"{scope}-{operation}",
        operation=operation,
        scope=scope,
        tenant=f"owner of {scope}",
        status=EventStatus.SCHEDULED,
        event_type=EventType.TERMINATE,
        source=EventSource.USER,
        resources=(),
        not_before=NOT_BEFORE,
        description="",
        duration_seconds=-1,
        created=0,
        approver=vm_actor("a") if approved else None,
    )


CASES = [
    (now, approvals)
    for now in (0, NOT_BEFORE - 1, NOT_BEFORE, NOT_BEFORE + 1)
    for count in range(4)
    for approvals in itertools.product([False, True], repeat=count)
]


@pytest.mark.clause("3.5", "4.2")
@pytest.mark.parametrize(("now", "approvals"), CASES)
def test_operation_is_released_when_all_approve_or_it_is_due(
    now: int, approvals: tuple[bool, ...]
) -> None:
    events = [
        event(f"s{at}", approved=approval) for at, approval in enumerate(approvals)
    ]
    released = now >= NOT_BEFORE or all(approvals)
    assert is_released(OPERATION, events, now=now) is released
    blockers = waiting_for(OPERATION, events, now=now, listening={}, targets={})
    assert (blockers == ()) is released


@pytest.mark.clause("3.5", "3.6")
def test_every_missing_approval_is_reported() -> None:
    events = [
        event("web", approved=True),
        event("db", approved=False),
        event("off", approved=False),
        event("db", approved=False, operation="op-2"),
        event("web", approved=False, operation="op-3"),
        event("web", approved=True, operation="op-4"),
    ]
    blockers = waiting_for(
        OPERATION,
        events,
        now=NOT_BEFORE - 7,
        listening={"db": True, "off": False},
        targets={"op-2": "b"},
    )
    assert blockers == (
        NotApproved(tenant="owner of db", scope="db", listens=True),
        NotApproved(tenant="owner of off", scope="off", listens=False),
        BatchWaits(tenant="owner of db", scope="db", target="b"),
        BatchWaits(tenant="owner of web", scope="web", target="op-3"),
        NotDue(remaining=7),
    )
