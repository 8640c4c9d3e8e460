"""Requests and operations.

A *request* is one command of an operator or user; a rollout is a request for several
hosts. An *operation* is the work that is done at one time to one host or one VM. Both
are frozen values and change only through `lifecycle`.
"""

from __future__ import annotations

from collections.abc import Sequence

from forewarn.instants import Micros
from forewarn.protocol.actors import Actor
from forewarn.protocol.blockers import AnyBlocker
from forewarn.protocol.enumerations import Enumeration
from forewarn.protocol.frozen import frozen_dataclass, same_as
from forewarn.protocol.host_steps import HostStep, StepKind
from forewarn.protocol.notes import AnyNote
from forewarn.protocol.verbs import Action, TargetKind, Verb

MOVING_ACTIONS = frozenset({Action.LIVE_MIGRATE, Action.REDEPLOY})
"""Actions that move the VM to another host."""

KEEPING_ACTIONS = frozenset({Action.FREEZE, Action.LIVE_MIGRATE})
"""Actions that keep memory. A VM that is down stays down."""


HALVES = {
    Action.FREEZE: (Action.PAUSE, Action.RESUME),
    Action.REBOOT: (Action.STOP, Action.START),
}
"""Actions that can be done in two calls, one before and one after host work. Each call
must succeed for a VM that is in the wanted state already."""


def is_in_halves(action: Action, steps: Sequence[HostStep]) -> bool:
    """Return whether VMs are paused or stopped on the host for a step `work`."""
    has_work = any(step.kind is StepKind.WORK for step in steps)
    return has_work and action in HALVES


class CallPart(Enumeration):
    """The part of its action that the driver call of an operation does."""

    WHOLE = "whole"
    DOWN = "down"
    """The first half: it pauses or stops the VMs. After it, they stay so for the work."""
    UP = "up"
    """The second half: it resumes or starts the VMs."""


class OperationState(Enumeration):
    """State of an operation; `lifecycle.OPERATION_STEPS` has the transitions."""

    PLANNED = "Planned"
    """Not announced: a host of a rollout that waits, or created in this transaction."""
    ANNOUNCED = "Announced"
    """Its events are Scheduled. It waits for approvals or NotBefore."""
    READY = "Ready"
    """Approved or due. It waits for the guard (clause 6.3)."""
    IMPACTING = "Impacting"
    """Started is durable. The driver works, or the failure continues."""
    RECOVERING = "Recovering"
    """The impact has ended. The events stay until the recovery time has passed."""
    DONE = "Done"
    CANCELLED = "Cancelled"
    FAILED = "Failed"


UNSTARTED_STATES = frozenset(
    {OperationState.PLANNED, OperationState.ANNOUNCED, OperationState.READY}
)
"""States in which an operation can be cancelled, announced or not."""
WAITING_STATES = frozenset({OperationState.ANNOUNCED, OperationState.READY})
"""Announced states in which an operation can be cancelled without impact."""
STARTED_STATES = frozenset({OperationState.IMPACTING, OperationState.RECOVERING})
ENDED_STATES = frozenset(
    {OperationState.DONE, OperationState.CANCELLED, OperationState.FAILED}
)


class CallState(Enumeration):
    """State of the driver call of the current generation."""

    NONE = "none"
    """No call: not started, ended, or a failure, which needs no driver."""
    ISSUED = "issued"
    """The call is durable. The driver was called, or will be after a restart."""
    PROBING = "probing"
    """After a restart, the driver was asked for the outcome of the call and has not
    answered yet. The call still times out at `due_at`."""
    OVERDUE = "overdue"
    """The call timed out. The driver was asked for its outcome, and then to stop it, and
    has not answered yet. It is asked again at `due_at`."""
    RETRY = "retry"
    """The last call failed. The next one follows at `due_at`."""
    UNKNOWN = "unknown"
    """The outcome is unknown. An operator must `resolve` it."""


ASKED_STATES = frozenset({CallState.PROBING, CallState.OVERDUE})
"""States of a call for which the driver was asked for the outcome."""


@frozen_dataclass
class Move:
    """One VM of an operation."""

    vm: str
    to_host: str = ""
    """Destination host; empty: not decided yet, or the VM stays. If the driver chooses it,
    it is set when the move is done."""
    done: bool = False
    has_failed: bool = False
    """Whether the current call failed for this VM while the outcome for other VMs is
    unknown."""
    is_down: bool = False
    """Whether that failed call, or the last attempt of all, left this VM down."""


def could_not_move(state: OperationState, action: Action, *, is_any_down: bool) -> bool:
    """Return whether an operation failed to move VMs away, and left none of them down."""
    return (
        state is OperationState.FAILED and action in MOVING_ACTIONS and not is_any_down
    )


@frozen_dataclass
class Deferrals:
    """The deferrals of the maintenance of a host by one tenant."""

    tenant: str
    count: int
    until: Micros
    """The latest time until which it was deferred."""


@frozen_dataclass
class Promise:
    """An opening of a scope that counts for the maintenance of a host, even if the windows
    of the scope change."""

    scope: str
    opens: Micros
    closes: Micros


class TenantCause(Enumeration):
    """The cause for which tenants hold the maintenance of a host."""

    DEFERRAL = "deferral"
    WINDOW = "window"
    """A maintenance window of a scope."""


@frozen_dataclass
class TenantWait:
    """A time for which tenants held the maintenance of a host."""

    cause: TenantCause
    begins: Micros
    ends: Micros = 0
    """0: it continues."""


@frozen_dataclass
class Operation:
    """Work that is done at one time to one host or VM."""

    operation_id: str
    request: str
    verb: Verb
    action: Action
    target_kind: TargetKind
    target: str
    """Name of the host or key of the VM."""
    host: str
    """Host on which the operation is carried out."""
    state: OperationState
    routine: bool
    """Whether the guard can hold the operation, because it is maintenance of the
    operator."""
    not_before: Micros
    moves: tuple[Move, ...]
    scopes: tuple[str, ...]
    """Scopes of the operation's VMs when it was created, sorted."""
    duration_seconds: int
    description: str
    created: Micros
    is_timed: bool = False
    """Whether the caller gave NotBefore. If so, only approvals of the affected VMs
    start the operation earlier, and it waits even if no approval is needed."""
    is_emergency: bool = False
    """Whether it is an emergency repair, for which no maintenance window is kept."""
    due_at: Micros = 0
    """Time of the operation's timer; 0: none."""
    generation: int = 0
    """Number of the driver call. ID and generation together name a call."""
    attempts: int = 0
    """Number of driver calls for the current step."""
    call_state: CallState = CallState.NONE
    driver: str = ""
    """Kind of the driver that got the current call; empty: no call, or a version that
    did not store it."""
    driver_memory: str = ""
    """Identity of the driver memory that got the current call; empty: no call, or a
    version that did not store it."""
    started_at: Micros = 0
    impact_ended_at: Micros = 0
    ended_at: Micros = 0
    note: AnyNote | None = None
    """Why the operation ended, or other notes about it."""
    left_vms: tuple[str, ...] = ()
    """VMs that were part of the operation and left. Their history includes the
    operation."""
    cancelled_by: Actor | None = None
    """Actor that cancelled it; None: it was not cancelled by a request."""
    held_by: tuple[AnyBlocker, ...] = ()
    """Last known blockers, bounded in number: of the guard while it is Ready, of the
    rollout while it is Planned."""
    waits_for: tuple[str, ...] = ()
    """Names of the operation's waits, by which a wake-up finds it. A transition clears
    them."""
    position: int = 0
    """Position in the list of its rollout, from 1; 0: not in a list."""
    drains: int = 0
    """Number of earlier attempts of its campaign to move the VMs of the host away."""
    deferrals: tuple[Deferrals, ...] = ()
    """The deferrals of each tenant, in the order of the first times. An operation
    that replaces it has them too, until an operator orders another attempt."""
    promises: tuple[Promise, ...] = ()
    """The promised opening of each scope of its host, since the host first waited for
    windows; empty: it has not. An operation that replaces it has them too."""
    tenant_waits: tuple[TenantWait, ...] = ()
    """The times for which tenants held it, in order, bounded in number."""
    visit: str = ""
    """ID of the visit that the operation is part of; empty: the request has no steps."""
    part: CallPart = CallPart.WHOLE
    """The part of the action that the current or last driver call does."""
    driver_chooses: bool = False
    """Whether the driver chooses the destinations of its VMs. A move then has one only
    after its end."""
    revision: int = 0

    key = same_as("operation_id")
    """The key in a store."""

    @property
    def given_time(self) -> Micros:
        """Return the NotBefore that the caller gave; 0: none. A Planned operation without
        one has the time of its request, which means nothing after a step of the clock."""
        return self.not_before if self.is_timed else 0

    @property
    def vms(self) -> tuple[str, ...]:
        """Return the keys of the operation's VMs, in order."""
        return tuple([move.vm for move in self.moves])

    @property
    def promised(self) -> tuple[Micros, Micros] | None:
        """Return the time in which all its promised openings are open; None: it has none."""
        if not self.promises:
            return None
        opens = max(promise.opens for promise in self.promises)
        return opens, min(promise.closes for promise in self.promises)

    @property
    def call_action(self) -> Action:
        """Return the action of the current driver call."""
        if self.part is CallPart.WHOLE:
            return self.action
        down, up = HALVES[self.action]
        return down if self.part is CallPart.DOWN else up

    @property
    def holds_vms(self) -> bool:
        """Return whether its VMs stay paused or stopped until host work has ended."""
        return (
            self.state is OperationState.IMPACTING
            and self.part is CallPart.DOWN
            and self.call_state is CallState.NONE
        )

    @property
    def called_no_driver(self) -> bool:
        """Return whether the operation started without a driver call because it has no
        VMs.

        Failures are excluded: they never call a driver.
        """
        return (
            self.started_at != 0
            and self.action is not Action.NONE
            and not self.moves
            and not self.generation
        )

    @property
    def could_not_move(self) -> bool:
        """Return whether it failed to move VMs away, and left none of them down."""
        is_any_down = any(move.is_down for move in self.moves)
        return could_not_move(self.state, self.action, is_any_down=is_any_down)

    @property
    def is_host_bound(self) -> bool:
        """Return whether a VM that leaves the host also leaves the operation."""
        return self.target_kind is TargetKind.HOST or self.verb is Verb.PREDICT_FAILURE

    @property
    def occupies_host(self) -> bool:
        """Return whether the operation is announced or running for the host itself.

        No VM is placed on such a host, because it would be affected without notice.
        """
        return (
            self.is_host_bound
            and self.state is not OperationState.PLANNED
            and self.state not in ENDED_STATES
        )


class RequestState(Enumeration):
    """State of a request; `lifecycle.REQUEST_STEPS` has the transitions."""

    OPEN = "Open"
    STOPPED = "Stopped"
    """A failed operation stopped those that had not started."""
    CANCELLED = "Cancelled"
    """A request cancelled the operations that had not started."""
    CLOSED = "Closed"
    """All its operations ended, and it was neither stopped nor cancelled."""


@frozen_dataclass
class Request:
    """One request, with the data that its operations share."""

    request_id: str
    verb: Verb
    actor: Actor
    reason: str
    state: RequestState
    together: bool
    """Whether no operation starts before all are approved or due (clause 3.6)."""
    is_rollout: bool
    """Whether a failed operation stops those that have not started."""
    created: Micros
    at_once: int = 0
    """Maximum hosts that are announced or running at once; 0: all are announced at
    once."""
    in_flight: int = 0
    """Number of hosts that are announced or running, if `at_once` is set."""
    hosts: int = 0
    """Number of hosts in the request's list, if `at_once` is set."""
    has_choices: bool = False
    """Whether tenants have deferred or expedited a part of it."""
    hosts_unplanned: int = 0
    """Number of hosts at the end of its list without operations yet. A long list becomes
    operations in pages: `store.unplanned`."""
    campaign: str = ""
    """ID of the campaign that the rollout belongs to; empty: none."""
    steps: tuple[HostStep, ...] = ()
    """Programs that run on each host, in the order of their kinds; empty: none."""
    shared_most: int = 0
    """Maximum hosts in flight for all rollouts of several hosts by the current settings;
    0: no limit. A stored campaign has its own."""
    revision: int = 0

    key = same_as("request_id")
    """The key in a store."""

    @property
    def implies_campaign(self) -> bool:
        """Return whether it is a rollout of several hosts without a stored campaign."""
        return self.at_once > 0 and self.hosts > 1 and not self.campaign
