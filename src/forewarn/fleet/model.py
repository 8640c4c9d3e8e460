"""What a fleet consists of, as frozen values.

The words are those of `docs/reference/protocol.md`: a scope is the group whose members
all see an event; a tenant owns scopes; a host runs VMs; a fault domain is a
number that a scope gives to each of its VMs. These values know nothing of
operations, except where a failure or a deletion has left a VM.
"""

import enum
from dataclasses import dataclass

from forewarn.instants import Micros


class ScopeKind(enum.Enum):
    """The four kinds of group of clause 6.1."""

    STANDALONE = "standalone"
    CLOUD_SERVICE = "cloud-service"
    AVAILABILITY_SET = "availability-set"
    SCALE_SET = "scale-set"


class VmState(enum.Enum):
    """Whether a VM runs."""

    RUNNING = "running"
    DOWN = "down"
    """It, or its host, has failed and was not restored yet."""
    DELETED = "deleted"
    """Evicted or terminated. Kept, unserved, until the fleet file drops it, so
    that a file which still names it does not bring it back."""


class HostState(enum.Enum):
    """Whether a host runs."""

    UP = "up"
    DOWN = "down"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedFile:
    """Which fleet file was applied last."""

    name: str
    digest: str
    """Of its text, and of the version that read it."""
    revision: int = 0

    @property
    def key(self) -> str:
        """Return what a store finds it by."""
        return self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """An owner of scopes."""

    name: str
    applied: str = ""
    """The file's last wish for it, as compact JSON; empty: not from a file."""
    revision: int = 0

    @property
    def key(self) -> str:
        """Return what a store finds it by."""
        return self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """A group whose members see the same events."""

    name: str
    tenant: str
    kind: ScopeKind
    approve_user_reboot: bool = False
    approve_user_redeploy: bool = False
    terminate_notice: Micros | None = None
    """None: deletions of its VMs are no events (clause 5.7)."""
    os_image_notice: Micros | None = None
    """None: OS upgrades and reimages are no events (clause 5.8)."""
    scale_set: str = ""
    """The scale set's name, where the scope is one of its placement groups."""
    gpu: bool = False
    """GPU sizes: with one fault domain each VM sees its own events only (6.2)."""
    implied: bool = False
    """Made for a VM without a scope, and gone with it."""
    applied: str = ""
    revision: int = 0

    @property
    def key(self) -> str:
        """Return what a store finds it by."""
        return self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A hypervisor node."""

    name: str
    zone: str = ""
    capacity: int | None = None
    """How many VMs it has room for; None: no limit."""
    state: HostState = HostState.UP
    applied: str = ""
    revision: int = 0

    @property
    def key(self) -> str:
        """Return what a store finds it by."""
        return self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Vm:
    """A virtual machine."""

    name: str
    """Its key: unique in the fleet, typed in commands."""
    wire_name: str
    """`compute.name`: what `Resources` calls it; unique in its scope."""
    host: str
    scope: str
    tenant: str
    view: str
    """Whose list of events it is served; `views.view_id` computes it."""
    fault_domain: int = 0
    update_domain: int = 0
    size: str = ""
    memory_preserving: bool = True
    spot: bool = False
    vm_id: str
    """A GUID in lower case, `compute.vmId`, and the id a metadata proxy signs."""
    tags: tuple[tuple[str, str], ...] = ()
    resource_group: str = ""
    subscription: str = ""
    location: str = ""
    addresses: tuple[str, ...] = ()
    """How it is known on the shared listener."""
    listen: str = ""
    """HOST:PORT of a listener for it alone; empty: none."""
    state: VmState = VmState.RUNNING
    moving_to: str = ""
    """The host that keeps a place for it while it is being moved."""
    started: tuple[str, ...] = ()
    """Ids of the operations that have started on it and have not ended."""
    left_views: tuple[str, ...] = ()
    """A mark of each view that it was served before, at the last time, oldest first.
    What it was shown there stays approvable (3.2)."""
    applied: str = ""
    revision: int = 0

    @property
    def is_unsteady(self) -> bool:
        """Tell whether it is down, or an operation has started on it."""
        return self.state is VmState.DOWN or (
            self.state is VmState.RUNNING and self.started != ()
        )

    @property
    def key(self) -> str:
        """Return what a store finds it by."""
        return self.name
