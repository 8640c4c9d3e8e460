"""Defects in the values of an event's members (2.3 to 2.9)."""

import uuid
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from typing import cast

from forewarn.instants import SECOND, Micros
from tests.support.planted.catalog import defect
from tests.support.planted.endpoint import Endpoint
from tests.support.planted.fleet import Plan
from tests.support.planted.story import Event, Story


class _Changed(Endpoint):
    """Has other values for some members."""

    def changed(self, event: Event, members: dict[str, object]) -> dict[str, object]:
        """Return the members that are other."""
        raise NotImplementedError

    def members(
        self, vm: str, event: Event, version: str, now: Micros
    ) -> dict[str, object]:
        members = super().members(vm, event, version, now)
        changed = self.changed(event, members)
        return {name: changed.get(name, value) for name, value in members.items()}


# -- EventId (2.3) -------------------------------------------------------------------


@defect(
    "id-lower-case",
    "2.3",
    "EventIds are in lower case.",
    seen="look at an EventId",
)
class IdLowerCase(_Changed):
    def changed(self, event: Event, members: dict[str, object]) -> dict[str, object]:
        return {"EventId": event.event_id.lower()}


@defect(
    "id-in-braces",
    "2.3",
    "EventIds are GUIDs in braces.",
    seen="look at an EventId",
)
class IdInBraces(_Changed):
    def changed(self, event: Event, members: dict[str, object]) -> dict[str, object]:
        return {"EventId": f"{{{event.event_id}}}"}


@defect(
    "id-no-guid",
    "2.3",
    "EventIds are names such as evt-migration.",
    seen="look at an EventId",
)
class IdNoGuid(Story):
    def event_id(self, plan: Plan, number: int) -> str:
        return f"EVT-{number}-{plan.key.upper().replace(' ', '-')}"


@defect(
    "id-changes",
    "2.3",
    "An event has a new EventId once it is Started, as in Microsoft's mock.",
    seen="watch a Freeze: a new one is Started at once, which only failures may be",
)
class IdChanges(Story):
    def start(self, event: Event, now: Micros) -> None:
        super().start(event, now)
        shifted = (uuid.UUID(event.event_id).int + 1) % 2**128
        event.event_id = str(uuid.UUID(int=shifted)).upper()


@defect(
    "id-reused",
    "2.3",
    "All events of a kind have the same EventId, even after one is removed.",
    seen="watch until an id that has gone comes again",
)
class IdReused(Story):
    def event_id(self, plan: Plan, number: int) -> str:
        return super().event_id(plan, 0)


@defect(
    "id-doubled",
    "2.3",
    "Two events of one document have the same EventId.",
    seen="read a document with several events",
)
class IdDoubled(Story):
    def announce(self, plan: Plan, number: int, now: Micros) -> None:
        before = [event.event_id for event in self.events if event.plan.scope == "web"]
        super().announce(plan, number, now)
        if before and plan.scope == "web":
            self.events[-1].event_id = before[0]


# -- EventType, ResourceType, Resources, EventStatus (2.4 to 2.6) ----------------------


@defect(
    "type-pause",
    "2.4",
    "A Freeze is called Pause, as in the preview of 2016.",
    seen="look at an EventType",
)
class TypePause(_Changed):
    def changed(self, event: Event, members: dict[str, object]) -> dict[str, object]:
        kind = event.plan.event_type
        return {"EventType": "Pause" if kind == "Freeze" else kind}


@defect(
    "words-lower-case",
    "2.4",
    "EventType and EventStatus are in lower case.",
    seen="look at an EventType",
)
class WordsLowerCase(_Changed):
    def changed(self, event: Event, members: dict[str, object]) -> dict[str, object]:
        names = ("EventType", "EventStatus")
        return {name: str(members[name]).lower() for name in names}


@defect(
    "resource-type",
    "2.5",
    "ResourceType is Microsoft.Compute/virtualMachines.",
    seen="look at a ResourceType",
)
class ResourceType(_Changed):
    def changed(self, event: Event, members: dict[str, object]) -> dict[str, object]:
        return {"ResourceType": "Microsoft.Compute/virtualMachines"}


@defect(
    "resources-text",
    "2.5",
    "Resources is a text with commas and not a list.",
    seen="look at an event's Resources",
)
class ResourcesText(_Changed):
    def changed(self, event: Event, members: dict[str, object]) -> dict[str, object]:
        return {"Resources": ",".join(event.plan.resources)}


@defect(
    "resources-empty",
    "2.5",
    "Resources is an empty list.",
    seen="look at an event's Resources",
)
class ResourcesEmpty(_Changed):
    def changed(self, event: Event, members: dict[str, object]) -> dict[str, object]:
        return {"Resources": []}


@defect(
    "resources-as-ids",
    "2.5",
    "Resources has the paths of resources and not the names of VMs.",
    seen="compare them with compute.name",
)
class ResourcesAsIds(_Changed):
    def changed(self, event: Event, members: dict[str, object]) -> dict[str, object]:
        directory = "/subscriptions/0/resourceGroups/planted/virtualMachines"
        return {
            "Resources": [
                f"{directory}/{resource}" for resource in event.plan.resources
            ]
        }


@defect(
    "resources-doubled",
    "2.5",
    "Resources names each VM twice.",
    seen="look at an event's Resources",
)
class ResourcesDoubled(_Changed):
    def changed(self, event: Event, members: dict[str, object]) -> dict[str, object]:
        return {"Resources": [*event.plan.resources, *event.plan.resources]}


@defect(
    "hosts-in-one-event",
    "2.5",
    "An event of one host also names a VM of another one.",
    unseen="a client does not know which host a VM is on",
)
class HostsInOneEvent(_Changed):
    def changed(self, event: Event, members: dict[str, object]) -> dict[str, object]:
        if event.plan.event_type != "Freeze" or event.plan.scope != "web":
            return {}
        named = cast("list[str]", members["Resources"])
        mark = "_" if named[0].startswith("_") else ""
        return {"Resources": [*named, f"{mark}web_3"]}


@defect(
    "status-in-progress",
    "2.6",
    "A Started event is called InProgress.",
    seen="watch an event that starts",
)
class StatusInProgress(_Changed):
    def changed(self, event: Event, members: dict[str, object]) -> dict[str, object]:
        return {"EventStatus": "InProgress" if event.has_started else event.status}


class _Lingering(Story):
    """Shows an event for a while longer, with a status that does not exist."""

    status = ""

    def lingers(self, event: Event) -> bool:
        """Whether an event is shown after its end."""
        raise NotImplementedError

    def remove(self, event: Event, now: Micros) -> None:
        if event.status == self.status or not self.lingers(event):
            super().remove(event, now)
            return
        event.status = self.status
        self.after(now, self.pace.started, lambda at: self.remove(event, at))


@defect(
    "status-completed",
    "2.6",
    "A finished event is still returned for a while, with the status Completed.",
    seen="watch an event until it has gone",
)
class StatusCompleted(_Lingering):
    status = "Completed"

    def lingers(self, event: Event) -> bool:
        return event.has_started


@defect(
    "status-canceled",
    "2.6",
    "A cancelled event is still returned for a while, with the status Canceled.",
    seen="watch an event that is cancelled",
)
class StatusCanceled(_Lingering):
    status = "Canceled"

    def lingers(self, event: Event) -> bool:
        return not event.has_started


# -- NotBefore (2.7) -----------------------------------------------------------------


def _date_of(event: Event) -> datetime:
    return datetime.fromtimestamp(event.not_before // SECOND, tz=UTC)


@defect(
    "not-before-kept",
    "2.7",
    "NotBefore still has its time when the event is Started.",
    seen="look at a Started event",
)
class NotBeforeKept(Endpoint):
    def not_before(self, event: Event, now: Micros) -> object:
        return formatdate(event.not_before // SECOND, usegmt=True)


@defect(
    "not-before-null",
    "2.7",
    "NotBefore is null once the event is Started.",
    seen="look at a Started event",
)
class NotBeforeNull(Endpoint):
    def not_before(self, event: Event, now: Micros) -> object:
        return super().not_before(event, now) or None


@defect(
    "not-before-left-out",
    "2.7",
    "NotBefore is left out once the event is Started.",
    seen="look at a Started event",
)
class NotBeforeLeftOut(Endpoint):
    def members(
        self, vm: str, event: Event, version: str, now: Micros
    ) -> dict[str, object]:
        members = super().members(vm, event, version, now)
        if event.has_started:
            del members["NotBefore"]
        return members


class _Dated(Endpoint):
    """Writes times in another form."""

    def written(self, date: datetime) -> object:
        """Return a time."""
        raise NotImplementedError

    def not_before(self, event: Event, now: Micros) -> object:
        return "" if event.has_started else self.written(_date_of(event))


@defect(
    "not-before-iso",
    "2.7",
    "NotBefore is in the form of ISO 8601.",
    seen="look at a Scheduled event",
)
class NotBeforeIso(_Dated):
    def written(self, date: datetime) -> object:
        return f"{date:%Y-%m-%dT%H:%M:%SZ}"


@defect(
    "not-before-local",
    "2.7",
    "NotBefore is in the form of a country, such as 04/11/2022 10:26:58 PM.",
    seen="look at a Scheduled event",
)
class NotBeforeLocal(_Dated):
    def written(self, date: datetime) -> object:
        return f"{date:%m/%d/%Y %I:%M:%S %p}"


@defect(
    "not-before-offset",
    "2.7",
    "NotBefore ends with +0000, as in a mail, and not with GMT.",
    seen="look at a Scheduled event",
)
class NotBeforeOffset(_Dated):
    def written(self, date: datetime) -> object:
        return f"{date:%a, %d %b %Y %H:%M:%S} +0000"


@defect(
    "not-before-number",
    "2.7",
    "NotBefore is a number of seconds.",
    seen="look at a Scheduled event",
)
class NotBeforeNumber(_Dated):
    def written(self, date: datetime) -> object:
        return int(date.timestamp())


@defect(
    "not-before-weekday",
    "2.7",
    "NotBefore has the wrong day of the week.",
    seen="look at a Scheduled event",
)
class NotBeforeWeekday(_Dated):
    def written(self, date: datetime) -> object:
        other = formatdate((date + timedelta(days=1)).timestamp(), usegmt=True)
        return other[:4] + formatdate(date.timestamp(), usegmt=True)[4:]


@defect(
    "not-before-other-zone",
    "2.7",
    "NotBefore is the time of another zone, said to be GMT.",
    seen="look at a new event: NotBefore is hours in the past",
)
class NotBeforeOtherZone(_Dated):
    def written(self, date: datetime) -> object:
        return formatdate((date - timedelta(hours=5)).timestamp(), usegmt=True)


@defect(
    "not-before-moves",
    "2.7",
    "NotBefore is counted from each request, so it never comes nearer.",
    seen="read a document twice, a second apart: one incarnation, other content",
)
class NotBeforeMoves(Endpoint):
    def not_before(self, event: Event, now: Micros) -> object:
        left = self.story.notice(event.plan)
        moved = Event(event.event_id, event.plan, now + left, event.status)
        return super().not_before(moved, now)


@defect(
    "starts-too-early",
    "2.7",
    "An event starts during its notice without an approval.",
    seen="watch an event that is not approved, and that others cannot approve",
)
class StartsTooEarly(Story):
    def announce(self, plan: Plan, number: int, now: Micros) -> None:
        super().announce(plan, number, now)
        event = self.events[-1]
        self.after(now, self.notice(plan) // 2, lambda at: self._fall_due(event))


# -- EventSource, Description, DurationInSeconds (2.8, 2.9) ----------------------------


@defect(
    "source-azure",
    "2.8",
    "EventSource is Azure and not Platform.",
    seen="look at an EventSource",
)
class SourceAzure(_Changed):
    def changed(self, event: Event, members: dict[str, object]) -> dict[str, object]:
        return {"EventSource": event.plan.source.replace("Platform", "Azure")}


@defect(
    "description-null",
    "2.8",
    "Description is null where it would be empty.",
    seen="look at a Preempt or Terminate",
)
class DescriptionNull(_Changed):
    def changed(self, event: Event, members: dict[str, object]) -> dict[str, object]:
        return {"Description": event.plan.description or None}


@defect(
    "duration-text",
    "2.9",
    "DurationInSeconds is a text.",
    seen="look at a DurationInSeconds",
)
class DurationText(_Changed):
    def changed(self, event: Event, members: dict[str, object]) -> dict[str, object]:
        return {"DurationInSeconds": str(event.plan.duration)}


@defect(
    "duration-fraction",
    "2.9",
    "DurationInSeconds has a fraction.",
    seen="look at a DurationInSeconds",
)
class DurationFraction(_Changed):
    def changed(self, event: Event, members: dict[str, object]) -> dict[str, object]:
        return {"DurationInSeconds": event.plan.duration + 0.5}


@defect(
    "duration-null",
    "2.9",
    "DurationInSeconds is null where it is not known, and not -1.",
    seen="look at an event of a restart or a deletion",
)
class DurationNull(_Changed):
    def changed(self, event: Event, members: dict[str, object]) -> dict[str, object]:
        known = event.plan.duration
        return {"DurationInSeconds": None if known < 0 else known}


@defect(
    "duration-below-minus-one",
    "2.9",
    "DurationInSeconds is -60 where it is not known: minutes were taken for seconds.",
    seen="look at an event of a restart or a deletion",
)
class DurationBelowMinusOne(_Changed):
    def changed(self, event: Event, members: dict[str, object]) -> dict[str, object]:
        known = event.plan.duration
        return {"DurationInSeconds": known * 60 if known < 0 else known}
