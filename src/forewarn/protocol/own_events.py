"""Event details for VMs, an extension of Azure's protocol: values.

The details say what each event of the document waits for. For recently ended events,
they have the outcome and how long the VM was down. They name no host, no other tenant
and no operation. They name another VM only if the document does. Pure.
"""

from __future__ import annotations

from forewarn.instants import Micros
from forewarn.protocol.enumerations import Enumeration
from forewarn.protocol.events import EventStatus, EventType, Outcome
from forewarn.protocol.frozen import frozen_dataclass

VERSIONS = ("2026-11-01",)
"""Api-versions of the extension. They are not Azure's."""


class Wait(Enumeration):
    """Kinds of waits of an event. Programs read `reason`."""

    OWN_APPROVAL = "OwnApproval"
    """No VM that sees the event has approved it."""
    OTHER_VM = "OtherVm"
    """Another event of the same document, which starts with it, is not approved."""
    OTHER_SCOPE = "OtherScope"
    """An event of another scope of the same tenant is not approved."""
    OTHER_TENANT = "OtherTenant"
    NOT_BEFORE = "NotBefore"
    WINDOW = "Window"
    """A maintenance window is closed."""
    OWN_GUARD = "OwnGuard"
    """Another fault domain of the VM's scope is down, or the scope has a migration."""
    GUARD = "Guard"
    """In another affected scope, another fault domain is down, or there is a migration."""
    ROOM = "Room"
    DRIVER_BUSY = "DriverBusy"
    """The driver must finish other work first."""
    DRIVER_AT_WORK = "Driver"
    OPERATOR = "Operator"
    RECOVERY = "Recovery"

    @property
    def reason(self) -> str:
        """Return the value for programs."""
        return _TOLD_AS.get(self, self).value


_TOLD_AS = {Wait.OWN_GUARD: Wait.GUARD, Wait.DRIVER_BUSY: Wait.DRIVER_AT_WORK}
"""The members that programs see as another member. The two differ only in their text for
people."""


@frozen_dataclass
class Waiting:
    """A wait of an event."""

    what: Wait
    at: Micros = 0
    """Time when the wait ends automatically; 0: unknown."""
    vms: tuple[str, ...] = ()
    """Wire names of the VMs of another event in the document."""


@frozen_dataclass
class OwnEvent:
    """A live event of the VM's document."""

    event_id: str
    event_type: EventType
    status: EventStatus
    is_affected: bool
    """Whether the calling VM is among the event's resources."""
    is_approved: bool
    """Whether the event is approved. A failure needs no approval."""
    waiting: tuple[Waiting, ...]


@frozen_dataclass
class EndedEvent:
    """An ended event that named the VM."""

    event_id: str
    event_type: EventType
    outcome: Outcome
    ended_at: Micros
    down: Micros
    """Downtime of the calling VM because of it, cut to whole seconds."""
    is_exact: bool
    """False: `down` is an upper bound."""


@frozen_dataclass
class OwnEvents:
    """The event details of one VM."""

    live: tuple[OwnEvent, ...]
    ended: tuple[EndedEvent, ...]
    """Latest first."""
