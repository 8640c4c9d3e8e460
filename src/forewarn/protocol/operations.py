"""Requests and operations: what somebody asked for, and what is done at once.

A *request* is one order of an operator or user; a rollout is a request over
several hosts. An *operation* is the smallest thing done at once to one host or
one VM. Both are frozen values; they change only through `lifecycle`.
"""

from __future__ import annotations

import enum

from forewarn.instants import Micros
from forewarn.protocol.actors import Actor
from forewarn.protocol.blockers import AnyBlocker
from forewarn.protocol.frozen import frozen_dataclass
from forewarn.protocol.notes import AnyNote
from forewarn.protocol.verbs import Action, TargetKind, Verb

MOVING_ACTIONS = frozenset({Action.LIVE_MIGRATE, Action.REDEPLOY})
"""Actions that end with the VM on another host."""

KEEPING_ACTIONS = frozenset({Action.FREEZE, Action.LIVE_MIGRATE})
"""Actions that keep memory, and so leave a VM that is down as it is."""


class OperationState(enum.Enum):
    """Where an operation stands; `lifecycle.OPERATION_STEPS` has the arrows."""

    PLANNED = "Planned"
    """A host of a rollout whose turn has not come, or decided in this transaction;
    nobody has been told."""
    ANNOUNCED = "Announced"
    """Its events are Scheduled; waits for approvals or NotBefore."""
    READY = "Ready"
    """Approved or due; waits for the guard at Started (clause 6.3)."""
    IMPACTING = "Impacting"
    """Started is durable; the driver works, or a failure lasts."""
    RECOVERING = "Recovering"
    """The impact is over; the events stay until the recovery time has passed."""
    DONE = "Done"
    CANCELLED = "Cancelled"
    FAILED = "Failed"


UNSTARTED_STATES = frozenset(
    {OperationState.PLANNED, OperationState.ANNOUNCED, OperationState.READY}
)
"""States in which it can be cancelled, whether anybody was told or not."""
WAITING_STATES = frozenset({OperationState.ANNOUNCED, OperationState.READY})
"""States before the point of no return: it can be cancelled without impact."""
STARTED_STATES = frozenset({OperationState.IMPACTING, OperationState.RECOVERING})
ENDED_STATES = frozenset(
    {OperationState.DONE, OperationState.CANCELLED, OperationState.FAILED}
)


class CallState(enum.Enum):
    """What is known of the driver call of the present generation."""

    NONE = "none"
    """No call is under way: not started, over, or a failure without a driver."""
    ISSUED = "issued"
    """Durably decided; the driver has been called, or will be after a restart."""
    PROBING = "probing"
    """After a restart the driver was asked what became of the call, and has not answered
    yet. The call still times out at `due_at`."""
    OVERDUE = "overdue"
    """The call has timed out; the driver was asked what became of it, and then to stop
    it, and has not answered yet. It is asked again at `due_at`."""
    RETRY = "retry"
    """The last call failed; the next one follows at `due_at`."""
    UNKNOWN = "unknown"
    """Nobody knows whether it was done; an operator must `resolve` it."""


ASKED_STATES = frozenset({CallState.PROBING, CallState.OVERDUE})
"""States of a call that the driver was asked about."""


@frozen_dataclass
class Move:
    """One VM of an operation."""

    vm: str
    to_host: str = ""
    """Where it is being moved; empty while undecided or if it stays."""
    done: bool = False
    has_failed: bool = False
    """The present call is known to have failed for this VM, although its outcome is not
    known for others."""
    is_down: bool = False
    """The call that is known to have failed left this VM down."""


@frozen_dataclass
class Operation:
    """The smallest thing done at once to one host or VM."""

    operation_id: str
    request: str
    verb: Verb
    action: Action
    target_kind: TargetKind
    target: str
    """The host's name or the VM's key."""
    host: str
    """The host it happens on."""
    state: OperationState
    routine: bool
    """Whether the guard may hold it: the operator's maintenance caused it."""
    not_before: Micros
    moves: tuple[Move, ...]
    scopes: tuple[str, ...]
    """The scopes of its VMs when it was made, sorted."""
    duration_seconds: int
    description: str
    created: Micros
    is_timed: bool = False
    """Whether NotBefore was given by hand: then only approvals by those whom it concerns
    start it earlier, and not that there is nobody to ask."""
    due_at: Micros = 0
    """When the ticker must look again; 0 is never."""
    generation: int = 0
    """Raised at each driver call: with the id it names the call."""
    attempts: int = 0
    """Driver calls made for the present step."""
    call_state: CallState = CallState.NONE
    driver: str = ""
    """The kind of driver that the present call was given to; empty: there was none,
    or it was before kinds were kept."""
    driver_memory: str = ""
    """The identity of the driver's memory that the present call was given to; empty:
    there is no call, or the call was made before identities were stored."""
    started_at: Micros = 0
    impact_ended_at: Micros = 0
    ended_at: Micros = 0
    note: AnyNote | None = None
    """Why it ended, or what it met."""
    left_vms: tuple[str, ...] = ()
    """VMs that were part of it and left: its history is theirs, too."""
    cancelled_by: Actor | None = None
    """Who cancelled it by an order; None: it was not, or something else ended it."""
    held_by: tuple[AnyBlocker, ...] = ()
    """What was last found in its way, bounded in number: by the guard while it is
    Ready, by the rollout while it is Planned."""
    waits_for: tuple[str, ...] = ()
    """Names of what it waits for, by which a wake-up finds it. A step clears them."""
    position: int = 0
    """Its place in the list of its rollout, from 1; 0: it was never in a list."""
    revision: int = 0

    @property
    def key(self) -> str:
        """Return what a store finds it by."""
        return self.operation_id

    @property
    def vms(self) -> tuple[str, ...]:
        """Return the keys of its VMs, in order."""
        return tuple(move.vm for move in self.moves)

    @property
    def called_no_driver(self) -> bool:
        """Tell whether it was carried out without a driver call: it has no VMs.

        A failure calls no driver either, and has nothing to carry out.
        """
        return (
            self.started_at != 0
            and self.action is not Action.NONE
            and not self.moves
            and not self.generation
        )

    @property
    def is_host_bound(self) -> bool:
        """Tell whether a VM that leaves the host also leaves the operation."""
        return self.target_kind is TargetKind.HOST or self.verb is Verb.PREDICT_FAILURE

    @property
    def occupies_host(self) -> bool:
        """Tell whether it is announced or under way for the host itself.

        Nothing is placed on such a host: it would meet an impact without notice.
        """
        return (
            self.is_host_bound
            and self.state is not OperationState.PLANNED
            and self.state not in ENDED_STATES
        )


class RequestState(enum.Enum):
    """Where a request stands; `lifecycle.REQUEST_STEPS` has the arrows."""

    OPEN = "Open"
    STOPPED = "Stopped"
    """A failed operation stopped those that had not started."""
    CANCELLED = "Cancelled"
    """An operator stopped those that had not started."""
    CLOSED = "Closed"
    """All its operations have ended and nothing stopped it."""


@frozen_dataclass
class Request:
    """One order: it owns what its operations share."""

    request_id: str
    verb: Verb
    actor: Actor
    reason: str
    state: RequestState
    together: bool
    """None is carried out before all are approved or due (clause 3.6)."""
    is_rollout: bool
    """A failed operation stops those that have not started."""
    created: Micros
    at_once: int = 0
    """How many of its hosts may be announced or worked on at once; 0: it announces
    all that it is for when it is ordered."""
    in_flight: int = 0
    """How many of its hosts are announced or worked on, where that is bounded."""
    hosts: int = 0
    """How many hosts are in its list, where they have to wait for their turn."""
    unplanned: tuple[tuple[str, str], ...] = ()
    """The last hosts of its list, whose operations are not made yet: the id that each
    will have, and the host. A long list becomes operations in pages."""
    revision: int = 0

    @property
    def key(self) -> str:
        """Return what a store finds it by."""
        return self.request_id
