"""One event in a test: its state, its next steps, and assertions about it."""

from datetime import datetime
from typing import Any

from forewarn.control.requests import approvals
from forewarn.control.transactions.event_json import event_report
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.events import Event as StoredEvent
from forewarn.protocol.events import EventStatus
from forewarn.sim import staged
from forewarn.sim.staged import Stop
from forewarn.testing.kit import failure_report, judging
from forewarn.testing.kit.calls import checked
from forewarn.testing.kit.core import AnyCore, live
from forewarn.testing.kit.durations import (
    APPROVAL_SECONDS,
    STATUS_SECONDS,
    Length,
    moment_of,
    seconds_of,
)
from forewarn.testing.kit.judging import Approved, Status, status_of
from forewarn.wording import operators

__tracebackhide__ = True
"""pytest shows the line of the test that failed, and no line of this module."""


class AioEvent:
    """The wait methods of an event for asyncio tests; they do not block the loop."""

    def __init__(self, core: AnyCore, event_id: str) -> None:
        """Wait for changes of the event with this ID."""
        self._core = core
        self._id = event_id

    @checked
    async def wait_for_approval(self, timeout: Length = APPROVAL_SECONDS) -> Approved:
        """Wait as `Event.wait_for_approval` does."""
        waiting = judging.approval(self._core, self._id, seconds_of(timeout))
        return await self._core.awaited(waiting)

    @checked
    async def wait_until(
        self, status: Status, timeout: Length = STATUS_SECONDS
    ) -> None:
        """Wait as `Event.wait_until` does."""
        waiting = judging.arrival(self._core, self._id, status, seconds_of(timeout))
        await self._core.awaited(waiting)

    @checked
    async def assert_not_approved(self, during: Length = 0.0) -> None:
        """Wait as `Event.assert_not_approved` does."""
        await self._core.awaited(
            judging.silence(self._core, self._id, seconds_of(during))
        )


class Event:
    """An event of a world. Its properties are read from the world each time."""

    def __init__(self, core: AnyCore, event_id: str) -> None:
        """Refer to the event with this ID."""
        self._core = core
        self._id = event_id

    def __repr__(self) -> str:
        """Return the text that a failed assertion shows."""
        try:
            return f"<Event {failure_report.event_line(self._stored())}>"
        except RefusedError:
            return f"<Event {self._id} of a closed world>"

    def __eq__(self, other: object) -> bool:
        """Return whether both refer to the same event of the same world."""
        if not isinstance(other, Event):
            return NotImplemented
        return self._core is other._core and self._id == other._id

    def __hash__(self) -> int:
        """Return the hash of the EventId."""
        return hash(self._id)

    # State
    @property
    def id(self) -> str:
        """Return the EventId."""
        return self._id

    @property
    @checked
    def type(self) -> str:
        """Return the EventType: Freeze, Reboot, Redeploy, Preempt, Terminate."""
        return self._stored().event_type.value

    @property
    @checked
    def status(self) -> Status:
        """Return the status of the event."""
        return status_of(self._stored())

    @property
    @checked
    def vms(self) -> tuple[str, ...]:
        """Return the names of the event's VMs."""
        return tuple(resource.vm for resource in self._stored().resources)

    @property
    @checked
    def approved_by(self) -> str:
        """Return the approver of the event, or "". A withheld approval does not
        count."""
        return self._stored().approved_by

    @property
    @checked
    def not_before(self) -> datetime:
        """Return the earliest start; it changes when the time is advanced."""
        moment = moment_of(self._stored().not_before)
        assert moment is not None, "every event has one"
        return moment

    @property
    @checked
    def operation(self) -> str:
        """Return the ID of the event's operation, for `forewarn explain`."""
        return self._stored().operation

    @property
    @checked
    def json(self) -> dict[str, Any]:
        """Return all data of the event in the form of the operator API."""
        return event_report(self._stored())

    @property
    @checked
    def waits_for(self) -> list[str]:
        """Return every reason why the event has not started, as text."""
        core, operation = self._core, self.operation
        return core.call(lambda: core.reasons(operation))

    # Next steps
    @checked
    def approve(self, vm: str = "") -> None:
        """Approve the event on behalf of `vm`, or as an operator if no VM is given.

        Raises RefusedError if the VM cannot approve it, or if the event is removed:
        an approval would have no effect.
        """
        core = live(self._core)

        def approve() -> None:
            stored = core.event(self._id)
            if vm:
                core.check_vm(vm)
            if stored.status is EventStatus.REMOVED:
                raise RefusedError(
                    f"{failure_report.event_line(stored)} has ended and cannot be approved",
                    hint="A VM can post the approval: the endpoint answers 200 (3.2).",
                )
            core.ordered(lambda work: approvals.approve_for(work, self._id, as_vm=vm))

        core.call(approve)

    @checked
    def start(self) -> None:
        """Start the event now, with or without approval; raises RefusedError if it
        cannot start."""
        self._move(Stop.STARTED)

    @checked
    def recover(self) -> None:
        """End the impact now. The event stays Started until it is finished."""
        self._move(Stop.RECOVERING)

    @checked
    def finish(self) -> None:
        """Complete the operation now and remove the event."""
        self._move(Stop.REMOVED)

    @checked
    def cancel(self) -> None:
        """Remove the event without impact; raises RefusedError if it is Started."""
        self._move(Stop.CANCELLED)

    def _move(self, stop: Stop) -> None:
        core = live(self._core)

        def move() -> None:
            operation = core.event(self._id).operation
            moved = core.sim_server.move(operation, stop)
            if not staged.is_at(moved, stop):
                reasons = "; ".join(core.reasons(operation)) or operators.note(
                    moved.note
                )
                raise RefusedError(
                    f"{failure_report.event_line(core.event(self._id))} cannot be "
                    f"{stop.value} yet: {reasons or 'its operation is still running'}"
                )

        core.call(move)

    # Waits and assertions
    @property
    def aio(self) -> AioEvent:
        """Return the wait methods for tests on an asyncio loop."""
        return AioEvent(self._core, self._id)

    @checked
    def wait_for_approval(self, timeout: Length = APPROVAL_SECONDS) -> Approved:
        """Wait for an approval; fail if none comes in time.

        A withheld approval counts: the program under test has done its part. `timeout`
        is in real time.
        """
        return self._core.wait(
            judging.approval(self._core, self._id, seconds_of(timeout))
        )

    @checked
    def wait_until(self, status: Status, timeout: Length = STATUS_SECONDS) -> None:
        """Wait until the event has reached `status`; fail if it does not in time."""
        self._core.wait(
            judging.arrival(self._core, self._id, status, seconds_of(timeout))
        )

    @checked
    def assert_status(self, status: Status) -> None:
        """Fail unless the status of the event is `status` now."""
        self._core.call(lambda: judging.judge_status(self._core, self._id, status))

    @checked
    def assert_approved(self, by: str = "", *, within: Length | None = None) -> None:
        """Fail unless the event is approved, by `by` and `within` a time after its
        creation.

        `by` is a VM, or an operator or policy in parentheses. `within` is by the clock
        of the world and includes time that `advance` skipped. A withheld approval
        counts, as in `wait_for_approval`.
        """
        self._core.call(
            lambda: judging.judge_approval(self._core, self._id, by, within)
        )

    @checked
    def assert_not_approved(self, during: Length = 0.0) -> None:
        """Fail if the event is approved now, or within the time `during` from now."""
        self._core.wait(judging.silence(self._core, self._id, seconds_of(during)))

    def _stored(self) -> StoredEvent:
        return self._core.call(lambda: self._core.event(self._id))
