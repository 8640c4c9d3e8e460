"""The objects of a fleet, as frozen values.

The terms are those of `docs/reference/protocol.md`: a scope is a group whose members
see the same events; a tenant owns scopes; a host runs VMs; a fault domain is a number
that a scope gives to each of its VMs. Except for the IDs in `Vm.started`, these values
do not know operations.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from forewarn.fleet.windows import Window
from forewarn.instants import Micros
from forewarn.protocol.actors import Actor
from forewarn.protocol.enumerations import Enumeration
from forewarn.protocol.frozen import frozen_dataclass, same_as


class ScopeKind(Enumeration):
    """The four kinds of scope (clause 6.1)."""

    STANDALONE = "standalone"
    CLOUD_SERVICE = "cloud-service"
    AVAILABILITY_SET = "availability-set"
    SCALE_SET = "scale-set"


class VmState(Enumeration):
    """Whether a VM runs."""

    RUNNING = "running"
    DOWN = "down"
    """The VM or its host failed and is not restored yet."""
    DELETED = "deleted"
    """Evicted or terminated. The record stays until the fleet file no longer has the VM,
    so that the file does not create it again."""


class HostState(Enumeration):
    """Whether a host runs."""

    UP = "up"
    DOWN = "down"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedFile:
    """The fleet file that was applied last."""

    name: str
    digest: str
    """Digest of its text and of the version that read it."""
    revision: int = 0

    key = same_as("name")
    """The key in a store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named:
    """An object that a fleet file names."""

    name: str
    applied: str = ""
    """Values of the object in the file that was applied last, as compact JSON; empty:
    not from a file."""
    found: str = ""
    """The same for the inventory that was applied last; empty: not from an inventory."""
    revision: int = 0

    key = same_as("name")
    """The key in a store."""


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
    """None: deletions of its VMs create no events (clause 5.7)."""
    os_image_notice: Micros | None = None
    """None: OS upgrades and reimages create no events (clause 5.8)."""
    scale_set: str = ""
    """Name of the scale set, if the scope is one of its placement groups."""
    gpu: bool = False
    """GPU sizes: if all VMs are in one fault domain, each sees only its own events (6.2)."""
    maintenance_window: tuple[Window, ...] = ()
    """Times in which maintenance of its VMs can start; empty: at any time."""
    implied: bool = False
    """Whether it was created for a VM without a scope. It is removed with the VM."""


@frozen_dataclass
class Cordon:
    """A demand of one owner that a host takes no new VM."""

    by: Actor
    """The owner: who cordoned the host. Only its name and kind identify it."""
    reason: str
    at: Micros
    """Time of the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host(_Named):
    """A hypervisor node."""

    zone: str = ""
    cluster: str = ""
    """Group of hosts that are operated together; empty: none."""
    rack: str = ""
    """Rack of the host: VMs of a scope are kept on different racks; empty: unknown."""
    pool: str = ""
    """Hosts that can exchange VMs. Hosts without a pool are one pool."""
    capacity: int | None = None
    """Maximum number of VMs; None: no limit."""
    vcpu: int | None = None
    """Number of virtual CPUs that its VMs can have together; None: no limit."""
    memory: int | None = None
    """MiB of memory that its VMs can have together; None: no limit."""
    labels: tuple[tuple[str, str], ...] = ()
    """Names with values, sorted, by which operators select hosts."""
    last: bool = False
    """Whether the host comes last in each list of hosts that are maintained together."""
    state: HostState = HostState.UP
    cordons: tuple[Cordon, ...] = ()
    """Its cordons, oldest first, at most one of each owner; empty: it is open."""
    drift_of: str = ""
    """ID of the open campaign whose selection it matches and that does not have it,
    because it was added to the fleet later; empty: none."""

    def cordon_of(self, owner: Actor) -> Cordon | None:
        """Return the cordon of an owner; None: it has none."""
        return next(
            (cordon for cordon in self.cordons if cordon.by.is_same_as(owner)), None
        )


PLACES = ("zone", "cluster", "rack", "pool")
"""Attributes of a host that say where it stands."""

LABEL = "label"
"""Kind of the places that are labels."""


def place(kind: str, name: str) -> str:
    """Return a place by which hosts are found: `rack=r7`, or `label=model=r7525`."""
    return f"{kind}={name}"


def is_at(location: str, label: str) -> bool:
    """Return whether a place is of this kind, or is a label with this name."""
    return location.startswith((f"{label}=", f"{LABEL}={label}="))


def places_of(host: Host) -> tuple[str, ...]:
    """Return all places of a host."""
    named = ((kind, getattr(host, kind)) for kind in PLACES)
    return (
        *(place(kind, name) for kind, name in named if name),
        *(place(LABEL, f"{key}={value}") for key, value in host.labels),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Vm(_Named):
    """A virtual machine."""

    wire_name: str
    """`compute.name`, the name in `Resources`; unique in its scope."""
    host: str
    scope: str
    tenant: str
    view: str
    """ID of the VM's view, which `views.view_id` computes."""
    fault_domain: int = 0
    update_domain: int = 0
    size: str = ""
    vcpu: int | None = None
    """Number of its virtual CPUs; None: they are not counted."""
    memory: int | None = None
    """MiB of its memory; None: it is not counted."""
    movable: bool = True
    """Whether it can be moved to another host. A VM with a passed-through device cannot."""
    memory_preserving: bool = True
    spot: bool = False
    vm_id: str
    """A GUID in lower case: `compute.vmId`, and the ID that a metadata proxy signs."""
    tags: tuple[tuple[str, str], ...] = ()
    resource_group: str = ""
    subscription: str = ""
    location: str = ""
    addresses: tuple[str, ...] = ()
    """Addresses that identify it on the shared listener."""
    listen: str = ""
    """HOST:PORT of a listener for this VM only; empty: none."""
    state: VmState = VmState.RUNNING
    moving_to: str = ""
    """Destination host that reserves capacity for it during a move; empty: none."""
    is_observed: bool = False
    """Whether the driver observed it on its host, where forewarn did not place it."""
    is_off: bool = False
    """Whether the driver saw that its user shut it down. It runs for all decisions: it has
    not failed, and is in its scope and on its host."""
    is_missing: bool = False
    """Whether the last inventory lacked it. The next one that lacks it too removes it."""
    down_for: str = ""
    """ID of the campaign that had worked on the VM or its host before the VM went down;
    empty: none, or the VM runs."""
    started: tuple[str, ...] = ()
    """IDs of operations that have started on the VM and have not ended."""
    left_views: tuple[str, ...] = ()
    """Marks of its earlier views, from the time when it left them, oldest first. Events
    that it saw there can still be approved (3.2)."""

    @property
    def is_unsteady(self) -> bool:
        """Return whether the VM is down or an operation has started on it."""
        return self.state is VmState.DOWN or (
            self.state is VmState.RUNNING and self.started != ()
        )


UNLIMITED_PLACES = 1_000_000_000
"""Capacity of a host without a limit: more than any host has VMs."""

UNLIMITED = 2_000_000_000
"""vCPUs, or MiB of memory, of a host without a limit: more than a fleet file allows."""


def tags_of(vm: Vm) -> tuple[str, ...]:
    """Return the tags of a VM, as `key=value`."""
    return tuple(f"{key}={value}" for key, value in vm.tags)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """Used and free capacity of one host.

    It is stored next to the host, so that hosts with free capacity can be found. Within
    the transaction that changes it, it can be outdated. It therefore only selects the
    hosts to check; the VMs on a host are read before a VM is placed there.
    """

    host: str
    zone: str
    places: int
    """Maximum number of VMs; UNLIMITED_PLACES: no limit."""
    used: int = 0
    """Number of VMs on it, plus capacity reserved for VMs that are moving to it."""
    pool: str = ""
    vcpu: int = UNLIMITED
    vcpu_used: int = 0
    memory: int = UNLIMITED
    """MiB of memory."""
    memory_used: int = 0
    is_up: bool = True
    works: int = 0
    """Number of operations and visits that are announced or running for the host."""
    done_in: str = ""
    """The request for which the host was last maintained completely."""
    is_cordoned: bool = False
    stands_at: tuple[str, ...] = ()
    """The places of the host, as in `places_of`."""
    revision: int = 0

    key = same_as("host")
    """The key in a store."""

    @property
    def is_away(self) -> bool:
        """Return whether the host is announced, in work, cordoned or down."""
        return self.works > 0 or self.is_cordoned or not self.is_up

    @property
    def free(self) -> int:
        """Return the number of VMs that the host can still take."""
        return self.places - self.used

    @property
    def is_open(self) -> bool:
        """Return whether a VM can be placed there now."""
        return self.has_space and not self.works

    @property
    def has_space(self) -> bool:
        """Return whether a VM can be placed there while no operation occupies the host."""
        return self.is_up and not self.is_cordoned and self.free > 0


NO_USE = (0, 0, 0)
"""Nothing used: places, vCPUs and MiB of memory."""


def use_of(vm: Vm) -> tuple[int, int, int]:
    """Return the places, vCPUs and MiB of memory that a VM uses on a host."""
    return 1, vm.vcpu or 0, vm.memory or 0


def total_use(vms: Iterable[Vm]) -> tuple[int, int, int]:
    """Return the sums of `use_of` some VMs."""
    places, vcpu, memory = map(sum, zip(*map(use_of, vms), NO_USE, strict=True))
    return places, vcpu, memory


def capacity_of(
    host: Host,
    *,
    use: tuple[int, int, int] = NO_USE,
    works: int = 0,
    done_in: str = "",
) -> Capacity:
    """Return the capacity record of a host; `use` is the sum of `use_of` its VMs."""
    used, vcpu_used, memory_used = use
    return Capacity(
        host=host.name,
        zone=host.zone,
        places=UNLIMITED_PLACES if host.capacity is None else host.capacity,
        used=used,
        pool=host.pool,
        vcpu=UNLIMITED if host.vcpu is None else host.vcpu,
        vcpu_used=vcpu_used,
        memory=UNLIMITED if host.memory is None else host.memory,
        memory_used=memory_used,
        is_up=host.state is HostState.UP,
        works=works,
        done_in=done_in,
        is_cordoned=bool(host.cordons),
        stands_at=places_of(host),
    )


def taken_by(vm: Vm | None) -> frozenset[str]:
    """Return the hosts on which a VM uses capacity."""
    if vm is None or vm.state is VmState.DELETED:
        return frozenset()
    return frozenset({vm.host, vm.moving_to} - {""})


class SpanKind(Enumeration):
    """Kind of an interval; all but the first are interruptions."""

    EXISTENCE = "existence"
    """The VM was in the fleet, in one scope of one tenant."""
    FREEZE = "freeze"
    LIVE_MIGRATE = "live-migrate"
    REBOOT = "reboot"
    REDEPLOY = "redeploy"
    REIMAGE = "reimage"
    FAILURE = "failure"
    """Unplanned: from the report of the failure until the VM runs again."""


PLANNED_KINDS: tuple[SpanKind, ...] = (
    SpanKind.FREEZE,
    SpanKind.LIVE_MIGRATE,
    SpanKind.REBOOT,
    SpanKind.REDEPLOY,
    SpanKind.REIMAGE,
)
"""Interruptions by operations; each has the name of its action."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """An interval in the life of a VM.

    It is stored in the transaction that starts it. `availability` adds intervals up.
    """

    span_id: str
    """`web_0/` and a part that sorts by time, so that the spans of a VM are adjacent."""
    vm: str
    scope: str
    tenant: str
    fault_domain: int
    """Fault domain of the VM when the interval began."""
    kind: SpanKind
    operation: str = ""
    """The operation that caused the interruption; empty for an existence."""
    began: Micros
    ended: Micros = 0
    """0: it has not ended."""
    is_exact: bool = True
    """False for an existence: the VM existed before, and that time is unknown. False for
    an interruption: the length is an upper bound."""
    revision: int = 0

    key = same_as("span_id")
    """The key in a store."""

    @property
    def is_open(self) -> bool:
        """Return whether the span has not ended."""
        return not self.ended

    @property
    def is_outage(self) -> bool:
        """Return whether the VM did not run."""
        return self.kind is not SpanKind.EXISTENCE
