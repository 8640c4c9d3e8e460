"""One event as a test has it: where it stands, how it goes on, what is expected."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias, get_args

from forewarn.control import approvals
from forewarn.control.event_json import event_report
from forewarn.instants import Micros
from forewarn.protocol.actors import ActorKind
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.events import Event as StoredEvent
from forewarn.protocol.events import EventStatus, Outcome
from forewarn.sim import staged
from forewarn.sim.scenario.telling import why_at_once
from forewarn.sim.staged import Stop
from forewarn.testing.kit import telling
from forewarn.testing.kit.core import Core
from forewarn.testing.kit.durations import (
    Length,
    micros_of,
    moment_of,
    seconds_of,
    told,
)
from forewarn.testing.kit.waits import APPROVAL_SECONDS, STATUS_SECONDS

Status: TypeAlias = Literal["Scheduled", "Started", "Gone", "Cancelled"]
"""How far an event has come. `Cancelled`: gone without having started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approved:
    """That somebody approved an event."""

    by: str
    """The VM; an operator or a policy stands in parentheses."""
    after: timedelta
    """Since the event was made, by the clock of the world."""


class Event:
    """An event of a world. It is a handle: what it tells is asked for each time."""

    def __init__(self, core: Core, event_id: str) -> None:
        """Stand for the event with this id."""
        self._core = core
        self._id = event_id
        self._aio: AioEvent | None = None

    def __repr__(self) -> str:
        """Return it as a failing assertion shows it."""
        try:
            return f"<Event {telling.event_line(self._stored())}>"
        except RefusedError:
            return f"<Event {self._id} of a closed world>"

    # What it is

    @property
    def id(self) -> str:
        """Return the EventId."""
        return self._id

    @property
    def type(self) -> str:
        """Return the EventType: Freeze, Reboot, Redeploy, Preempt, Terminate."""
        return self._stored().event_type.value

    @property
    def status(self) -> Status:
        """Return how far it has come."""
        return status_of(self._stored())

    @property
    def vms(self) -> tuple[str, ...]:
        """Return the VMs that it names."""
        return tuple(resource.vm for resource in self._stored().resources)

    @property
    def approved_by(self) -> str:
        """Return who approved it; empty: nobody. What is withheld does not count."""
        return self._stored().approved_by

    @property
    def not_before(self) -> datetime:
        """Return the earliest start; it moves when time is advanced."""
        moment = moment_of(self._stored().not_before)
        assert moment is not None, "every event has one"
        return moment

    @property
    def operation(self) -> str:
        """Return the id of the operation behind it, as `forewarn explain` takes it."""
        return self._stored().operation

    @property
    def json(self) -> dict[str, Any]:
        """Return all that is known of it, as the operator API tells it."""
        return event_report(self._stored())

    @property
    def waits_for(self) -> list[str]:
        """Return every reason why it has not started, in sentences."""
        core, operation = self._core, self.operation
        return core.call(lambda: core.reasons(operation))

    # How it goes on

    def approve(self, vm: str = "") -> None:
        """Approve it in the place of `vm`, or as an operator where none is named.

        Raises RefusedError for a VM that may not.
        """
        self._core.order(lambda work: approvals.approve_for(work, self._id, as_vm=vm))

    def start(self) -> None:
        """Have it start now, approved or not; raises RefusedError if it cannot."""
        self._move(Stop.STARTED)

    def recover(self) -> None:
        """Have the impact be over: it is shown as Started until it is finished."""
        self._move(Stop.RECOVERING)

    def finish(self) -> None:
        """Have it run its course, and be gone."""
        self._move(Stop.GONE)

    def cancel(self) -> None:
        """Cancel it: it is gone without impact; raises RefusedError once Started."""
        self._move(Stop.CANCELLED)

    def _move(self, stop: Stop) -> None:
        core = self._core

        def move() -> None:
            operation = core.event(self._id).operation
            moved = core.stage.move(operation, stop)
            if not staged.is_at(moved, stop):
                reasons = "; ".join(core.reasons(operation)) or moved.note
                raise RefusedError(
                    f"{telling.event_line(core.event(self._id))} cannot be "
                    f"{stop.value} yet: {reasons or 'it is still carried out'}"
                )

        core.call(move)

    # What is expected

    @property
    def aio(self) -> "AioEvent":
        """Return the waits for tests that run on an asyncio loop."""
        if self._aio is None:
            self._aio = AioEvent(self, self._core)
        return self._aio

    def wait_for_approval(self, *, timeout: Length = APPROVAL_SECONDS) -> Approved:
        """Wait until somebody has approved it; fail if nobody does.

        An approval that is withheld counts: the program under test has done its
        part. `timeout` is in real time.
        """
        __tracebackhide__ = True
        return self._core.wait(self.approval(seconds_of(timeout)))

    def wait_until(self, status: Status, *, timeout: Length = STATUS_SECONDS) -> None:
        """Wait until it has come as far as `status`; fail if it does not."""
        __tracebackhide__ = True
        self._core.wait(self.arrival(status, seconds_of(timeout)))

    def assert_status(self, status: Status) -> None:
        """Fail unless it stands at `status` now."""
        __tracebackhide__ = True
        self._core.call(lambda: self.judge_status(status))

    def assert_approved(self, *, by: str = "", within: Length | None = None) -> None:
        """Fail unless it is approved by now: by whom, and how soon after it was made.

        `within` is by the clock of the world.
        """
        __tracebackhide__ = True
        self._core.call(lambda: self.judge_approval(by, within))

    def assert_not_approved(self, *, during: Length = 0.0) -> None:
        """Fail if anybody has approved it, or does so `during` the time to come."""
        __tracebackhide__ = True
        self._core.wait(self.silence(seconds_of(during)))

    # On the loop: what both the waits and their awaitable twins run

    async def approval(self, seconds: float) -> Approved:
        """Wait for an approval, on the loop of the world."""
        __tracebackhide__ = True

        def decided() -> Approved | StoredEvent | None:
            stored = self._core.event(self._id)
            found = self._approved(stored)
            if found is None and stored.status is EventStatus.REMOVED:
                return stored
            return found

        found = await self._core.until(decided, seconds=seconds)
        if isinstance(found, Approved):
            return found
        stored = self._core.event(self._id)
        line = telling.event_line(stored)
        if found is not None:
            sentence = f"nobody approved {line}, and it is over"
        else:
            sentence = f"nobody approved {line} within {seconds:g} s"
        sentence += _why_at_once(stored)
        raise telling.failure(self._core, sentence, vms=_vms(stored))

    async def arrival(self, status: Status, seconds: float) -> None:
        """Wait for a status, on the loop of the world."""
        __tracebackhide__ = True
        _check(status)

        def decided() -> bool | None:
            stored = self._core.event(self._id)
            if _has_come(stored, status):
                return True
            return False if stored.status is EventStatus.REMOVED else None

        reached = await self._core.until(decided, seconds=seconds)
        if reached:
            return
        stored = self._core.event(self._id)
        sentence = f"{telling.event_line(stored)}: expected {status}"
        if reached is None:
            sentence += f" within {seconds:g} s"
        raise telling.failure(
            self._core,
            sentence,
            vms=_vms(stored),
            reasons=self._core.reasons(stored.operation),
        )

    def judge_status(self, status: Status) -> None:
        """Judge where it stands now, on the loop of the world."""
        __tracebackhide__ = True
        _check(status)
        stored = self._core.event(self._id)
        if status_of(stored) != status:
            sentence = f"{telling.event_line(stored)}: expected {status}"
            raise telling.failure(self._core, sentence, vms=_vms(stored))

    async def silence(self, seconds: float) -> None:
        """Wait for no approval, on the loop of the world."""
        __tracebackhide__ = True
        found = await self._core.until(
            lambda: self._approved(self._core.event(self._id)), seconds=seconds
        )
        if found is not None:
            stored = self._core.event(self._id)
            sentence = f"{telling.approval(found.by, found.after)}; expected none"
            raise telling.failure(self._core, sentence, vms=_vms(stored))

    def judge_approval(self, by: str, within: Length | None) -> None:
        """Judge the approval as it is now, on the loop of the world."""
        __tracebackhide__ = True
        stored = self._core.event(self._id)
        found = self._approved(stored)
        sentence = ""
        if found is None:
            sentence = f"nobody has approved {telling.event_line(stored)}"
            sentence += _why_at_once(stored)
        elif by and found.by != by:
            said = telling.approval(found.by, found.after)
            sentence = f"{said}; expected it from {by}"
        elif within is not None and found.after.total_seconds() > seconds_of(within):
            said = telling.approval(found.by, found.after)
            bound = told(micros_of(within))
            sentence = f"{said}; expected it within {bound}"
        if sentence:
            raise telling.failure(self._core, sentence, vms=_vms(stored))

    def _approved(self, stored: StoredEvent) -> Approved | None:
        by, at = stored.approved_by, stored.approved_at
        if not by or _is_by_policy(stored):
            by, at = self._core.stage.withheld.kept(stored.event_id)
        if not by:
            return None
        return Approved(by=by, after=_length(at - stored.created))

    def _stored(self) -> StoredEvent:
        return self._core.call(lambda: self._core.event(self._id))


class AioEvent:
    """The waits of an event for tests on an asyncio loop, which stays free."""

    def __init__(self, event: Event, core: Core) -> None:
        """Wait for what `event` waits for."""
        self._event = event
        self._core = core

    async def wait_for_approval(
        self, *, timeout: Length = APPROVAL_SECONDS
    ) -> Approved:
        """Wait as `Event.wait_for_approval` does."""
        __tracebackhide__ = True
        waiting = self._event.approval(seconds_of(timeout))
        return await self._core.awaited(waiting)

    async def wait_until(
        self, status: Status, *, timeout: Length = STATUS_SECONDS
    ) -> None:
        """Wait as `Event.wait_until` does."""
        __tracebackhide__ = True
        waiting = self._event.arrival(status, seconds_of(timeout))
        await self._core.awaited(waiting)

    async def assert_not_approved(self, *, during: Length = 0.0) -> None:
        """Wait as `Event.assert_not_approved` does."""
        __tracebackhide__ = True
        await self._core.awaited(self._event.silence(seconds_of(during)))


def _check(status: str) -> None:
    if status not in get_args(Status):
        raise RefusedError(
            f"an event is never {status!r}", hint=", ".join(get_args(Status))
        )


def _has_come(stored: StoredEvent, status: Status) -> bool:
    """Tell whether it stands at `status`, or has gone through it."""
    if status == "Scheduled":
        return True
    if status == "Started":
        return stored.started_at != 0
    return status_of(stored) == status


def status_of(stored: StoredEvent) -> Status:
    """Return how far an event has come."""
    if stored.status is EventStatus.STARTED:
        return "Started"
    if stored.status is EventStatus.REMOVED:
        return "Cancelled" if stored.outcome is Outcome.CANCELLED else "Gone"
    return "Scheduled"


def _is_by_policy(stored: StoredEvent) -> bool:
    """Tell whether it was approved when it was made, by nobody: a failure is."""
    by = stored.approver
    return by is not None and by.kind is ActorKind.POLICY


def _why_at_once(stored: StoredEvent) -> str:
    why = why_at_once(stored, "it")
    return f": {why}" if why else ""


def _vms(stored: StoredEvent) -> list[str]:
    return [resource.vm for resource in stored.resources]


def _length(micros: Micros) -> timedelta:
    return timedelta(microseconds=micros)
