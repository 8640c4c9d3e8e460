"""The settings that decisions depend on, as values: handlers, rules, margins, windows.

`forewarn.agent.settings` creates them from agent.toml and has checked them. Decisions
know the timeouts and priorities of handlers, but not how they work. Pure.
"""

from __future__ import annotations

import enum
from dataclasses import field

from forewarn.instants import HOUR, MINUTE, SECOND, Micros
from forewarn.protocol.frozen import frozen_dataclass

PEERS_EVERY: Micros = 2 * SECOND
"""Pause between two requests to the same peer."""


HANDLER_TIMEOUT: Micros = 5 * MINUTE
"""Default timeout of a handler."""


class Approve(enum.Enum):
    """When a rule approves an event; the values are those of the settings."""

    AT_ONCE = "at once"
    PREPARED = "when prepared"
    NEVER = "never"


class Approver(enum.Enum):
    """Rule for which of the named VMs approves the event (clause 8.6)."""

    ANY = "any"
    """Each named VM approves; the first approval counts."""
    LEADER = "leader"
    """The first VM in Resources approves; the others take over in their order. The
    first VM waits while another named VM reports that it is not prepared. It does not
    wait for silent VMs."""
    ALL = "all"
    """The same VM as with LEADER, but only when every named VM reports that it is
    prepared."""


@frozen_dataclass
class Handler:
    """The properties of a handler that decisions depend on."""

    name: str
    kind: str = ""
    """Kind of the handler in the settings. A handler of another kind cannot undo its
    work."""
    timeout: Micros = HANDLER_TIMEOUT
    """Time for one preparation, if NotBefore leaves enough time."""
    recover_timeout: Micros = HANDLER_TIMEOUT
    required: bool = True
    """Whether a failure of the handler withholds the approval."""
    retries: int = 0
    """Further attempts of a failed preparation, while there is time."""
    priority: int = 0
    """Priority of the handler in urgent events: the highest runs first."""
    prepares: bool = True
    """Whether the handler prepares for events."""
    recovers: bool = True
    """Whether the handler recovers after events."""
    always: bool = False
    """Whether the handler recovers once after a lost journal, such as after a
    redeploy."""


@frozen_dataclass
class Rule:
    """The actions for matching events; every condition that is set must hold."""

    name: str
    """Name of the rule in logs and in `agent try`: set in the settings, or `rule 2`."""
    types: frozenset[str] = frozenset()
    """Empty: any, as with all sets here."""
    statuses: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset()
    min_duration: int | None = None
    """Minimum duration in seconds. An unknown duration (-1) counts as longer than any
    (clause 8.4)."""
    max_duration: int | None = None
    description: str = ""
    """A glob for the description, ignoring case; empty: any."""
    min_lead: Micros | None = None
    """Minimum time left until NotBefore; an event without NotBefore has none."""
    max_lead: Micros | None = None
    min_resources: int | None = None
    max_resources: int | None = None
    mine: bool = True
    """True: events that name this VM. False: events that do not."""
    groups: tuple[tuple[str, ...], ...] = ()
    """Names of handlers. Those in one group run in parallel, one group after
    another."""
    start_before: Micros | None = None
    """How long before NotBefore preparation begins; None: at once."""
    starts: tuple[tuple[str, Micros], ...] = ()
    """Handlers that start later than the others, each this long before NotBefore."""
    approve: Approve = Approve.PREPARED
    approver: Approver = Approver.ANY
    takeover: Micros = 30 * SECOND
    """How long each of the other VMs waits for the one before it."""
    lock: bool = True
    """Whether the rule approves only with the lock, if the settings have one."""
    gate: bool = True
    """Whether the rule approves only while no alert fires, if the settings have a
    gate."""


@frozen_dataclass
class Window:
    """A weekly interval in a time zone."""

    days: frozenset[int]
    """The days on which the window begins; 0 is Monday."""
    begins: int
    """Minutes after midnight."""
    ends: int
    """Minutes after midnight. If not after `begins`, it ends on the next day."""
    zone: str = "UTC"


@frozen_dataclass
class Standby:
    """[standby]: approving on behalf of a silent VM (clause 8.3)."""

    names: tuple[str, ...] = ()
    """Empty: none."""
    after: Micros = 60 * SECOND
    source: tuple[str, ...] = ("User",)
    """Empty: any."""


@frozen_dataclass
class LockTerms:
    """The settings of the lock that limits how many VMs are approved at once."""

    label: str
    """Identifies the lock, for a person: `lock default (fleetlock at …)`."""
    holder: str = ""
    """This VM's ID in the lock; empty: its name."""
    pause: Micros = 0
    """How long the lock is held after the recovery."""
    margin: Micros = 10 * SECOND
    """The agent waits for the lock until this long before NotBefore."""
    withholds: bool = False
    """Whether an event without the lock at that time is not approved. False: it is
    approved."""
    ttl: Micros = 0
    """How long after its last confirmation the lock expires; 0: never."""
    timeout: Micros = 30 * SECOND
    """For one request."""


@frozen_dataclass
class GateTerms:
    """The settings of the gate that holds approvals back while alerts fire."""

    label: str
    """Identifies the alert server, for a person: `Prometheus at …`."""
    every: Micros = 30 * SECOND
    """Pause between two requests while an approval is held back."""
    clear_for: Micros = MINUTE
    """How long no alert may fire after an alert or an unusable answer."""
    goes_unknown: bool = False
    """Whether events are approved if the server gives no usable answer."""
    timeout: Micros = 5 * SECOND
    """For one request."""


@frozen_dataclass
class GoneAfter:
    """How long answers must not list an event until it counts as ended.

    At least a second answer without the event is always needed. If several of these
    times apply, the longest counts.
    """

    scheduled: Micros = 5 * SECOND
    """Time for an event that has not started. A recovery that is too early does little
    harm: if the event returns, the handlers prepare again."""
    started: Micros = 30 * SECOND
    """Time for an event that may have started. A recovery during the impact puts the VM
    back to work too early. Azure lists events for ten minutes after the impact, so
    another half minute does little harm."""
    empty: Micros = MINUTE
    """Time for answers with an empty body. Some endpoints always answer so when there
    are no events, others by mistake."""
    reset: Micros = 5 * MINUTE
    """Time for documents after the incarnation was reset. A metadata service that is
    enabled again may take five minutes to list current events (clause 7.1)."""


@frozen_dataclass
class Policy:
    """Everything that decisions depend on, except the memory and the inputs."""

    handlers: tuple[Handler, ...] = ()
    rules: tuple[Rule, ...] = ()
    margin: Micros = 2 * SECOND
    """Preparation ends this long before NotBefore."""
    urgent_time: Micros = 10 * SECOND
    """Time for preparation if the impact can begin at any moment."""
    stop_grace: Micros = 5 * SECOND
    """Maximum time between asking a handler to stop and killing it."""
    windows: tuple[Window, ...] = ()
    """When early approvals are allowed; none: at any time."""
    blackouts: tuple[Window, ...] = ()
    """When early approvals are not allowed."""
    standby: Standby = Standby()
    has_peers: bool = False
    peers_every: Micros = PEERS_EVERY
    lock: LockTerms | None = None
    gate: GateTerms | None = None
    is_observer: bool = False
    """The agent only observes: it runs no handler and approves nothing."""
    gone_after: GoneAfter = GoneAfter()
    forget_after: Micros = 24 * HOUR
    """When a finished task is removed from the memory. The history keeps it longer."""

    by_name: dict[str, Handler] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Index the handlers."""
        index = {handler.name: handler for handler in self.handlers}
        object.__setattr__(self, "by_name", index)
