"""A fault and a playbook as values."""

import enum
from dataclasses import dataclass, field

from forewarn.instants import Micros
from forewarn.metadata.http import Request
from forewarn.sim.faults.kinds import FAULTS, Approval, Group, Kind

TIMES_MAX = 1_000_000
"""Maximum count of a fault. Without a count, a fault lasts until it is cleared."""

STEPS_MAX = 1_000
"""Maximum number of steps in a playbook, so that a list stays small."""

BODY_MAX = 1 << 20
"""Maximum bytes of a replacement body: sixteen times the largest useful document."""

_EVENTS = "/metadata/scheduledevents"
_INSTANCE = "/metadata/instance"


class Where(enum.Enum):
    """The paths that a fault applies to."""

    EVENTS = "events"
    INSTANCE = "instance"
    ALL = "all"

    def has(self, path: str) -> bool:
        """Return whether the fault applies to a path."""
        if self is Where.ALL:
            return True
        below = path.lower()
        if self is Where.EVENTS:
            return below.rstrip("/") == _EVENTS
        return below.startswith(_INSTANCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """A replacement answer."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault of the next requests that match it."""

    kind: str
    """A name in `FAULTS`."""
    times: int | None = None
    """Number of requests that the fault hits; None: all, until it is cleared or
    ends."""
    methods: frozenset[str] = frozenset()
    """Methods of requests; empty: the default of the kind."""
    where: Where = Where.EVENTS
    approval: Approval | None = None
    """Effect on an approval; None: the default of the kind."""
    flapping: bool = False
    """Hit every other request, starting with the first."""
    after: Micros = 0
    """Model time until the fault starts, from the moment it is set or its step
    begins."""
    lasts: Micros | None = None
    """Model time after which the fault ends automatically."""
    delay: Micros = 0
    """Delay of `delay`, in real time like everything that a client waits for."""
    size: int | None = None
    """Bytes before a `reset`, or bytes per chunk of `slow`."""
    pause: Micros = 0
    """Real time between two chunks of `slow`."""
    count: int = 1
    """Number of documents back (`stale`), or the incarnation (`incarnation-reset`)."""
    retry_after: int | None = None
    """Seconds of Retry-After; None: the default of the kind."""
    replacement: Replacement = field(default_factory=Replacement)
    """The answer of `replace`."""

    def __post_init__(self) -> None:
        """Check the kind, as the parser does for text."""
        assert self.kind in FAULTS, self.kind

    @property
    def what(self) -> Kind:
        """Return its kind."""
        return FAULTS[self.kind]

    @property
    def arrives(self) -> bool:
        """Return whether a request that it hits reaches the endpoint."""
        usual = self.what.approvals[0] if self.what.approvals else Approval.TAKEN
        return (self.approval or usual) is Approval.TAKEN

    @property
    def needs_document(self) -> bool:
        """Return whether the fault needs the full genuine answer."""
        return self.what.group in {Group.BODY, Group.DOCUMENT}

    def fits(self, request: Request | None) -> bool:
        """Return whether the fault may hit this request; None means a new
        connection."""
        if request is None:
            return self.kind == "refuse"
        methods = self.methods or self.what.methods
        return request.method in methods and self.where.has(request.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Playbook:
    """A sequence of faults; each VM has its own position in it."""

    steps: tuple[Fault, ...]
    vms: tuple[str, ...] = ()
    """Empty: every VM."""
    loops: bool = False
    """Whether to start again after the last fault. If False, no faults follow it."""
    file: str = field(default="", compare=False)
    """The file that names its VMs, for messages; empty: no file."""
    line: int = field(default=0, compare=False)
