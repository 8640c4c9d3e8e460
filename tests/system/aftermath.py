"""Checks of a killed service's store against the responses that it gave."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from forewarn.clock import SystemClock
from forewarn.control.rules.policy import Policy
from forewarn.protocol.events import EventStatus
from forewarn.protocol.operations import (
    ENDED_STATES,
    Action,
    CallState,
    OperationState,
    Request,
)
from forewarn.store.check import check
from forewarn.store.sqlite import SqliteStore
from tests.support.invariants import EVERY_COMMIT
from tests.support.moments import Moment
from tests.support.processes import POLL_SECONDS, Serving, http
from tests.support.watched import Mirror, stored
from tests.system.crowd import Crowd

END_SECONDS = 90.0
"""Maximum seconds until all work ends after the last request."""

NOT_NOW = 503
"""The status of a replica that does not lead now."""


@dataclass(frozen=True, slots=True)
class Work:
    """One line of the driver's journal: the action of a program, and its call."""

    what: str
    """`begun` or `done`."""
    vm: str
    operation: str
    generation: int


def journal(file: Path) -> list[Work]:
    """Return the lines that the programs have written."""
    lines = file.read_text().splitlines() if file.exists() else []
    rows = [line.split() for line in lines]
    return [Work(what, vm, name, int(call)) for what, vm, name, call in rows]


def judge_content(
    mirror: Mirror, crowds: Sequence[Crowd], done: Sequence[Work]
) -> None:
    """Check what a store holds against all responses and the journal of the driver."""
    moment = Moment(mirror=mirror, policy=Policy(), now=SystemClock().now(), changes=[])
    for invariant in EVERY_COMMIT:
        invariant(moment)
    for crowd in crowds:
        _approvals(mirror, crowd)
        _documents(mirror, crowd)
    _calls(mirror, done)


def end_all(leader: Callable[[], Serving | None]) -> None:
    """Restore everything that is down; return when no operation is open.

    Each round asks the service that leads then; None: none does now.
    """
    clock, pause = SystemClock(), threading.Event()
    deadline = clock.monotonic() + END_SECONDS
    while True:
        service = leader()
        under_way = _restored(service.urls["operators"]) if service else None
        if under_way == []:
            return
        assert clock.monotonic() < deadline, f"without an end: {under_way}"
        pause.wait(POLL_SECONDS)


def _restored(operators: str) -> list[Any] | None:
    """Restore what is down; return the open operations. None: it no longer leads."""
    after = ""
    while after is not None:
        url = f"{operators}/v1/fleet?limit=1000&after={quote(after)}"
        status, shown = http(url)
        if status == NOT_NOW:
            return None
        assert status == 200, shown
        after = shown["next"]
        # Any VM can be down: a VM that moved to a host which failed has failed too.
        for kind in ("host", "vm"):
            for row in shown[f"{kind}s"]:
                if row["state"] == "down":
                    body = {"names": [row["name"]], "kind": kind}
                    status, answer = http(f"{operators}/v1/restore", body)
                    if status == NOT_NOW:
                        return None
                    assert status == 200 or _is_late(status, answer["error"]), answer
    # Many hosts that fail within minutes put it on.
    status, brake = http(f"{operators}/v1/brake")
    if status == 200 and brake["on"]:
        http(f"{operators}/v1/brake", {"on": False})
    status, shown = http(f"{operators}/v1/operations?limit=100")
    if status == NOT_NOW:
        return None
    assert status == 200, shown
    ended = {state.value for state in ENDED_STATES}
    return [
        operation
        for operation in shown["operations"]
        if operation["state"] not in ended
    ]


def _is_late(status: int, refusal: str) -> bool:
    """Return whether something that was down has recovered meanwhile.

    A host that was restored has brought its VMs up, the last move of a VM may end
    meanwhile, and so may its deletion.
    """
    return (status == 409 and refusal.endswith("is not down")) or (
        status == 404 and refusal.endswith("was deleted")
    )


def judge(file: Path, crowd: Crowd, programs: Path) -> Mirror:
    """Check the store of a dead service; return its content."""
    assert not crowd.strange, crowd.strange
    # In this order, so that later lines of programs cannot be missing in the store.
    done = journal(programs)
    assert check(file) == []
    mirror = Mirror()
    with closing(SqliteStore(file)) as store:
        mirror.tables |= store.read(stored)
        lost = [
            name
            for name in sorted(crowd.requests)
            if store.read(lambda reader, name=name: reader.get(Request, name)) is None
        ]
    assert not lost, f"orders that were answered with 201 are lost: {lost}"
    judge_content(mirror, [crowd], done)
    return mirror


def _approvals(mirror: Mirror, crowd: Crowd) -> None:
    """Each approval answered with 200 is durable, or came too late to matter (3.2)."""
    for approval in crowd.acknowledged:
        event = mirror.events.get(approval.event_id)
        assert event is not None, f"{approval}: there is no such event"
        if event.approved_by:
            continue
        since = event.started_at or event.removed_at
        assert since, f"the approval is lost: {approval}, {event}"
        assert since <= approval.at, (
            f"it started without its approval: {approval}, {event}"
        )


def _documents(mirror: Mirror, crowd: Crowd) -> None:
    """No response contains changes that are not durable."""
    for name, guest in crowd.guests.items():
        view = mirror.views[mirror.vms[name].view]
        assert guest.incarnation <= view.incarnation, (name, guest, view)
        for event_id, status in guest.statuses.items():
            event = mirror.events[event_id]
            is_told = {
                "Scheduled": True,
                "Started": event.status is not EventStatus.SCHEDULED,
                "gone": event.status is EventStatus.REMOVED,
            }
            assert is_told[status], f"{name} was told {status} of {event}"


def _calls(mirror: Mirror, work: Sequence[Work]) -> None:
    """No call runs twice, before it is durable, or without an operation."""
    twice = [work_item for work_item, times in Counter(work).items() if times > 1]
    assert not twice, f"done twice: {twice}"
    finished: set[tuple[str, str]] = set()
    for call in work:
        operation = mirror.operations[call.operation]
        assert operation.started_at, f"{call}, and {operation} has not started"
        assert call.generation <= operation.generation, (call, operation)
        again = (call.vm, call.operation) in finished
        assert call.what != "begun" or not again, f"{call}, and it was done before"
        if call.what == "done":
            finished.add((call.vm, call.operation))
    for event in mirror.live_events:
        if event.status is EventStatus.STARTED:
            operation = mirror.operations[event.operation]
            has_call = operation.call_state is not CallState.NONE
            assert (
                has_call
                or operation.action is Action.NONE
                or operation.state is OperationState.RECOVERING
            ), f"Started, and no call: {event}, {operation}"
    for operation in mirror.operations.values():
        if operation.state is OperationState.DONE and operation.action != Action.NONE:
            for vm in operation.vms:
                assert (vm, operation.operation_id) in finished, (vm, operation)
