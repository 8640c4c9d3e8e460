"""The values of a campaign, as its file describes them."""

from dataclasses import dataclass, field

from forewarn.fleet.blackouts import Blackout
from forewarn.fleet.model import PLACES, Host
from forewarn.fleet.windows import Window
from forewarn.instants import HOUR, MINUTE, Micros
from forewarn.protocol.enumerations import Enumeration
from forewarn.settings.amounts import Amount


class Impact(Enumeration):
    """The effect of the work on the VMs of a host."""

    FREEZE = "freeze"
    REBOOT = "reboot"
    LIVE_MIGRATE = "live-migrate"
    REDEPLOY = "redeploy"
    NONE = "none"
    """The VMs notice nothing, and get no event."""

    @property
    def empties_host(self) -> bool:
        """Return whether the VMs leave the host before the work."""
        return self is Impact.LIVE_MIGRATE or self is Impact.REDEPLOY


class Order(Enumeration):
    """The order of the hosts of a campaign."""

    AUTO = "auto"
    """Zone by zone, with hosts that can be in work together next to each other."""
    RACK = "rack"
    """Zone, cluster, rack, name."""
    LEAST_IMPACT = "least-impact"
    """The hosts with the fewest VMs first."""
    LISTED = "listed"
    """As `select.host` lists them."""


class Phase(Enumeration):
    """A step of the work on a host, in the order of execution."""

    NEEDED = "needed"
    ENTER = "enter"
    WORK = "work"
    ANSWERS = "answers"
    VERIFY = "verify"
    EXIT = "exit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The hosts of a campaign; a host must match every criterion that is set."""

    host: tuple[str, ...] = ()
    zone: tuple[str, ...] = ()
    cluster: tuple[str, ...] = ()
    rack: tuple[str, ...] = ()
    pool: tuple[str, ...] = ()
    labels: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """The allowed values of each label."""
    all: bool = False
    """Whether all hosts are selected if no other criterion is set."""
    exclude: tuple[str, ...] = ()
    """Names of hosts that are never selected."""

    @property
    def criteria(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return each criterion except names: the label, and its allowed values."""
        places = ((kind, getattr(self, kind)) for kind in PLACES)
        return (*(place for place in places if place[1]), *self.labels)

    def matches(self, host: Host) -> bool:
        """Return whether a host of the fleet is selected."""
        if host.name in self.exclude or (self.host and host.name not in self.host):
            return False
        labels = dict(host.labels)
        return all(
            (getattr(host, label) if label in PLACES else labels.get(label, ""))
            in values
            for label, values in self.criteria
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A program of the service's settings, with its arguments."""

    phase: Phase
    name: str
    arguments: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupBudget:
    """Maximum hosts in flight of each group of hosts with the same label."""

    label: str
    most: Amount


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The limits of simultaneous work."""

    in_flight: Amount = field(default_factory=lambda: Amount(value=1))
    """Hosts between their notice and the end of their work."""
    unavailable: Amount | None = None
    """Hosts that are away for any cause, of all hosts; None: no limit."""
    tenant_vms: Amount | None = None
    """VMs of one tenant under notice or in work; None: no limit."""
    overlap_notice: int = 0
    """Additional fault domains of a scope under notice while one is in work."""
    by: tuple[GroupBudget, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The first hosts of the order, and what happens after them."""

    hosts: Amount
    """Hosts up to the end of the stage, counted from the first host of the campaign."""
    soak: Micros = 0
    """Time between the stage's last host and the next stage."""
    approval: bool = False
    """Whether an operator must approve the next stage."""


DEFAULT_STAGES = (
    Stage(hosts=Amount(value=1), soak=HOUR),
    Stage(hosts=Amount(value=1, is_percent=True), soak=HOUR),
    Stage(hosts=Amount(value=10, is_percent=True)),
)
"""The stages of a file without stages; all other hosts follow them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """The number of failures that a campaign tolerates before it halts."""

    failures: int = 2
    of_last: int = 50
    """The number of finished hosts that `failures` refers to."""
    in_a_row: int = 1
    vms_down: int | None = None
    """VMs that ran before and do not run now; None: as many as the largest host has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A check of the service's settings; no host begins unless it passes."""

    use: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """The expected duration of the work on one host, without its notice."""

    typical: Micros = 30 * MINUTE
    """Half of the hosts take at most this time."""
    slow: Micros = 45 * MINUTE
    """Nine of ten hosts take at most this time."""
    is_given: bool = False
    """Whether the file has the durations."""
    slow_min: Micros = 0
    """The slow time of the file, below which no measured one is used; 0: it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """A campaign file."""

    name: str
    reason: str
    impact: Impact
    select: Selection
    description: str = ""
    """The text for tenants; empty: the usual one."""
    order: Order = Order.AUTO
    priority: int = 0
    """Campaigns with a higher one go first when campaigns share a limit."""
    is_emergency: bool = False
    """Whether windows, blackouts and deferrals do not stop it."""
    ignored: tuple[str, ...] = ()
    """The windows and blackouts of the file that an emergency campaign ignores."""
    steps: tuple[Step, ...] = ()
    budget: Budget = field(default_factory=Budget)
    stages: tuple[Stage, ...] = DEFAULT_STAGES
    windows: tuple[Window, ...] = ()
    blackouts: tuple[Blackout, ...] = ()
    """Times in which no host is announced or worked on, even in a window."""
    tolerance: Tolerance = field(default_factory=Tolerance)
    checks: tuple[Check, ...] = ()
    expect: Expectation = field(default_factory=Expectation)
