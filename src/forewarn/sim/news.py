"""News of a simulation for its output, and a picture of its current state for a screen.

Only some requests are news: the first one of a VM, the first one with a changed document,
approvals, requests that a fault hits, and deviations. Nothing here prints.
"""

import enum
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from forewarn.control.transactions.event_json import event_report
from forewarn.fleet.model import Vm, VmState
from forewarn.instants import Micros, format_to_the_millisecond
from forewarn.metadata.server import Address
from forewarn.protocol.events import Event, EventStatus
from forewarn.protocol.published import Publication
from forewarn.protocol.views import View, sees
from forewarn.service.listening import url_of
from forewarn.sim.deviations import Deviation
from forewarn.sim.journal import JournalEntry
from forewarn.sim.positions import is_vacant
from forewarn.sim.sim_server import SimServer
from forewarn.sim.vms import in_order
from forewarn.store import kinds
from forewarn.store.port import Reader, every

ALIKE_MAX = 10
"""Maximum number of reported deviations of one VM from one rule; others are counted."""

_OK = 200
_NOT_FOUND = 404


class What(enum.Enum):
    """The kind of a piece of news; the value is the keyword in its line."""

    SERVING = "serving"
    READY = "ready"
    WAITING = "waiting"
    BEGIN = "begin"
    STEP = "step"
    EVENT = "event"
    ASKED = "asked"
    APPROVED = "approved"
    REFUSED = "refused"
    FAULT = "fault"
    DEVIATION = "deviation"
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    RESET = "reset"
    END = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """A piece of news."""

    at: Micros
    what: What
    text: str
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def line(self) -> str:
        """Return a line of text: time, kind and text."""
        return f"{format_to_the_millisecond(self.at)} {self.what.value:<9} {self.text}"

    def members(self) -> dict[str, Any]:
        """Return the piece of news as JSON values."""
        return {
            "time": format_to_the_millisecond(self.at),
            "what": self.what.value,
            "text": self.text,
            **self.facts,
        }


class Reporter:
    """A reporter of news about a sequence of simulated servers."""

    def __init__(
        self, tell: Callable[[News], None], *, tells_deviations: bool = False
    ) -> None:
        """Call `tell` for each piece of news; `tells_deviations` includes deviations."""
        self._tell = tell
        self.tells_deviations = tells_deviations
        """Whether deviations are news, from the next request on."""
        self.deviations = 0
        """The number of deviations so far."""
        self._alike: Counter[tuple[str, str]] = Counter()
        self._stage: SimServer | None = None
        self._shown = ShownEvents()
        self._knows: set[str] = set()
        """VMs that have received the current documents."""
        self._met: set[str] = set()
        self._mourned: set[str] = set()
        """Deleted VMs whose requests were reported."""

    def follow(self, stage: SimServer) -> None:
        """Report news of this simulated server from now on, and of no other."""
        again = self._stage is not None
        self._stage = stage
        self._shown = ShownEvents()
        self._knows.clear()
        self._met.clear()
        self._mourned.clear()
        stage.journal.on_seen.append(self.see)
        if again:
            self.say(What.RESET, "restarted: a new world at the same addresses")

    def serve(self, name: str, address: Address) -> None:
        """Report the address of a VM, with a variable assignment for a shell.

        `name` may be that of a position without a VM.
        """
        where = url_of(address)
        if is_vacant(name):
            text = f"{name} at {where}: this world has no VM there"
            self.say(What.SERVING, text, vm=None, url=where)
        else:
            text = f"{name} at {where} (FOREWARN_ENDPOINT={where})"
            self.say(What.SERVING, text, vm=name, url=where)

    @property
    def _followed(self) -> SimServer:
        assert self._stage is not None, "`follow` is called first"
        return self._stage

    def say(self, kind: What, text: str, **facts: Any) -> None:
        """Report news of the simulation itself."""
        self._tell(
            News(at=self._followed.engine.now, what=kind, text=text, facts=facts)
        )

    # Events

    def publish(self, publication: Publication) -> None:
        """Report events whose status has changed."""
        if not publication.views:
            return
        self._knows.clear()
        for event in self._followed.engine.read(self._shown.changed):
            self._say_event(event)

    def _say_event(self, event: Event) -> None:
        report = event_report(event)
        text = f"{event.event_id} {_stands(event)} {event.event_type.value}"
        text += f" {', '.join(resource.name for resource in event.resources)}"
        if report["NotBefore"]:
            text += f", NotBefore {report['NotBefore']}"
        elif event.is_live and event.is_approved:
            text += f", approved by {event.approved_by}"
        self.say(What.EVENT, text, event=report)

    # Requests

    def see(self, entry: JournalEntry) -> None:
        """Report a request, if it is news."""
        vm = entry.vm
        if entry.deviations and self.tells_deviations:
            for deviation in entry.deviations:
                self._see_deviation(vm or entry.address, deviation)
        if entry.fault:
            answer = str(entry.status or "no answer")
            if entry.genuine and entry.genuine != entry.status:
                answer += f" instead of {entry.genuine}"
            self.say(
                What.FAULT,
                f"{vm}: got {answer} (fault: {entry.fault})",
                vm=vm,
                fault=entry.fault,
                status=entry.status,
            )
        if entry.method == "POST":
            self._see_post(entry)
        elif vm not in self._knows and entry.is_answered_poll:
            self._knows.add(vm)
            self._see_document(vm)
        elif entry.genuine == _NOT_FOUND and vm not in self._mourned:
            self._see_gone(vm)

    def _see_deviation(self, who: str, deviation: Deviation) -> None:
        self.deviations += 1
        self._alike[who, deviation.name] += 1
        alike = self._alike[who, deviation.name]
        if alike > ALIKE_MAX:
            return
        more = "; further ones are only counted" if alike == ALIKE_MAX else ""
        self.say(
            What.DEVIATION,
            f"{who}: {deviation}{more}",
            vm=who,
            rule=deviation.name,
            clause=deviation.rule.clause,
        )

    def _see_post(self, entry: JournalEntry) -> None:
        if not entry.genuine:
            return
        good = entry.genuine == _OK
        names = ", ".join(entry.approved) or "an unreadable approval"
        self.say(
            What.APPROVED if good else What.REFUSED,
            f"{entry.vm}: {names}" if good else f"{entry.vm}: {names}: {entry.genuine}",
            vm=entry.vm,
            events=list(entry.approved),
            status=entry.genuine,
        )

    def _see_document(self, vm: str) -> None:
        view = self._followed.engine.read(lambda reader: _view_of(reader, vm))
        if view is None:
            return
        first = "" if vm in self._met else " for the first time"
        self._met.add(vm)
        self.say(
            What.ASKED,
            f"{vm}: got document {view.incarnation}{first}",
            vm=vm,
            incarnation=view.incarnation,
        )

    def _see_gone(self, vm: str) -> None:
        """Report once that a request reached an address without a VM."""
        if is_vacant(vm):
            self._mourned.add(vm)
            text = f"{vm}: {_NOT_FOUND}, since this world has no VM there"
            self.say(What.ASKED, text, vm=None, status=_NOT_FOUND)
            return
        stored = self._followed.engine.read(lambda reader: reader.get(Vm, vm))
        if stored is None or stored.state is not VmState.DELETED:
            return
        self._mourned.add(vm)
        self.say(
            What.ASKED,
            f"{vm}: {_NOT_FOUND}, since the VM is deleted; `forewarn sim vm add {vm}` "
            "adds a new one",
            vm=vm,
            status=_NOT_FOUND,
        )


def _stands(event: Event) -> str:
    if event.is_live:
        return event.status.value
    return "removed" if event.started_at else "cancelled"


def live_events(reader: Reader) -> list[Event]:
    """Return the events that documents show, the oldest first."""
    return sorted(every(reader, kinds.LIVE_EVENTS), key=lambda event: event.place)


class ShownEvents:
    """The events in documents at the time of the last check."""

    def __init__(self) -> None:
        """Start with no events."""
        self._shown: dict[str, EventStatus] = {}

    def changed(self, reader: Reader) -> list[Event]:
        """Return the events with a new status, then the removed events."""
        live = {event.event_id: event for event in live_events(reader)}
        changed = [
            event
            for event_id, event in live.items()
            if self._shown.get(event_id) is not event.status
        ]
        gone = [reader.get(Event, name) for name in self._shown if name not in live]
        self._shown = {event_id: event.status for event_id, event in live.items()}
        return changed + [event for event in gone if event is not None]


def _view_of(reader: Reader, name: str) -> View | None:
    vm = reader.get(Vm, name)
    return None if vm is None else reader.get(View, vm.view)


VMS_MAX = 20
"""Maximum number of VMs in a picture, for the lines of a screen."""

EVENTS_MAX = 10
"""Maximum number of events in a picture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VmPicture:
    """A VM and its last request."""

    name: str
    url: str
    state: str
    incarnation: int | None
    """Incarnation of its document; None: events are not enabled yet."""
    events: int
    asked: Micros | None
    """Time since the VM's last request."""
    status: int
    """Status of the last answer; 0: no answer."""
    withheld: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPicture:
    """A current event."""

    event_id: str
    event_type: str
    status: str
    vms: tuple[str, ...]
    left: Micros | None
    """Time until NotBefore; None: it has started."""
    approved_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """The state of a simulation at one instant."""

    now: Micros
    paused: bool
    speed: float
    vms: tuple[VmPicture, ...]
    more_vms: int
    """Number of VMs that are not in the picture."""
    events: tuple[EventPicture, ...]
    more_events: int
    faults: tuple[str, ...]
    requests: int
    """Number of requests so far."""


def picture(stage: SimServer, addresses: Mapping[str, Address]) -> Picture:
    """Return the current state; `addresses` has the address of each VM."""
    engine = stage.engine
    vms, events, views = engine.read(_facts)
    shown: list[VmPicture] = []
    for vm in vms[:VMS_MAX]:
        view = views.get(vm.view)
        listed = [event for event in events if view is not None and sees(view, event)]
        entry = stage.journal.latest(vm.name)
        shown.append(
            _vm(vm, view, len(listed), entry, stage=stage, addresses=addresses)
        )
    return Picture(
        now=engine.now,
        paused=stage.is_paused,
        speed=engine.policy.speed,
        vms=tuple(shown),
        more_vms=len(vms) - len(shown),
        events=tuple(_event(event, engine.now) for event in events[:EVENTS_MAX]),
        more_events=max(0, len(events) - EVENTS_MAX),
        faults=tuple(
            f"{', '.join(rule.playbook.vms) or 'every VM'}: {', '.join(rule.steps)}"
            for rule in stage.faults.listing()
        ),
        requests=stage.journal.last,
    )


def _facts(reader: Reader) -> tuple[list[Vm], list[Event], dict[str, View]]:
    vms = in_order(reader)
    events = live_events(reader)
    names = {vm.view for vm in vms[:VMS_MAX]}
    views_by_vm = {name: reader.get(View, name) for name in names}
    return vms, events, {name: view for name, view in views_by_vm.items() if view}


def _vm(
    vm: Vm,
    view: View | None,
    events: int,
    entry: JournalEntry | None,
    *,
    stage: SimServer,
    addresses: Mapping[str, Address],
) -> VmPicture:
    enabled = view is not None and view.is_enabled
    return VmPicture(
        name=vm.name,
        url=url_of(addresses[vm.name]) if vm.name in addresses else "",
        state=vm.state.value,
        incarnation=view.incarnation if view is not None and enabled else None,
        events=events if enabled else 0,
        asked=None if entry is None else stage.engine.now - entry.at,
        status=0 if entry is None else entry.status,
        withheld=vm.name in stage.withheld.vms,
    )


def _event(event: Event, now: Micros) -> EventPicture:
    waits = event.status is EventStatus.SCHEDULED
    return EventPicture(
        event_id=event.event_id,
        event_type=event.event_type.value,
        status=event.status.value,
        vms=tuple(resource.name for resource in event.resources),
        left=max(0, event.not_before - now) if waits else None,
        approved_by=event.approved_by,
    )
