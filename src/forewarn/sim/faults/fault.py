"""A fault and a playbook, as values: what goes wrong, with what, how often, when."""

import enum
from dataclasses import dataclass, field

from forewarn.instants import Micros
from forewarn.metadata.http import Request
from forewarn.sim.faults.kinds import FAULTS, Approval, Group, Kind

TIMES_MAX = 1_000_000
"""More requests than anybody counts; leave the number out for "until cleared"."""

STEPS_MAX = 1_000
"""Steps of a playbook: more are a program, not a list."""

BODY_MAX = 1 << 20
"""Bytes of an answer of one's own: sixteen times the largest useful document."""

_EVENTS = "/metadata/scheduledevents"
_INSTANCE = "/metadata/instance"


class Where(enum.Enum):
    """Which paths a fault is for."""

    EVENTS = "events"
    INSTANCE = "instance"
    ALL = "all"

    def has(self, path: str) -> bool:
        """Tell whether a request's path is one of these."""
        if self is Where.ALL:
            return True
        below = path.lower()
        if self is Where.EVENTS:
            return below.rstrip("/") == _EVENTS
        return below.startswith(_INSTANCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """An answer of somebody's own."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that goes wrong with the next requests that it fits."""

    kind: str
    """A name in FAULTS."""
    times: int | None = None
    """How many requests it hits; None: all, until it is cleared or over."""
    methods: frozenset[str] = frozenset()
    """Empty: those that the kind hits."""
    where: Where = Where.EVENTS
    approval: Approval | None = None
    """What becomes of an approval; None: as usual for the kind."""
    flapping: bool = False
    """Every other request is answered as ever; the first is hit."""
    after: Micros = 0
    """Model time from when it is set, or its turn comes, until it begins."""
    lasts: Micros | None = None
    """Model time until it is over by itself."""
    delay: Micros = 0
    """Of `delay`. It is real time, as all that a client waits for."""
    size: int | None = None
    """Of `reset`, the bytes before it; of `slow`, those that go together."""
    pause: Micros = 0
    """Of `slow`: between two parts, in real time."""
    count: int = 1
    """Of `stale`, how many documents back; of `incarnation-reset`, the number."""
    retry_after: int | None = None
    """Seconds; None: as usual for the kind."""
    replacement: Replacement = field(default_factory=Replacement)
    """Of `replace`."""

    def __post_init__(self) -> None:
        """Hold a program to what a text is held to."""
        assert self.kind in FAULTS, self.kind

    @property
    def what(self) -> Kind:
        """Return the row of its kind."""
        return FAULTS[self.kind]

    @property
    def arrives(self) -> bool:
        """Tell whether the endpoint gets a request that is hit."""
        usual = self.what.approvals[0] if self.what.approvals else Approval.TAKEN
        return (self.approval or usual) is Approval.TAKEN

    @property
    def needs_document(self) -> bool:
        """Tell whether it is made of the genuine answer, which must be in full."""
        return self.what.group in {Group.BODY, Group.DOCUMENT}

    def fits(self, request: Request | None) -> bool:
        """Tell whether it may hit this request; None is a connection's beginning."""
        if request is None:
            return self.kind == "refuse"
        methods = self.methods or self.what.methods
        return request.method in methods and self.where.has(request.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Playbook:
    """Faults, one after the other; each VM goes through them by itself."""

    steps: tuple[Fault, ...]
    vms: tuple[str, ...] = ()
    """Empty: every VM."""
    loops: bool = False
    """Begin again after the last; else everything is well from then on."""
    file: str = field(default="", compare=False)
    """Where its VMs are named, for messages; empty: in no file."""
    line: int = field(default=0, compare=False)
