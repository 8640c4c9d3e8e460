"""What a VM may read of its own events beyond Azure's document: an extension.

For each event of its document, what it still waits for; for what ended lately, how
it ended and how long the VM was down. Nothing here names a host, another tenant or
an operation; another VM is named only if the document names it. Values; pure.
"""

from __future__ import annotations

import enum

from forewarn.instants import Micros
from forewarn.protocol.events import EventStatus, EventType, Outcome
from forewarn.protocol.frozen import frozen_dataclass

VERSIONS = ("2026-11-01",)
"""Its api-versions, which are not Azure's."""


class WaitsFor(enum.Enum):
    """What an event waits for; programs read this, people the sentence."""

    OWN_APPROVAL = "OwnApproval"
    """Nobody who sees the event has approved it."""
    OTHER_VM = "OtherVm"
    """Another event of the same document, which goes with it, is not approved."""
    OTHER_SCOPE = "OtherScope"
    """The same, of another scope of the same tenant."""
    OTHER_TENANT = "OtherTenant"
    NOT_BEFORE = "NotBefore"
    GUARD = "Guard"
    """Another fault domain is down, or another migration is under way."""
    ROOM = "Room"
    DRIVER = "Driver"
    OPERATOR = "Operator"
    RECOVERY = "Recovery"


class Wait(enum.Enum):
    """One kind of thing that an event waits for, as a VM may know it."""

    OWN_APPROVAL = enum.auto()
    OTHER_VM = enum.auto()
    OTHER_SCOPE = enum.auto()
    OTHER_TENANT = enum.auto()
    NOT_BEFORE = enum.auto()
    OWN_GUARD = enum.auto()
    """The guard, for the VM's own scope."""
    GUARD = enum.auto()
    """The guard, for others that are concerned."""
    ROOM = enum.auto()
    DRIVER_BUSY = enum.auto()
    """The driver is still at something before it."""
    DRIVER_AT_WORK = enum.auto()
    OPERATOR = enum.auto()
    RECOVERY = enum.auto()

    @property
    def waits_for(self) -> WaitsFor:
        """Return what programs read."""
        return _WAITS_FOR.get(self) or WaitsFor[self.name]


_WAITS_FOR = {
    Wait.OWN_GUARD: WaitsFor.GUARD,
    Wait.DRIVER_BUSY: WaitsFor.DRIVER,
    Wait.DRIVER_AT_WORK: WaitsFor.DRIVER,
}


@frozen_dataclass
class Waiting:
    """One thing that an event waits for."""

    what: Wait
    at: Micros = 0
    """When it is over by itself; 0: that is not known."""
    vms: tuple[str, ...] = ()
    """Wire names of the VMs of another event in the document."""

    @property
    def waits_for(self) -> WaitsFor:
        """Return what programs read."""
        return self.what.waits_for


@frozen_dataclass
class OwnEvent:
    """A live event of the VM's document."""

    event_id: str
    event_type: EventType
    status: EventStatus
    is_affected: bool
    """The VM that asks is among its resources."""
    is_approved: bool
    """By whomever it may be; nobody approves a failure."""
    waiting: tuple[Waiting, ...]


@frozen_dataclass
class EndedEvent:
    """An event that named the VM and is over."""

    event_id: str
    event_type: EventType
    outcome: Outcome
    ended_at: Micros
    down: Micros
    """How long the VM that asks did not run because of it; whole seconds."""
    is_exact: bool
    """False: it was no longer than that."""


@frozen_dataclass
class OwnEvents:
    """The whole answer."""

    live: tuple[OwnEvent, ...]
    ended: tuple[EndedEvent, ...]
    """The latest first."""
