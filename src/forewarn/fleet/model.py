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
class _Named:
    """What an author names in a fleet file."""

    name: str
    applied: str = ""
    """The file's last wish for it, as compact JSON; empty: not from a file."""
    revision: int = 0

    @property
    def key(self) -> str:
        """Return what a store finds it by."""
        return self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant(_Named):
    """An owner of scopes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope(_Named):
    """A group whose members see the same events."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Host(_Named):
    """A hypervisor node."""

    zone: str = ""
    capacity: int | None = None
    """How many VMs it has room for; None: no limit."""
    state: HostState = HostState.UP


@dataclass(frozen=True, slots=True, kw_only=True)
class Vm(_Named):
    """A virtual machine."""

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

    @property
    def is_unsteady(self) -> bool:
        """Tell whether it is down, or an operation has started on it."""
        return self.state is VmState.DOWN or (
            self.state is VmState.RUNNING and self.started != ()
        )


UNLIMITED_PLACES = 1_000_000_000
"""Places of a host without a capacity: more than any host has VMs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """The places of one host."""

    host: str
    zone: str
    places: int
    """How many VMs it may have; UNLIMITED_PLACES: no limit."""
    used: int = 0
    """VMs on it, and places kept for VMs on their way to it."""
    is_up: bool = True
    works: int = 0
    """Open operations that are announced or under way for the host itself."""
    done_in: str = ""
    """The request that the host was last maintained for, to the end."""
    revision: int = 0

    @property
    def key(self) -> str:
        """Return what a store finds it by."""
        return self.host

    @property
    def free(self) -> int:
        """Return how many more VMs it may have."""
        return self.places - self.used

    @property
    def is_open(self) -> bool:
        """Tell whether a VM could be put there now."""
        return self.is_up and not self.works and self.free > 0

    @property
    def has_space(self) -> bool:
        """Tell whether a VM could be put there when nobody works on the host."""
        return self.is_up and self.free > 0


def capacity_of(
    host: Host, *, used: int = 0, works: int = 0, done_in: str = ""
) -> Capacity:
    """Return the room of a host."""
    return Capacity(
        host=host.name,
        zone=host.zone,
        places=UNLIMITED_PLACES if host.capacity is None else host.capacity,
        used=used,
        is_up=host.state is HostState.UP,
        works=works,
        done_in=done_in,
    )


def taken_by(vm: Vm | None) -> frozenset[str]:
    """Return the hosts on which a VM takes a place."""
    if vm is None or vm.state is VmState.DELETED:
        return frozenset()
    return frozenset({vm.host, vm.moving_to} - {""})


class SpanKind(enum.Enum):
    """What held of the VM; all but the first are interruptions."""

    EXISTENCE = "existence"
    """It was in the fleet, in one scope of one tenant."""
    FREEZE = "freeze"
    LIVE_MIGRATE = "live-migrate"
    REBOOT = "reboot"
    REDEPLOY = "redeploy"
    REIMAGE = "reimage"
    FAILURE = "failure"
    """Nobody planned it: from its report until the VM runs again."""


PLANNED_KINDS: tuple[SpanKind, ...] = (
    SpanKind.FREEZE,
    SpanKind.LIVE_MIGRATE,
    SpanKind.REBOOT,
    SpanKind.REDEPLOY,
    SpanKind.REIMAGE,
)
"""Interruptions that an operation made; the words are those of its action."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One time of one VM."""

    span_id: str
    """`web_0/` and a part that sorts by time: all of a VM stand together."""
    vm: str
    scope: str
    tenant: str
    fault_domain: int
    """The VM's, when it began."""
    kind: SpanKind
    operation: str = ""
    """What caused the interruption; empty for an existence."""
    began: Micros
    ended: Micros = 0
    """0: it goes on."""
    is_exact: bool = True
    """False, of an existence: the VM was there before, and nothing is known of
    that time. Of an interruption: it was no longer than this."""
    revision: int = 0

    @property
    def key(self) -> str:
        """Return what a store finds it by."""
        return self.span_id

    @property
    def is_open(self) -> bool:
        """Tell whether it goes on."""
        return not self.ended

    @property
    def is_outage(self) -> bool:
        """Tell whether the VM did not run."""
        return self.kind is not SpanKind.EXISTENCE
