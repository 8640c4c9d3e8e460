"""The stored record of a campaign: what was started, and how far it is.

The budgets stay as the file writes them, because a percentage counts from the hosts of
the fleet at each decision.
"""

from dataclasses import dataclass

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.campaigns.model import Impact, Tolerance
from forewarn.fleet.blackouts import Blackout
from forewarn.fleet.windows import Window
from forewarn.instants import Micros
from forewarn.protocol.actors import Actor, service_part
from forewarn.protocol.enumerations import Enumeration
from forewarn.protocol.frozen import same_as

CAMPAIGN_OUTCOMES_MAX = 1_000
"""Maximum finished hosts that a tolerance counts back: one character each in the record."""

TERMS_CHANGED = "terms"
"""Value of `fitted` after a change of budgets or blackouts: no digest is equal to it."""

WINDOWS_CHANGED = "windows"
"""Value of `fitted` after a change of windows, which announced hosts may miss now."""

CHECKS = service_part("checks")
"""The actor that halts and pauses campaigns for their checks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTerms:
    """One stage, with numbers instead of percentages."""

    hosts: int
    """Number of hosts in this stage alone."""
    soak: Micros = 0
    approval: bool = False
    """Whether an operator must approve the next stage."""
    sped_up: Micros = 0
    """The soak divided by `speed`, by the current settings; 0: it is not divided."""

    @property
    def lasts(self) -> Micros:
        """Return how long the stage soaks."""
        return self.sped_up or self.soak


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetTerms:
    """The budgets, as the file writes them: `5` or `3%`; empty: no limit."""

    in_flight: str = "1"
    unavailable: str = ""
    by: tuple[tuple[str, str], ...] = ()
    """The maximum for each value of a label."""
    tenant_vms: str = ""
    """VMs of one tenant that are announced or in work."""
    overlap_notice: int = 0
    """Further fault domains of a scope that can be announced while one is announced, in
    work or down."""


class HaltCause(Enumeration):
    """Why a campaign was halted."""

    OPERATOR = "operator"
    CANARY = "canary"
    """A host of a stage before the last one failed: these stages tolerate no failure."""
    IN_A_ROW = "in a row"
    """Too many hosts failed one after the other."""
    FAILURES = "failures"
    """Too many of the last hosts failed."""
    BRAKE = "brake"
    """The brake was put on."""
    CHECK = "check"
    """A check failed."""
    DEFERRED = "deferred"
    """The VMs of too many hosts could not be moved away."""
    VMS_DOWN = "vms down"
    """Too many VMs do not run after the work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Halt:
    """The halt of a campaign."""

    cause: HaltCause
    by: Actor
    at: Micros
    reason: str = ""
    """Reason that the operator gave, or the answer of the check."""
    check: str = ""
    """Name of the check that failed."""
    host: str = ""
    """The host that failed last."""
    count: int = 0
    """Failed hosts or VMs that were counted."""
    of: int = 0
    """Hosts that they were counted in, or VMs that could be down."""

    @property
    def is_ordered(self) -> bool:
        """Return whether an operator halted the campaign, and not one of its rules."""
        return self.cause is HaltCause.OPERATOR


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A demand of one operator that a campaign announces no host."""

    by: Actor
    reason: str
    at: Micros

    @property
    def is_of_checks(self) -> bool:
        """Return whether a check that does not answer is why; it ends by itself."""
        return self.by.is_same_as(CHECKS)


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignRecord:
    """A campaign that was started."""

    campaign_id: str
    name: str
    """Unique among the campaigns that have not ended."""
    reason: str
    impact: Impact
    state: CampaignState
    request: str
    """ID of the rollout with its operations."""
    actor: Actor
    """The operator who started it."""
    created: Micros
    digest: str
    """Digest of the plan that it was started with."""
    text: str
    """The campaign file."""
    hosts: int
    """Number of its hosts."""
    stages: tuple[StageTerms, ...]
    budget: BudgetTerms
    tolerance: Tolerance
    windows: tuple[Window, ...] = ()
    blackouts: tuple[Blackout, ...] = ()
    """Times in which no host is announced or started, even in a window."""
    is_emergency: bool = False
    """Whether windows, blackouts and deferrals do not stop it."""
    is_released: bool = True
    """False: it is an emergency that another operator must release."""
    priority: int = 0
    """Campaigns with a higher one go first when campaigns share a limit."""
    shared_most: int = 0
    """Maximum hosts in flight for all campaigns by the current settings; 0: no limit."""
    checks: tuple[str, ...] = ()
    """Names of the checks that must pass."""
    fleet_hosts: int = 0
    """Hosts of the fleet at the beginning of the current stage, for percentages."""
    tenant_most: tuple[tuple[str, int], ...] = ()
    """Maximum VMs of each tenant that are announced or in work; a tenant that is not
    named has no limit."""
    slow: Micros = 0
    """Time of the work on one host, without its notice, that must fit before the end of a
    window. It grows with the times of its own hosts."""
    notice: Micros = 0
    """Notice of its events, by the current settings."""
    planned_end: Micros = 0
    """The end that its plan forecast at the start; 0: unknown."""
    ended: Micros = 0
    # How far it is
    stage: int = 1
    """Number of the current stage, from 1."""
    stage_left: int = 0
    """Hosts of the current stage that are neither done nor skipped."""
    despite: tuple[str, ...] = ()
    """Checks that an operator ignores until the next stage."""
    unknown: tuple[tuple[str, str], ...] = ()
    """Checks without an answer that counts, each with the reason."""
    unknown_since: Micros = 0
    """Time since when a check is unknown; 0: none is."""
    soaks_until: Micros = 0
    """End of the soak of the current stage; 0: it has not begun."""
    is_approved: bool = False
    """Whether an operator has approved the next stage."""
    is_asked: bool = False
    """Whether it was noted that the next stage waits only for its approval."""
    ramp: int = 1
    """Hosts that can be in flight now; it doubles up to the budget."""
    ramp_done: int = 0
    """Hosts that were done since the last change of `ramp`."""
    outcomes: str = ""
    """The results of the last finished hosts, the newest last: `d` done, `f` failed."""
    works: tuple[Micros, ...] = ()
    """Times of the work on its last hosts that were done, the newest last."""
    overran: int = 0
    """Hosts that were done after the window had closed in which they began."""
    done: int = 0
    skipped: int = 0
    skipped_ahead: tuple[tuple[int, int], ...] = ()
    """Stages that have not begun, each with the number of its hosts that were skipped."""
    deferred: int = 0
    """Hosts whose VMs could not be moved away, since the start or the last resumption."""
    failed: tuple[tuple[str, str], ...] = ()
    """Failed hosts that were neither retried nor skipped, each with its operation. Each
    uses the budgets."""
    pauses: tuple[Pause, ...] = ()
    halt: Halt | None = None
    """The halt; None: it is not halted."""
    withdrawn: int = 0
    """Hosts whose announcement was withdrawn by halts and blackouts."""
    moved_at: Micros = 0
    """Time of the last progress: a host was announced or has ended."""
    fitted: str = ""
    """Digest of the blackouts that all announced hosts are known to avoid, and of the
    `overlap_notice` with which waiting hosts were looked at; empty: of none. `TERMS_CHANGED` or
    `WINDOWS_CHANGED`: hosts are looked at again."""
    overlap_before: int = 0
    """A larger `overlap_notice` with which hosts in flight can have been announced."""
    due_at: Micros = 0
    """Time of the campaign's timer; 0: none."""
    last_decision: str = ""
    """ID of the history entry of the last decision about it, which retention can have
    removed; empty: none, or one of a version that did not store it."""
    revision: int = 0

    key = same_as("campaign_id")
    """The key in a store."""

    @property
    def subject(self) -> str:
        """Return the campaign as the subject of history entries."""
        return f"campaign:{self.campaign_id}"

    @property
    def has_ended(self) -> bool:
        """Return whether no input changes the campaign."""
        return self.ended != 0

    @property
    def is_last_stage(self) -> bool:
        """Return whether the current stage is the last one."""
        return self.stage == len(self.stages)

    @property
    def failed_hosts(self) -> tuple[str, ...]:
        """Return the names of the failed hosts."""
        return tuple(host for host, _ in self.failed)

    @property
    def left(self) -> int:
        """Return the number of hosts that are neither done, skipped nor failed."""
        return self.hosts - self.done - self.skipped - len(self.failed)

    def stage_of(self, position: int) -> int:
        """Return the stage of the host at a position of the order, both from 1.

        A host whose stage has passed belongs to the current one.
        """
        end = 0
        for number, stage in enumerate(self.stages, start=1):
            end += stage.hosts
            if position <= end:
                return max(number, self.stage)
        return len(self.stages)
