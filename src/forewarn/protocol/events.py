"""Events: the part of an operation that one scope sees.

Events are frozen values and change only through `lifecycle.step_event`. They do not
depend on the VM that reads them or on the api-version.
"""

from __future__ import annotations

from forewarn.instants import Micros
from forewarn.protocol.actors import NO_NOTICE, Actor
from forewarn.protocol.enumerations import Enumeration
from forewarn.protocol.frozen import frozen_dataclass, same_as


class EventType(Enumeration):
    """Type of the impact on the named VMs (clause 2.4)."""

    FREEZE = "Freeze"
    """The VM pauses for seconds; memory and open files are kept."""
    REBOOT = "Reboot"
    """The VM restarts; memory is lost."""
    REDEPLOY = "Redeploy"
    """The VM moves to another host; ephemeral disks are lost."""
    PREEMPT = "Preempt"
    """A Spot VM is deleted; the notice is best effort."""
    TERMINATE = "Terminate"
    """The VM is deleted at the request of a user."""


class EventStatus(Enumeration):
    """Status of an event (clauses 2.6 and 4.1)."""

    NEW = "New"
    """Not published yet."""
    SCHEDULED = "Scheduled"
    """Published; waits for approval or NotBefore."""
    STARTED = "Started"
    """The impact has started or is about to start."""
    REMOVED = "Removed"
    """No longer in documents; stored so that late approvals are answered (3.2)."""


LIVE_STATUSES = frozenset({EventStatus.SCHEDULED, EventStatus.STARTED})
"""Statuses that a document shows."""


class EventSource(Enumeration):
    """Cause of the event (clause 2.8)."""

    PLATFORM = "Platform"
    USER = "User"


class Outcome(Enumeration):
    """Outcome of an event. It is not in Azure's documents; `history` shows it."""

    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"


DURATION_UNKNOWN = -1
"""DurationInSeconds of an interruption of unknown length (clause 2.9)."""


@frozen_dataclass
class Resource:
    """A VM that an event names."""

    vm: str
    """Key of the VM, unique in the fleet."""
    name: str
    """Name on the wire, `compute.name` (clause 2.5)."""
    fault_domain: int
    """Fault domain when the event was created (clause 6.3)."""


@frozen_dataclass
class Event:
    """The part of an operation that one scope sees."""

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
    """The VM, token holder or policy that approved; None: not approved."""
    approved_at: Micros = 0
    started_at: Micros = 0
    removed_at: Micros = 0
    outcome: Outcome | None = None
    shown_in: tuple[str, ...] = ()
    """Marks of the views whose documents have shown it, from the first time (3.2)."""
    is_planned_work: bool = False
    """Whether rollouts announce no other fault domain of the scope while the event is
    live."""
    revision: int = 0

    key = same_as("event_id")
    """The key in a store."""

    @property
    def place(self) -> tuple[Micros, str, str]:
        """Return the sort key in a document: oldest first (clause 2.1).

        Events of the same time are in the order of their requests, because the IDs of
        operations sort in that order.
        """
        return self.created, self.operation, self.event_id

    @property
    def is_approved(self) -> bool:
        """Return whether the event is approved (OR inside one event, clause 3.4)."""
        return self.approver is not None

    @property
    def approved_by(self) -> str:
        """Return the approver as text; empty: not approved."""
        return "" if self.approver is None else self.approver.as_approver

    @property
    def needs_approval(self) -> bool:
        """Return whether an approval can mean anything: a failure needs none."""
        return self.approver != NO_NOTICE

    @property
    def awaits_approval(self) -> bool:
        """Return whether an approval would change anything (clause 3.2)."""
        return self.status is EventStatus.SCHEDULED and not self.is_approved

    @property
    def is_live(self) -> bool:
        """Return whether documents show the event."""
        # Same as `in LIVE_STATUSES`, which takes three times as long; used at every write.
        status = self.status
        return status is EventStatus.SCHEDULED or status is EventStatus.STARTED

    @property
    def excluding_domains(self) -> frozenset[int]:
        """Return fault domains: rollouts announce no other one while this event is
        live."""
        if not (self.is_planned_work and self.is_live):
            return frozenset()
        return frozenset([resource.fault_domain for resource in self.resources])

    def names(self, vm: str) -> bool:
        """Return whether the VM with key `vm` is among the resources."""
        return any(resource.vm == vm for resource in self.resources)
