"""Why an operation has not started: each reason as a value and a sentence.

Reasons are values first, so that metrics can count them by `kind` and tests can
compare them; the sentence is for a person at 3 a.m. Pure.
"""

from dataclasses import dataclass
from typing import ClassVar

from forewarn.instants import Micros, describe_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """One reason why an operation has not started, or does not go on."""

    kind: ClassVar[str] = "other"

    def sentence(self) -> str:
        """Return the reason for a person."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class NotApproved(Blocker):
    """A scope's event has no approval, and NotBefore has not come."""

    kind: ClassVar[str] = "approval"
    tenant: str
    scope: str
    listens: bool

    def sentence(self) -> str:
        """Return the reason for a person."""
        if self.listens:
            return f"tenant {self.tenant} has not approved (scope {self.scope})"
        return (
            f"tenant {self.tenant} does not listen (scope {self.scope} has not "
            "asked for events), so its event waits for NotBefore"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NotDue(Blocker):
    """NotBefore has not come, and not everybody has approved."""

    kind: ClassVar[str] = "not before"
    remaining: Micros

    def sentence(self) -> str:
        """Return the reason for a person."""
        return f"NotBefore is in {describe_duration(self.remaining)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchWaits(Blocker):
    """Another deletion of the same request is neither approved nor due (3.6)."""

    kind: ClassVar[str] = "batch"
    tenant: str
    scope: str
    target: str

    def sentence(self) -> str:
        """Return the reason for a person."""
        return (
            f"tenant {self.tenant} has not approved the deletion of vm {self.target} "
            f"(scope {self.scope}), which was ordered together with this one"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultDomainDown(Blocker):
    """Another fault domain of a scope is down, for whatever cause (6.3)."""

    kind: ClassVar[str] = "fault domain"
    scope: str
    fault_domain: int
    because: tuple[str, ...]

    def sentence(self) -> str:
        """Return the reason for a person."""
        return (
            f"scope {self.scope} has fault domain {self.fault_domain} down because "
            + " and ".join(self.because)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationUnderWay(Blocker):
    """A scope has one live migration at a time (6.3)."""

    kind: ClassVar[str] = "migration"
    scope: str
    operation: str

    def sentence(self) -> str:
        """Return the reason for a person."""
        return (
            f"scope {self.scope} has a live migration under way ({self.operation}), "
            "and only one at a time is allowed"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VmBusy(Blocker):
    """The driver works on one of the VMs for another operation."""

    kind: ClassVar[str] = "vm busy"
    vm: str
    operation: str

    def sentence(self) -> str:
        """Return the reason for a person."""
        return f"vm {self.vm} is in the hands of operation {self.operation}"


@dataclass(frozen=True, slots=True, kw_only=True)
class VmDown(Blocker):
    """A VM is down, so what was ordered for it cannot be done."""

    kind: ClassVar[str] = "vm down"
    vm: str

    def sentence(self) -> str:
        """Return the reason for a person."""
        return f"vm {self.vm} is down, and its host with it"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRoom(Blocker):
    """There is no host that a VM may be moved to."""

    kind: ClassVar[str] = "no room"
    vm: str
    why: str

    def sentence(self) -> str:
        """Return the reason for a person."""
        return self.why


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverRetry(Blocker):
    """The driver failed and will be called again."""

    kind: ClassVar[str] = "driver retry"
    remaining: Micros
    note: str

    def sentence(self) -> str:
        """Return the reason for a person."""
        return (
            f"the driver failed ({self.note}) and is called again in "
            f"{describe_duration(self.remaining)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeUnknown(Blocker):
    """Nobody knows whether the driver did it; only an operator can say."""

    kind: ClassVar[str] = "driver unknown"
    operation: str
    note: str

    def sentence(self) -> str:
        """Return the reason for a person."""
        return (
            f"nobody knows whether the driver did it ({self.note}): look at the VMs, "
            f"then say `forewarn resolve {self.operation} done` or `failed`"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StillDown(Blocker):
    """A failure lasts until somebody restores or moves what is down."""

    kind: ClassVar[str] = "still down"
    target_kind: str
    target: str

    def sentence(self) -> str:
        """Return the reason for a person."""
        return (
            f"{self.target_kind} {self.target} is down until "
            f"`forewarn restore {self.target}`"
        )


BLOCKER_KINDS: tuple[str, ...] = tuple(
    kind.kind
    for kind in (
        NotApproved,
        NotDue,
        BatchWaits,
        FaultDomainDown,
        MigrationUnderWay,
        VmBusy,
        VmDown,
        NoRoom,
        DriverRetry,
        OutcomeUnknown,
        StillDown,
    )
)
"""All kinds, so that a counter of each can begin at zero."""
