"""An event: what one scope sees of one operation.

Events are frozen values; they change only through `lifecycle.step_event`.
An event does not know which VM asks for it, nor the api-version.
"""

from __future__ import annotations

import enum

from forewarn.instants import Micros
from forewarn.protocol.actors import Actor
from forewarn.protocol.frozen import frozen_dataclass


class EventType(enum.Enum):
    """What will happen to the named VMs (clause 2.4)."""

    FREEZE = "Freeze"
    """Paused for seconds; memory and open files are kept."""
    REBOOT = "Reboot"
    """Started anew; memory is lost."""
    REDEPLOY = "Redeploy"
    """Moved to another host; ephemeral disks are lost."""
    PREEMPT = "Preempt"
    """A Spot VM is deleted; notice is best effort."""
    TERMINATE = "Terminate"
    """Deleted on a user's order."""


class EventStatus(enum.Enum):
    """Where an event stands (clauses 2.6 and 4.1)."""

    NEW = "New"
    """Not published yet: seen by nobody."""
    SCHEDULED = "Scheduled"
    """Published; waits for approval or NotBefore."""
    STARTED = "Started"
    """The impact has begun, or is about to."""
    REMOVED = "Removed"
    """No longer returned; kept so that late approvals are answered (3.2)."""


LIVE_STATUSES = frozenset({EventStatus.SCHEDULED, EventStatus.STARTED})
"""The statuses that a document shows."""


class EventSource(enum.Enum):
    """Who caused the event (clause 2.8)."""

    PLATFORM = "Platform"
    USER = "User"


class Outcome(enum.Enum):
    """How an event ended; never on Azure's wire, shown by `history`."""

    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"


DURATION_UNKNOWN = -1
"""DurationInSeconds of an interruption of unknown length (clause 2.9)."""


@frozen_dataclass
class Resource:
    """A VM that an event names."""

    vm: str
    """The VM's key, unique in the fleet."""
    name: str
    """The name on the wire, `compute.name` (clause 2.5)."""
    fault_domain: int
    """Its fault domain when the event was made (clause 6.3)."""


@frozen_dataclass
class Event:
    """One scope's view of one operation."""

    event_id: str
    """A GUID in upper case (clause 2.3)."""
    operation: str
    scope: str
    tenant: str
    status: EventStatus
    event_type: EventType
    source: EventSource
    resources: tuple[Resource, ...]
    not_before: Micros
    """Earliest start, on a whole second; not shown once Started (clause 2.7)."""
    description: str
    duration_seconds: int
    """Expected interruption; 0 is none, -1 is unknown (clause 2.9)."""
    created: Micros
    approver: Actor | None = None
    """Who approved: a VM, a token's holder or a policy; None: nobody."""
    approved_at: Micros = 0
    started_at: Micros = 0
    removed_at: Micros = 0
    outcome: Outcome | None = None
    shown_in: tuple[str, ...] = ()
    """A mark of each view whose document has shown it, at the first time (3.2)."""
    is_planned_work: bool = False
    """While it is live, rollouts announce no other fault domain of its scope."""
    revision: int = 0

    @property
    def key(self) -> str:
        """Return what a store finds it by."""
        return self.event_id

    @property
    def place(self) -> tuple[Micros, str, str]:
        """Return its place in a document (clause 2.1): the oldest first.

        What was made at the same instant is in the order of the requests, since the
        ids of their operations are.
        """
        return self.created, self.operation, self.event_id

    @property
    def is_approved(self) -> bool:
        """Tell whether anybody approved it (OR inside one event, clause 3.4)."""
        return self.approver is not None

    @property
    def approved_by(self) -> str:
        """Return who approved, for people; empty: nobody."""
        return "" if self.approver is None else self.approver.as_approver

    @property
    def awaits_approval(self) -> bool:
        """Tell whether an approval would still change anything (clause 3.2)."""
        return self.status is EventStatus.SCHEDULED and not self.is_approved

    @property
    def is_live(self) -> bool:
        """Tell whether documents show it."""
        # As `in LIVE_STATUSES`, which takes three times as long; asked at every write.
        status = self.status
        return status is EventStatus.SCHEDULED or status is EventStatus.STARTED

    @property
    def excluding_domains(self) -> frozenset[int]:
        """Return the fault domains for which rollouts keep the scope's others free."""
        if not (self.is_planned_work and self.is_live):
            return frozenset()
        return frozenset(resource.fault_domain for resource in self.resources)

    def names(self, vm: str) -> bool:
        """Tell whether the VM with key `vm` is among the resources."""
        return any(resource.vm == vm for resource in self.resources)
