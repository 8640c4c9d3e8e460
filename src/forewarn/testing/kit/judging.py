"""The status of an event, and the expectations of tests about it.

All code here runs on the loop of the world. Tests in threads and tests on an asyncio
loop share it.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, TypeAlias

from forewarn.protocol.actors import ActorKind
from forewarn.protocol.events import Event as StoredEvent
from forewarn.protocol.events import EventStatus, EventType, Outcome
from forewarn.sim.scenario.describe import why_at_once
from forewarn.testing.kit import failure_report
from forewarn.testing.kit.core import AnyCore
from forewarn.testing.kit.durations import Length, length_text, micros_of, seconds_of

__tracebackhide__ = True
"""pytest shows the line of the test that failed, and no line of this module."""

Status: TypeAlias = Literal["Scheduled", "Started", "Removed", "Cancelled"]
"""The status of an event. `Cancelled`: removed before it was Started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approved:
    """An approval of an event."""

    by: str
    """The VM, or an operator or policy in parentheses."""
    after: timedelta
    """Time since the announcement of the event, by the clock of the world."""


def has_come(stored: StoredEvent, status: Status) -> bool:
    """Return whether an event has reached `status`, now or before."""
    if status == "Scheduled":
        return True
    if status == "Started":
        return stored.started_at != 0
    return status_of(stored) == status


def status_of(stored: StoredEvent) -> Status:
    """Return the status of an event."""
    if stored.status is EventStatus.STARTED:
        return "Started"
    if stored.status is EventStatus.REMOVED:
        return "Cancelled" if stored.outcome is Outcome.CANCELLED else "Removed"
    return "Scheduled"


async def approval(core: AnyCore, event_id: str, seconds: float) -> Approved:
    """Wait for an approval; raises NotSeenError after the timeout."""

    def decided() -> Approved | StoredEvent | None:
        stored = core.event(event_id)
        approval_ = _approved(core, stored)
        if approval_ is None and stored.status is EventStatus.REMOVED:
            return stored
        return approval_

    outcome = await core.until(decided, seconds=seconds)
    if isinstance(outcome, Approved):
        return outcome
    stored = core.event(event_id)
    line = failure_report.event_line(stored)
    if outcome is not None:
        sentence = f"{line} ended without an approval"
    else:
        sentence = f"{line} was not approved within {seconds:g} s"
    sentence += _why_at_once(stored)
    raise failure_report.failure(core, sentence, vms=_vms(stored))


async def arrival(core: AnyCore, event_id: str, status: Status, seconds: float) -> None:
    """Wait for a status; raises NotSeenError after the timeout."""

    def decided() -> bool | None:
        stored = core.event(event_id)
        if has_come(stored, status):
            return True
        return False if stored.status is EventStatus.REMOVED else None

    reached = await core.until(decided, seconds=seconds)
    if reached:
        return
    stored = core.event(event_id)
    sentence = f"{failure_report.event_line(stored)}: expected {status}"
    if reached is None:
        sentence += f" within {seconds:g} s"
    raise failure_report.failure(
        core,
        sentence,
        vms=_vms(stored),
        reasons=core.reasons(stored.operation),
    )


async def coming(
    core: AnyCore, event_type: EventType | None, vm: str, seconds: float
) -> str:
    """Wait for an event, perhaps of a type or for a VM; return its ID."""
    if vm:
        core.check_vm(vm)

    def come() -> str | None:
        for event in core.live_events():
            is_meant = event_type is None or event.event_type is event_type
            if is_meant and (not vm or event.names(vm)):
                return event.event_id
        return None

    event_ids = await core.until(come, seconds=seconds)
    if event_ids is None:
        noun = event_type.value if event_type is not None else "event"
        whose = f" of {vm}" if vm else ""
        sentence = f"no {noun}{whose} was announced within {seconds:g} s"
        raise failure_report.failure(core, sentence, vms=[vm] if vm else [])
    return event_ids


def judge_status(core: AnyCore, event_id: str, status: Status) -> None:
    """Raise NotSeenError unless an event has this status now."""
    stored = core.event(event_id)
    if status_of(stored) != status:
        sentence = f"{failure_report.event_line(stored)}: expected {status}"
        raise failure_report.failure(core, sentence, vms=_vms(stored))


async def silence(core: AnyCore, event_id: str, seconds: float) -> None:
    """Raise NotSeenError if an event is approved now or during the given time."""
    approval_ = await core.until(
        lambda: _approved(core, core.event(event_id)), seconds=seconds
    )
    if approval_ is not None:
        stored = core.event(event_id)
        sentence = (
            f"{failure_report.approval(approval_.by, approval_.after)}; expected none"
        )
        raise failure_report.failure(core, sentence, vms=_vms(stored))


def judge_approval(
    core: AnyCore, event_id: str, by: str, within: Length | None
) -> None:
    """Raise NotSeenError unless an event is approved as expected."""
    if by and not by.startswith("("):
        core.check_vm(by)
    stored = core.event(event_id)
    approval_ = _approved(core, stored)
    sentence = ""
    if approval_ is None:
        sentence = f"{failure_report.event_line(stored)} is not approved"
        sentence += _why_at_once(stored)
    elif by and approval_.by != by:
        text = failure_report.approval(approval_.by, approval_.after)
        sentence = f"{text}; expected it from {by}"
    elif within is not None and approval_.after.total_seconds() > seconds_of(within):
        text = failure_report.approval(approval_.by, approval_.after)
        sentence = f"{text}; expected it within {length_text(micros_of(within))}"
    if sentence:
        raise failure_report.failure(core, sentence, vms=_vms(stored))


def _approved(core: AnyCore, stored: StoredEvent) -> Approved | None:
    by, at = stored.approved_by, stored.approved_at
    if not by or _is_by_policy(stored):
        by, at = core.kept_back(stored.event_id)
    if not by:
        return None
    after = at - stored.created + core.jumped(stored, at)
    return Approved(by=by, after=timedelta(microseconds=after))


def _is_by_policy(stored: StoredEvent) -> bool:
    """Return whether a policy approved the event at once, as that of a failure."""
    by = stored.approver
    return by is not None and by.kind is ActorKind.POLICY


def _why_at_once(stored: StoredEvent) -> str:
    why = why_at_once(stored, "it")
    return f": {why}" if why else ""


def _vms(stored: StoredEvent) -> list[str]:
    return [resource.vm for resource in stored.resources]
