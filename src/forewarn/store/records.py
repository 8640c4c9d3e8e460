"""The records of the store that are not part of the fleet or of the protocol.

- Audit entries: actor, action, time and reason, stored with each change.
- The outbox: messages that the receivers of webhooks have not got yet. A message is
  stored in the transaction of its change, and deleted when it was delivered or dropped.
  Every committed change therefore has its message, even if the service is killed.
- Tokens of the operator API as digests, and results by their `Idempotency-Key`.
- The brake, the losses that it counts, tallies, and the leader: its term and its secret.
"""

from dataclasses import dataclass, field

from forewarn.campaigns.record import Halt
from forewarn.instants import Micros
from forewarn.protocol.actors import Actor
from forewarn.protocol.blockers import AnyBlocker
from forewarn.protocol.enumerations import Enumeration
from forewarn.protocol.events import Outcome
from forewarn.protocol.frozen import same_as
from forewarn.protocol.losses import Losses
from forewarn.protocol.notes import AnyNote
from forewarn.protocol.verbs import Action, TargetKind, Verb
from forewarn.store.notices import Notice
from forewarn.verbs.roles import READ_ONLY, Role


class AuditKind(Enumeration):
    """The kind of an audit entry; `forewarn history` shows its value."""

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
    VISIT_WAITING = "visit waiting"
    VISIT_ANNOUNCED = "visit announced"
    VISIT_ENTERING = "visit entering"
    VISIT_DRAINING = "visit draining"
    VISIT_WORKING = "visit working"
    VISIT_ANSWERING = "visit answering"
    VISIT_RESTORING = "visit restoring"
    VISIT_VERIFYING = "visit verifying"
    VISIT_EXITING = "visit exiting"
    VISIT_DONE = "visit done"
    VISIT_DEFERRED = "visit deferred"
    VISIT_SKIPPED = "visit skipped"
    VISIT_FAILED = "visit failed"
    VISIT_UNKNOWN = "visit unknown"
    HOST_FAILED = "host failed"
    HOST_RESTORED = "host restored"
    HOST_CORDONED = "host cordoned"
    HOST_OPENED = "host opened"
    VM_MOVED = "vm moved"
    VM_RUNS_AGAIN = "vm runs again"
    VM_STOPPED = "vm stopped"
    VM_SHUT_DOWN = "vm shut down"
    VM_DELETED = "vm deleted"
    SCOPE_ENABLED = "scope enabled"
    SCOPE_DISABLED = "scope disabled"
    TOKEN_CREATED = "token created"  # noqa: S105 - no secret
    TOKEN_REVOKED = "token revoked"  # noqa: S105 - no secret
    CONSOLE_LINK_CREATED = "console link created"
    WEBHOOK_GAVE_UP = "webhook gave up"
    MAINTENANCE_DEFERRED = "maintenance deferred"
    MAINTENANCE_EXPEDITED = "maintenance expedited"
    DEFERRAL_CLEARED = "deferral cleared"
    WINDOW_SET = "window set"
    WINDOW_CLEARED = "window cleared"
    BRAKE_ON = "brake on"
    BRAKE_OFF = "brake off"
    BLACKOUT_SET = "blackout set"
    BLACKOUT_REMOVED = "blackout removed"
    BLACKOUTS_IGNORED = "blackouts ignored"
    CAMPAIGN_STARTED = "campaign started"
    CAMPAIGN_PAUSED = "campaign paused"
    CAMPAIGN_HALTED = "campaign halted"
    CAMPAIGN_RESUMED = "campaign resumed"
    CAMPAIGN_ABORTED = "campaign aborted"
    CAMPAIGN_DONE = "campaign done"
    CAMPAIGN_STAGE_BEGUN = "campaign stage begun"
    CAMPAIGN_APPROVAL_NEEDED = "campaign approval needed"
    CAMPAIGN_STAGE_APPROVED = "campaign stage approved"
    CAMPAIGN_HOSTS_RETRIED = "campaign hosts retried"
    CAMPAIGN_HOSTS_SKIPPED = "campaign hosts skipped"
    CAMPAIGN_HOSTS_ADDED = "campaign hosts added"
    CAMPAIGN_HOST_DEFERRED = "campaign host deferred"
    CAMPAIGN_WINDOWS_IGNORED = "campaign windows ignored"
    CAMPAIGN_CHANGED = "campaign changed"
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
    """The work of an operation, and its target."""

    verb: Verb
    action: Action
    target_kind: TargetKind
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenMade:
    """A token at its creation."""

    name: str
    roles: tuple[Role, ...] = ()
    """Empty in entries of older versions, which have `read_only` instead."""
    read_only: bool = False
    lifetime: Micros | None = None
    """None: the token does not expire."""
    host: str = ""
    """The host of a relay's token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The values of an entry, except its kind and subjects; most are empty."""

    text: str = ""
    """Free text for operators, from a driver, a fleet file or an older version."""
    note: AnyNote | None = None
    """Why an operation took the step, or the problem of a driver's call."""
    task: Task | None = None
    """The operation that took a step because it was due."""
    token: TokenMade | None = None
    by: Actor | None = None
    """The approver, in entries of older versions; newer entries use the actor."""
    outcome: Outcome | None = None
    """How an event ended."""
    blockers: tuple[AnyBlocker, ...] = ()
    """The blockers that held an operation, bounded in number."""
    moves: tuple[VmMove, ...] = ()
    vm: str = ""
    """The VM whose request enabled a scope, or the VM that left an event."""
    enabling: str = ""
    """The group of views that were enabled or disabled together."""
    count: int = 0
    """Number of idle views, of dropped messages, of planned hosts, or of attempts."""
    at_once: int = 0
    """Maximum number of planned hosts that are announced or processed at once."""
    cause: str = ""
    """Why messages were dropped: a text of the service."""
    is_done: bool = False
    """Whether an operator resolved an unknown outcome as done."""
    losses: Losses | None = None
    """The losses for which the brake came on by itself."""
    stage: int = 0
    """The stage that began, was approved, or lost its approval by a halt, from 1."""
    halt: Halt | None = None
    """The halt of a campaign."""
    changes: tuple[tuple[str, str, str], ...] = ()
    """The changed terms of a campaign, each with its value before and after."""
    places: tuple[str, ...] = ()
    """The places of a blackout of a part of the fleet, such as `rack=r7`."""


NOTHING = Facts()


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One change, as `forewarn history` shows it."""

    entry_id: str
    """The ID, which sorts in the order of the decisions: `sequence.key_of`."""
    at: Micros
    """The time of the clock. A clock can be set back, so this does not sort."""
    actor: Actor
    kind: AuditKind
    why: str
    """The reason that the caller gave."""
    subjects: tuple[str, ...]
    """The affected records, as `vm:web_0`, `operation:op-…`, `event:…`, `host:h1`."""
    operation: str = ""
    """The affected operation. The entry is found through the VMs, scopes, host, request
    and events of the operation, so these need no separate rows (`linked_subjects`)."""
    facts: Facts = NOTHING
    revision: int = 0

    key = same_as("entry_id")
    """The key in a store."""

    @property
    def what(self) -> str:
        """Return the kind as text."""
        return self.kind.value

    @property
    def linked_subjects(self) -> tuple[str, ...]:
        """Return the subjects that need separate rows to find the entry.

        An entry about an operation needs rows only for the hosts of a VM's move: the
        operation's host may be neither of them.
        """
        if not self.operation:
            return self.subjects
        if self.kind is AuditKind.VM_MOVED:
            return tuple(
                subject for subject in self.subjects if subject.startswith("host:")
            )
        return ()


class EventChange(Enumeration):
    """The change of an event."""

    SCHEDULED = "scheduled"
    CHANGED = "changed"
    """A visible property of the event has changed, such as its VMs."""
    APPROVED = "approved"
    STARTED = "started"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxMessage:
    """One change of one event, or one notice, for one receiver."""

    message_id: str
    """The ID, which sorts in the order of the decisions: `sequence.key_of`."""
    receiver: str
    """The receiver's name in the settings."""
    at: Micros
    change: EventChange | None = None
    """None: the message is a notice."""
    public_id: str
    """The public ID of the change, the same at each delivery: a GUID in upper case.
    Unlike a counter, it reveals nothing about other tenants' changes."""
    body: str = ""
    """The event after the change, as JSON; empty for a notice."""
    notice: Notice | None = None
    approver: Actor | None = None
    """The approver of the event; a tenant's receiver gets it redacted."""
    revision: int = 0

    key = same_as("message_id")
    """The key in a store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token with its owner, its tenant and its rights."""

    token_id: str
    """The public ID: it appears in lists and in the token's text, and revokes it."""
    name: str
    """The owner's name, as the history shows it."""
    tenant: str
    """The tenant whose VMs the token can access; empty: an operator or a relay."""
    roles: tuple[Role, ...]
    """The rights of the holder, in the order of `Role`. A relay has none of them."""
    digest: str = field(repr=False)
    """SHA-256 of the secret, in hexadecimal."""
    created_at: Micros
    created_by: Actor
    expires_at: Micros = 0
    """When the token becomes invalid; 0: it does not expire."""
    last_used_at: Micros = 0
    """The hour of the token's last use; 0: never used."""
    is_unauthenticated: bool = False
    """The creator of the token had no token and no credentials."""
    host: str = ""
    """The host whose relay holds the token; empty: the token is for no relay."""
    revision: int = 0

    key = same_as("token_id")
    """The key in a store."""

    @property
    def read_only(self) -> bool:
        """Return whether the token can only read."""
        return self.roles == READ_ONLY

    def is_expired(self, *, now: Micros) -> bool:
        """Return whether the token has expired."""
        return self.expires_at != 0 and now >= self.expires_at


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderKey:
    """One request of a caller with a key."""

    key_id: str
    """SHA-256 of caller and key, in hexadecimal: a fixed length for both."""
    caller: str
    """The caller: the ID of a token, or a name."""
    digest: str
    """SHA-256 of the request, in hexadecimal."""
    result: str
    """The result as JSON: identifiers, not the records themselves."""
    created_at: Micros
    expires_at: Micros
    """When the key can be used for another request."""
    revision: int = 0

    key = same_as("key_id")
    """The key in a store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The choice of a tenant about its part of one request: later, or now.

    It is about one VM or a whole scope. If both exist, the later one counts for the VM.
    """

    choice_id: str
    """`choice_key` of its scope, VM and request."""
    request: str
    tenant: str
    scope: str
    vm: str = ""
    """Empty: all VMs of the scope."""
    until: Micros
    """Maintenance does not start before; 0: as soon as possible."""
    by: Actor
    reason: str
    at: Micros
    """Time of the choice."""
    deferrals: int
    """Number of times that it was deferred."""
    revision: int = 0

    key = same_as("choice_id")
    """The key in a store."""


def choice_key(request: str, scope: str, vm: str = "") -> str:
    """Return the key of the choice for a scope, or for one VM of it."""
    return f"{scope}/{vm}/{request}"


BRAKE_KEY = "brake"
"""The key of the only record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Brake:
    """The brake. It is stored while it is on, and removed when it is taken off."""

    name: str = BRAKE_KEY
    by: Actor
    reason: str
    since: Micros
    withdraws: bool = False
    """Whether announced planned work is withdrawn, instead of held."""
    losses: Losses | None = None
    """The losses that exceeded a limit; None: an operator put it on, and none did."""
    due_at: Micros = 0
    """When it is taken off by itself, unless more is lost; 0: only an operator takes it
    off."""
    revision: int = 0

    key = same_as("name")
    """The key in a store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A host or VM that was lost, for as long as the brake counts it."""

    name: str
    """The name with its kind: `host:h1`, `vm:web_0`."""
    rack: str = ""
    """The rack of a host; empty: it has none, or it is a VM."""
    due_at: Micros
    """The end of the span of the brake, at which it is forgotten."""
    revision: int = 0

    key = same_as("name")
    """The key in a store."""

    @property
    def tallies(self) -> tuple[str, ...]:
        """Return the names of the tallies that count it."""
        if self.name.startswith(LOST_VM):
            return (LOST_VMS,)
        return (LOST_HOSTS, lost_in(self.rack)) if self.rack else (LOST_HOSTS,)


LOST_HOST = "host:"
LOST_VM = "vm:"
"""Beginnings of the names of losses."""

FLEET_HOSTS = "hosts"
"""Name of the tally of the hosts of the fleet."""

LOST_HOSTS = "lost hosts"
LOST_VMS = "lost vms"
"""Names of the tallies of losses."""


def lost_in(rack: str) -> str:
    """Return the name of the tally of the lost hosts of a rack."""
    return f"lost in {rack}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """A number of records, or a sum over them, so that no decision has to count them."""

    name: str
    count: int
    """At least 1: a tally of nothing is not stored."""
    revision: int = 0

    key = same_as("name")
    """The key in a store."""


LEADER_KEY = "leader"
"""The key of the only record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """The current term and the secret of the store."""

    name: str = LEADER_KEY
    term: int
    secret: str = field(default="", repr=False)
    """256 random bits in hexadecimal, created once. The keys of the tenants' aliases are
    derived from it."""
    revision: int = 0

    key = same_as("name")
    """The key in a store."""
