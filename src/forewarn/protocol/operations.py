"""Requests and operations: what somebody asked for, and what is done at once.

A *request* is one order of an operator or user; a rollout is a request over
several hosts. An *operation* is the smallest thing done at once to one host or
one VM. Both are frozen values; they change only through `lifecycle`.
"""

import enum
from dataclasses import dataclass

from forewarn.instants import Micros


class Action(enum.Enum):
    """What is done to the VMs; a driver has one way for each."""

    FREEZE = "freeze"
    LIVE_MIGRATE = "live-migrate"
    REBOOT = "reboot"
    REDEPLOY = "redeploy"
    DELETE = "delete"
    REIMAGE = "reimage"
    """The guest's disk is made anew from its image (OS upgrade, reimage)."""
    NONE = "none"
    """Nothing: a failure has already happened."""


MOVING_ACTIONS = frozenset({Action.LIVE_MIGRATE, Action.REDEPLOY})
"""Actions that end with the VM on another host."""

KEEPING_ACTIONS = frozenset({Action.FREEZE, Action.LIVE_MIGRATE})
"""Actions that keep memory, and so leave a VM that is down as it is."""


class Verb(enum.Enum):
    """What was asked for (table 5.9)."""

    MAINTAIN = "maintain"
    REBOOT = "reboot"
    REDEPLOY = "redeploy"
    EVICT = "evict"
    TERMINATE = "terminate"
    UPGRADE_OS = "upgrade-os"
    REIMAGE = "reimage"
    FAIL = "fail"
    PREDICT_FAILURE = "predict-failure"


class TargetKind(enum.Enum):
    """What an operation is done to."""

    HOST = "host"
    VM = "vm"


class OperationState(enum.Enum):
    """Where an operation stands; `lifecycle.OPERATION_STEPS` has the arrows."""

    PLANNED = "Planned"
    """Decided in this transaction; nobody has been told."""
    NOTICED = "Noticed"
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


WAITING_STATES = frozenset({OperationState.NOTICED, OperationState.READY})
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
    RETRY = "retry"
    """The last call failed; the next one follows at `due_at`."""
    UNKNOWN = "unknown"
    """Nobody knows whether it was done; an operator must `resolve` it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One VM of an operation."""

    vm: str
    to_host: str = ""
    """Where it is being moved; empty while undecided or if it stays."""
    done: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
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
    started_at: Micros = 0
    impact_ended_at: Micros = 0
    ended_at: Micros = 0
    note: str = ""
    """Why it ended or what it met, in a sentence."""
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
    def is_host_bound(self) -> bool:
        """Tell whether a VM that leaves the host also leaves the operation."""
        return self.target_kind is TargetKind.HOST or self.verb is Verb.PREDICT_FAILURE


class RequestState(enum.Enum):
    """Where a request stands; `lifecycle.REQUEST_STEPS` has the arrows."""

    OPEN = "Open"
    STOPPED = "Stopped"
    """A failed operation stopped those that had not started."""
    CANCELLED = "Cancelled"
    """An operator stopped those that had not started."""
    CLOSED = "Closed"
    """All its operations have ended and nothing stopped it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One order: it owns what its operations share."""

    request_id: str
    verb: Verb
    actor: str
    reason: str
    state: RequestState
    together: bool
    """None is carried out before all are approved or due (clause 3.6)."""
    is_rollout: bool
    """A failed operation stops those that have not started."""
    created: Micros
    revision: int = 0

    @property
    def key(self) -> str:
        """Return what a store finds it by."""
        return self.request_id
