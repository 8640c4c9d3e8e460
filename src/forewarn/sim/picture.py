"""The whole of a simulation at one instant, as a person looks at it.

Who is served what, who asked when, who has approved, and what comes next. Values
only: how it looks is for whoever shows it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from forewarn.fleet.model import Vm
from forewarn.instants import Micros
from forewarn.metadata.server import Address
from forewarn.protocol.events import Event, EventStatus
from forewarn.protocol.views import View, sees
from forewarn.service.listening import url_of
from forewarn.sim.journal import Seen
from forewarn.sim.sim_server import SimServer
from forewarn.sim.vms import in_order
from forewarn.store import kinds
from forewarn.store.port import Reader, every

VMS_MAX = 20
"""VMs of a picture: more are no picture, and a screen has no more lines."""

EVENTS_MAX = 10
"""Events of a picture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VmPicture:
    """A VM, and what its program does."""

    name: str
    url: str
    state: str
    incarnation: int | None
    """Of its document; None: nobody has asked for it yet."""
    events: int
    asked: Micros | None
    """How long ago it asked for the last time."""
    status: int
    """What it was answered; 0: nothing."""
    withheld: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPicture:
    """An event that is shown."""

    event_id: str
    event_type: str
    status: str
    vms: tuple[str, ...]
    left: Micros | None
    """Until NotBefore; None: it has started."""
    approved_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A simulation."""

    now: Micros
    paused: bool
    speed: float
    vms: tuple[VmPicture, ...]
    more_vms: int
    """VMs that are not in the picture."""
    events: tuple[EventPicture, ...]
    more_events: int
    faults: tuple[str, ...]
    requests: int
    """Seen so far."""


def picture(stage: SimServer, addresses: Mapping[str, Address]) -> Picture:
    """Return what is now; VMs are served at `addresses`."""
    engine = stage.engine
    vms, events, views = engine.read(_facts)
    shown: list[VmPicture] = []
    for vm in vms[:VMS_MAX]:
        view = views.get(vm.view)
        listed = [event for event in events if view is not None and sees(view, event)]
        seen = stage.journal.latest(vm.name)
        shown.append(_vm(vm, view, len(listed), seen, stage=stage, addresses=addresses))
    return Picture(
        now=engine.now,
        paused=stage.is_paused,
        speed=engine.policy.speed,
        vms=tuple(shown),
        more_vms=len(vms) - len(shown),
        events=tuple(_event(event, engine.now) for event in events[:EVENTS_MAX]),
        more_events=max(0, len(events) - EVENTS_MAX),
        faults=tuple(
            f"{', '.join(each.vms) or 'every VM'}: {', '.join(each.steps)}"
            for each in stage.faults.listing()
        ),
        requests=stage.journal.last,
    )


def _facts(reader: Reader) -> tuple[list[Vm], list[Event], dict[str, View]]:
    vms = in_order(reader)
    events = sorted(
        every(reader, kinds.LIVE_EVENTS),
        key=lambda event: event.place,
    )
    names = {vm.view for vm in vms[:VMS_MAX]}
    found = {name: reader.get(View, name) for name in names}
    return vms, events, {name: view for name, view in found.items() if view}


def _vm(
    vm: Vm,
    view: View | None,
    events: int,
    seen: Seen | None,
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
        asked=None if seen is None else stage.engine.now - seen.at,
        status=0 if seen is None else seen.status,
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
