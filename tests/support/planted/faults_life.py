"""Defects in the life of events, and in their causes and notices (sections 4, 5)."""

from dataclasses import replace

from forewarn.instants import DAY, MINUTE, SECOND, Micros
from tests.support.planted.catalog import defect
from tests.support.planted.endpoint import Endpoint
from tests.support.planted.fleet import Plan
from tests.support.planted.story import (
    AT_ONCE,
    QUICK,
    SCHEDULED,
    STARTED,
    Event,
    Pace,
    Story,
)


@defect(
    "goes-backwards",
    "4.1",
    "A Started event is Scheduled again before it goes.",
    seen="watch an event until it has gone",
)
class GoesBackwards(Story):
    def __init__(self, pace: Pace = QUICK) -> None:
        super().__init__(pace)
        self._went: list[Event] = []

    def start(self, event: Event, now: Micros) -> None:
        if event in self._went:
            event.status = STARTED
            return
        super().start(event, now)
        if not event.plan.is_withdrawn:
            self.after(now, self.pace.started // 2, lambda at: self._back(event))

    def _back(self, event: Event) -> None:
        self._went.append(event)
        event.status = SCHEDULED
        event.is_due = False
        event.approved_by.clear()


@defect(
    "flaps",
    "4.1",
    "An event is missing from a document in the middle of its life.",
    seen="watch an event: its id goes and comes again",
)
class Flaps(Story):
    def __init__(self, pace: Pace = QUICK) -> None:
        super().__init__(pace)
        self._missing: list[Event] = []

    def start(self, event: Event, now: Micros) -> None:
        super().start(event, now)
        third = self.pace.started // 3
        self.after(now, third, lambda at: self._missing.append(event))
        self.after(now, 2 * third, lambda at: self._missing.remove(event))

    def visible(self, vm: str) -> list[Event]:
        return [event for event in super().visible(vm) if event not in self._missing]


@defect(
    "approval-removes",
    "4.1",
    "An approved event goes from Scheduled without ever being Started.",
    seen="approve events of different causes: one may be cancelled just then (4.5), not all",
)
class ApprovalRemoves(Story):
    def start(self, event: Event, now: Micros) -> None:
        if event.is_due or event.plan.is_failure:
            super().start(event, now)
        else:
            self.remove(event, now)


@defect(
    "never-started",
    "4.1",
    "At NotBefore an event just goes: nothing is ever Started.",
    seen="approve events of different causes: one may be cancelled just then (4.5), not all",
)
class NeverStarted(Story):
    def start(self, event: Event, now: Micros) -> None:
        self.remove(event, now)


@defect(
    "stays-scheduled",
    "4.2",
    "NotBefore passes and the event stays Scheduled, for twice its notice.",
    seen="watch a User event past its NotBefore: others may be held (6.3), it may not",
)
class StaysScheduled(Story):
    def _fall_due(self, event: Event) -> None:
        self.after(
            event.not_before, self.notice(event.plan), lambda at: self._do(event)
        )

    def _do(self, event: Event) -> None:
        event.is_due = True


@defect(
    "comes-again",
    "4.3",
    "An event that has gone comes again, Started, with the same EventId.",
    seen="watch on after an event has gone",
)
class ComesAgain(Story):
    def remove(self, event: Event, now: Micros) -> None:
        super().remove(event, now)
        if event.has_started:
            half = self.pace.gap // 2
            self.after(now, half, lambda at: self._come(event))
            end = half + self.pace.started
            self.after(now, end, lambda at: super(ComesAgain, self).remove(event, at))

    def _come(self, event: Event) -> None:
        self.gone.remove(event)
        self.events.append(event)


@defect(
    "type-changes",
    "4.4",
    "A Reboot becomes a Freeze when it is Started.",
    seen="watch an event that starts",
)
class TypeChanges(Endpoint):
    def members(
        self, vm: str, event: Event, version: str, now: Micros
    ) -> dict[str, object]:
        members = super().members(vm, event, version, now)
        if event.has_started and members["EventType"] == "Reboot":
            members["EventType"] = "Freeze"
        return members


@defect(
    "resources-change",
    "4.4",
    "A Started event names only the first of its VMs.",
    seen="watch an event of several VMs that starts",
)
class ResourcesChange(Endpoint):
    def members(
        self, vm: str, event: Event, version: str, now: Micros
    ) -> dict[str, object]:
        members = super().members(vm, event, version, now)
        names = members["Resources"]
        if event.has_started and isinstance(names, list):
            members["Resources"] = names[:1]
        return members


@defect(
    "cancelled-by-start",
    "4.5",
    "A cancelled event is shown as Started for a moment before it is removed.",
    unseen="it looks like one that another tenant's approval has let begin",
)
class CancelledByStart(Story):
    def cancel(self, event: Event, now: Micros) -> None:
        if not event.has_started:
            event.status = STARTED
            self.after(now, self.pace.started, lambda at: self.remove(event, at))


@defect(
    "impact-without-event",
    "4.7",
    "A failed host has no event, although its VMs are down.",
    unseen="a client that is not told of an impact has nothing to compare with",
)
class ImpactWithoutEvent(Story):
    def sees(self, vm: str, event: Event) -> bool:
        return not event.plan.is_failure and super().sees(vm, event)


@defect(
    "notice-too-short",
    "5.1",
    "A Freeze is announced with a third of the notice that it should have.",
    seen="compare NotBefore with the time when the event was first seen",
    pace=AT_ONCE,
)
class NoticeTooShort(Story):
    def notice(self, plan: Plan) -> Micros:
        notice = super().notice(plan)
        return notice // 3 if plan.event_type == "Freeze" else notice


@defect(
    "notice-of-deletion-too-long",
    "5.1",
    "A Terminate is announced 20 minutes ahead, where 15 is the most.",
    seen="compare NotBefore with the time when the event was first seen",
    pace=AT_ONCE,
)
class NoticeOfDeletionTooLong(Story):
    def notice(self, plan: Plan) -> Micros:
        if plan.event_type == "Terminate":
            return 20 * MINUTE
        return super().notice(plan)


@defect(
    "notice-in-the-past",
    "5.1",
    "A new event is Scheduled with a NotBefore that has passed.",
    seen="compare NotBefore with the time when the event was first seen",
)
class NoticeInThePast(Story):
    def announce(self, plan: Plan, number: int, now: Micros) -> None:
        super().announce(plan, number, now)
        self.events[-1].not_before -= 60 * SECOND + self.notice(plan)


@defect(
    "migration-as-reboot",
    "5.2",
    "A live migration, which keeps memory, is announced as Reboot.",
    seen="compare EventType with the known text of a live migration",
)
class MigrationAsReboot(Endpoint):
    def members(
        self, vm: str, event: Event, version: str, now: Micros
    ) -> dict[str, object]:
        members = super().members(vm, event, version, now)
        if "Live Migration" in event.plan.description:
            members["EventType"] = "Reboot"
        return members


@defect(
    "user-as-platform",
    "5.3",
    "The restart that a user asked for has the EventSource Platform.",
    seen="compare EventSource with the known text of a user's restart",
)
class UserAsPlatform(Endpoint):
    def members(
        self, vm: str, event: Event, version: str, now: Micros
    ) -> dict[str, object]:
        members = super().members(vm, event, version, now)
        if "EventSource" in members:
            members["EventSource"] = "Platform"
        return members


@defect(
    "failure-with-notice",
    "5.5",
    "A failed host is announced like a maintenance: Scheduled, with a notice.",
    seen="a Scheduled event has the known text of a failure",
)
class FailureWithNotice(Story):
    def announce(self, plan: Plan, number: int, now: Micros) -> None:
        super().announce(replace(plan, is_failure=False), number, now)


@defect(
    "failure-never-ends",
    "5.5",
    "The event of a failed host is never removed.",
    unseen="it lasts until the VM runs again, and nothing says how long that takes",
)
class FailureNeverEnds(Story):
    def remove(self, event: Event, now: Micros) -> None:
        if not event.plan.is_failure:
            super().remove(event, now)


@defect(
    "eviction-by-user",
    "5.9",
    "A Preempt has the EventSource User.",
    seen="compare EventSource with the type: an eviction is the platform's",
)
class EvictionByUser(Endpoint):
    def members(
        self, vm: str, event: Event, version: str, now: Micros
    ) -> dict[str, object]:
        members = super().members(vm, event, version, now)
        if "EventSource" in members and event.plan.event_type == "Preempt":
            members["EventSource"] = "User"
        return members


@defect(
    "eviction-in-days",
    "5.6",
    "A Preempt is announced a day ahead, like a repair.",
    unseen="5.1 gives the least notice, and no clause the most",
)
class EvictionInDays(Story):
    def notice(self, plan: Plan) -> Micros:
        return DAY if plan.event_type == "Preempt" else super().notice(plan)
