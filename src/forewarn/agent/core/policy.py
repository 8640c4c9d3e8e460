"""What the settings want, as values: handlers, rules, margins, windows.

`forewarn.agent.settings` makes them of agent.toml and has checked them. How a
handler does its work is not known here: only its time and its weight are. Pure.
"""

from __future__ import annotations

import enum
from dataclasses import field

from forewarn.instants import HOUR, MINUTE, SECOND, Micros
from forewarn.protocol.frozen import frozen_dataclass

PEERS_EVERY: Micros = 2 * SECOND
"""Between two questions to the same agents."""


class Approve(enum.Enum):
    """When a rule wants an event approved; the value is what settings say."""

    AT_ONCE = "at once"
    PREPARED = "when prepared"
    NEVER = "never"


class Approver(enum.Enum):
    """Who of the VMs that an event names approves it (clause 8.6)."""

    ANY = "any"
    """Each for itself; the first approval counts."""
    LEADER = "leader"
    """The first in Resources; the others take over, in their order. Not while another
    named VM says that it is not prepared; one that says nothing is not waited for."""
    ALL = "all"
    """As LEADER, and only when every named VM says that it is prepared."""


@frozen_dataclass
class Handler:
    """What decisions need to know of a handler."""

    name: str
    kind: str = ""
    """Its word in the settings; another kind cannot undo what it did."""
    timeout: Micros = 5 * MINUTE
    """For one preparation, where NotBefore leaves so much."""
    recover_timeout: Micros = 5 * MINUTE
    required: bool = True
    """Its failure withholds the approval."""
    retries: int = 0
    """Further attempts of a preparation that failed, while there is time."""
    priority: int = 0
    """In a hurry the handlers of highest priority come first, and one after the other."""
    prepares: bool = True
    """It has something to do before an event."""
    recovers: bool = True
    """It has something to do after one."""
    always: bool = False
    """Its recovery runs once where the journal was lost, as after a redeploy."""


@frozen_dataclass
class Rule:
    """What to do with the events that match; every condition given must hold."""

    name: str
    """How logs and `agent try` call it: `rule 2`, or its own name."""
    types: frozenset[str] = frozenset()
    """Empty: any, as with all sets here."""
    statuses: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset()
    min_duration: int | None = None
    """Seconds; an unknown duration (-1) has no least and no most (clause 8.4)."""
    max_duration: int | None = None
    description: str = ""
    """A glob over the description, in any case; empty: any."""
    min_lead: Micros | None = None
    """Of the time until NotBefore, now; an event without NotBefore has none."""
    max_lead: Micros | None = None
    min_resources: int | None = None
    max_resources: int | None = None
    mine: bool = True
    """Whether events that name this VM, or those that do not, are meant."""
    groups: tuple[tuple[str, ...], ...] = ()
    """Names of handlers: those of a group side by side, then the next group."""
    start_before: Micros | None = None
    """How long before NotBefore to begin; None: at once."""
    starts: tuple[tuple[str, Micros], ...] = ()
    """Handlers that begin later than the others, each so long before NotBefore."""
    approve: Approve = Approve.PREPARED
    approver: Approver = Approver.ANY
    takeover: Micros = 30 * SECOND
    """How long each of the others waits for the one before it."""
    lock: bool = True
    """Whether it approves only with the lock, where the settings have one."""
    gate: bool = True
    """Whether it approves only while no alert fires, where the settings have a gate."""


@frozen_dataclass
class Window:
    """A time of the week, in a time zone."""

    days: frozenset[int]
    """0 is Monday; the day on which it begins."""
    begins: int
    """Minutes after midnight."""
    ends: int
    """Minutes after midnight; not after `begins`: on the next day."""
    zone: str = "UTC"


@frozen_dataclass
class Standby:
    """Approving for a named VM that stays silent (clause 8.3)."""

    names: frozenset[str]
    after: Micros = 60 * SECOND
    sources: frozenset[str] = frozenset({"User"})


@frozen_dataclass
class LockTerms:
    """The lock that limits how many VMs are approved at once."""

    label: str
    """Which lock it is, for a person: `lock default (fleetlock at …)`."""
    holder: str = ""
    """This VM's ID in it; empty: its name."""
    pause: Micros = 0
    """How long it is held on to after the recovery."""
    margin: Micros = 10 * SECOND
    """It is waited for until so long before NotBefore."""
    withholds: bool = False
    """What happens then: nothing is approved any more; else it is, without the lock."""
    ttl: Micros = 0
    """How long after it was last confirmed another VM may have it; 0: never."""
    timeout: Micros = 30 * SECOND
    """For one request."""


@frozen_dataclass
class GateTerms:
    """The gate that holds approvals back while alerts fire."""

    label: str
    """Which alert server it is, for a person: `Prometheus at …`."""
    every: Micros = 30 * SECOND
    """Between two questions while an approval is held back."""
    clear_for: Micros = MINUTE
    """How long no alert must have fired after one did, or after trouble."""
    goes_unknown: bool = False
    """Whether approvals go on where the server gives no usable answer."""
    timeout: Micros = 5 * SECOND
    """For one question."""


@frozen_dataclass
class GoneAfter:
    """For how long answers must be without an event until it is taken as gone.

    One more answer than the first is needed in any case. Of the lengths that apply,
    the longest counts.
    """

    scheduled: Micros = 5 * SECOND
    """For an event that has not started: a recovery too early costs little, since it
    is prepared for again if it returns."""
    started: Micros = 30 * SECOND
    """For an event that may have started: a recovery in the middle of its impact puts
    the VM back to work too early. Azure lists events ten minutes beyond the impact,
    so half a minute more costs little."""
    empty: Micros = MINUTE
    """Where the answers are empty bodies. Some endpoints always answer so when there
    are no events, others by mistake."""
    reset: Micros = 5 * MINUTE
    """After the incarnation was reset: a service that was enabled again may take five
    minutes to list what is under way (clause 7.1)."""


@frozen_dataclass
class Policy:
    """All that decisions depend on besides the events."""

    handlers: tuple[Handler, ...] = ()
    rules: tuple[Rule, ...] = ()
    margin: Micros = 2 * SECOND
    """Preparation ends so long before NotBefore."""
    urgent_time: Micros = 10 * SECOND
    """What preparation may take where the impact may come at any moment."""
    stop_grace: Micros = 5 * SECOND
    """At most, between asking a handler to stop and killing it."""
    windows: tuple[Window, ...] = ()
    """When early approvals may be given; none: at any time."""
    blackouts: tuple[Window, ...] = ()
    """When they may not."""
    standby: Standby | None = None
    has_peers: bool = False
    peers_every: Micros = PEERS_EVERY
    lock: LockTerms | None = None
    gate: GateTerms | None = None
    is_observer: bool = False
    """Nothing is run and nothing approved: it only tells."""
    gone_after: GoneAfter = GoneAfter()
    forget_after: Micros = 24 * HOUR
    """A task that is over leaves the memory then; the history keeps it."""

    by_name: dict[str, Handler] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Index the handlers."""
        index = {handler.name: handler for handler in self.handlers}
        object.__setattr__(self, "by_name", index)
