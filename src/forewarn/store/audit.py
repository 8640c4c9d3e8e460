"""The audit entries: who did what, when and why, kept in the transaction that did it."""

import enum
from dataclasses import dataclass

from forewarn.instants import Micros
from forewarn.protocol.actors import Actor
from forewarn.protocol.blockers import AnyBlocker
from forewarn.protocol.events import Outcome
from forewarn.protocol.notes import AnyNote
from forewarn.protocol.verbs import Action, TargetKind, Verb


class AuditKind(enum.Enum):
    """What happened; the value is what `history` shows."""

    MAINTAIN_ORDERED = "maintain ordered"
    REBOOT_ORDERED = "reboot ordered"
    REDEPLOY_ORDERED = "redeploy ordered"
    EVICT_ORDERED = "evict ordered"
    TERMINATE_ORDERED = "terminate ordered"
    UPGRADE_OS_ORDERED = "upgrade-os ordered"
    REIMAGE_ORDERED = "reimage ordered"
    FAIL_ORDERED = "fail ordered"
    PREDICT_FAILURE_ORDERED = "predict-failure ordered"
    REQUEST_CLOSED = "request closed"
    REQUEST_CANCELLED = "request cancelled"
    REQUEST_STOPPED = "request stopped"
    OPERATION_PLANNED = "operation planned"
    HOSTS_PLANNED = "hosts planned"
    OPERATION_ANNOUNCED = "operation announced"
    OPERATION_READY = "operation ready"
    OPERATION_HELD = "operation held"
    OPERATION_IMPACTING = "operation impacting"
    OPERATION_RECOVERING = "operation recovering"
    OPERATION_RESOLVED = "operation resolved"
    OPERATION_DONE = "operation done"
    OPERATION_CANCELLED = "operation cancelled"
    OPERATION_FAILED = "operation failed"
    EVENT_SCHEDULED = "event scheduled"
    EVENT_APPROVED = "event approved"
    EVENT_STARTED = "event started"
    EVENT_SHRUNK = "event shrunk"
    EVENT_REMOVED = "event removed"
    DRIVER_DONE = "driver done"
    DRIVER_FAILED = "driver failed"
    DRIVER_OUTCOME_UNKNOWN = "driver outcome unknown"
    HOST_FAILED = "host failed"
    HOST_RESTORED = "host restored"
    VM_MOVED = "vm moved"
    VM_RUNS_AGAIN = "vm runs again"
    VM_DELETED = "vm deleted"
    SCOPE_ENABLED = "scope enabled"
    SCOPE_DISABLED = "scope disabled"
    TOKEN_CREATED = "token created"  # noqa: S105 - no secret
    TOKEN_REVOKED = "token revoked"  # noqa: S105 - no secret
    WEBHOOK_GAVE_UP = "webhook gave up"
    FLEET_APPLIED = "fleet applied"
    TENANT_ADD = "tenant add"
    TENANT_CHANGE = "tenant change"
    TENANT_ADOPT = "tenant adopt"
    TENANT_REMOVE = "tenant remove"
    TENANT_NOTE = "tenant note"
    SCOPE_ADD = "scope add"
    SCOPE_CHANGE = "scope change"
    SCOPE_ADOPT = "scope adopt"
    SCOPE_REMOVE = "scope remove"
    SCOPE_NOTE = "scope note"
    HOST_ADD = "host add"
    HOST_CHANGE = "host change"
    HOST_ADOPT = "host adopt"
    HOST_REMOVE = "host remove"
    HOST_NOTE = "host note"
    VM_ADD = "vm add"
    VM_CHANGE = "vm change"
    VM_ADOPT = "vm adopt"
    VM_REMOVE = "vm remove"
    VM_NOTE = "vm note"


@dataclass(frozen=True, slots=True, kw_only=True)
class VmMove:
    """A VM that moved from one host to another."""

    vm: str
    from_host: str
    to_host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What an operation does, and to what."""

    verb: Verb
    action: Action
    target_kind: TargetKind
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenMade:
    """A token as it was made."""

    name: str
    read_only: bool
    lifetime: Micros | None = None
    """None: it does not expire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What an entry says beyond its kind and subjects; most of it is empty."""

    text: str = ""
    """Free text for operators: of a driver, of a fleet file, of an older version."""
    note: AnyNote | None = None
    """Why an operation took the step, or what a driver's call met."""
    task: Task | None = None
    """The operation that took a step for no other reason than that it was due."""
    token: TokenMade | None = None
    by: Actor | None = None
    """Who approved, in entries of older versions: since then it is the actor."""
    outcome: Outcome | None = None
    """How an event ended."""
    blockers: tuple[AnyBlocker, ...] = ()
    """What held an operation, bounded in number."""
    moves: tuple[VmMove, ...] = ()
    vm: str = ""
    """The VM whose request enabled a scope, or that left an event."""
    enabling: str = ""
    """Which views were enabled or disabled together."""
    count: int = 0
    """Number of silent views, of messages that were given up, or of planned hosts."""
    at_once: int = 0
    """How many of the planned hosts may be announced or worked on at once."""
    cause: str = ""
    """Why messages were given up: a text of the service."""
    is_done: bool = False
    """What an operator said of an unknown outcome."""


NOTHING = Facts()


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One change, as `history` shows it."""

    entry_id: str
    """Sorts in the order of the decisions: `sequence.key_of`."""
    at: Micros
    """What the clock said; a clock may be set back, so this does not sort."""
    actor: Actor
    kind: AuditKind
    why: str
    """The reason that the caller gave."""
    subjects: tuple[str, ...]
    """What it is about, as `vm:web_0`, `operation:op-…`, `event:…`, `host:h1`."""
    operation: str = ""
    """The operation that it is about. Its VMs, scopes, host, request and events lead
    to the entry, so they need no rows of their own (`linked_subjects`)."""
    facts: Facts = NOTHING
    revision: int = 0

    @property
    def key(self) -> str:
        """Return the entry's id."""
        return self.entry_id

    @property
    def what(self) -> str:
        """Return what happened, for people."""
        return self.kind.value

    @property
    def linked_subjects(self) -> tuple[str, ...]:
        """Return the subjects that have rows of their own, by which it is found.

        Of an entry about an operation these are the hosts that VMs moved between:
        the operation's own host may be neither.
        """
        if not self.operation:
            return self.subjects
        if self.kind is AuditKind.VM_MOVED:
            return tuple(each for each in self.subjects if each.startswith("host:"))
        return ()
