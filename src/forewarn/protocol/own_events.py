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


class Wait(enum.Enum):
    """One kind of thing that an event waits for; programs read `reason`."""

    OWN_APPROVAL = "OwnApproval"
    """Nobody who sees the event has approved it."""
    OTHER_VM = "OtherVm"
    """Another event of the same document, which goes with it, is not approved."""
    OTHER_SCOPE = "OtherScope"
    """The same, of another scope of the same tenant."""
    OTHER_TENANT = "OtherTenant"
    NOT_BEFORE = "NotBefore"
    OWN_GUARD = "OwnGuard"
    """Another fault domain of the VM's own scope is down, or it has another migration."""
    GUARD = "Guard"
    """The same, of others that are concerned."""
    ROOM = "Room"
    DRIVER_BUSY = "DriverBusy"
    """The driver is still at something before it."""
    DRIVER_AT_WORK = "Driver"
    OPERATOR = "Operator"
    RECOVERY = "Recovery"

    @property
    def reason(self) -> str:
        """Return what programs read; people read the sentence."""
        return _TOLD_AS.get(self, self).value


_TOLD_AS = {Wait.OWN_GUARD: Wait.GUARD, Wait.DRIVER_BUSY: Wait.DRIVER_AT_WORK}
"""Kinds that only their sentences tell apart."""


@frozen_dataclass
class Waiting:
    """One thing that an event waits for."""

    what: Wait
    at: Micros = 0
    """When it is over by itself; 0: that is not known."""
    vms: tuple[str, ...] = ()
    """Wire names of the VMs of another event in the document."""


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
