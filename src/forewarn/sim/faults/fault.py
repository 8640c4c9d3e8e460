"""The kinds of faults, with their arguments; a fault and a playbook as values.

The tests write `docs/reference/faults.md` from the table of kinds. `bodies` makes the
faulty answers, and `player` applies the faults of the connection.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from forewarn.instants import Micros
from forewarn.metadata.http import Request
from forewarn.protocol.errors import ForewarnError
from forewarn.settings.tables import FileError

GET = "GET"
POST = "POST"
ANY = frozenset({GET, POST})
READS = frozenset({GET})


class Group(enum.Enum):
    """The faulty component of an exchange."""

    NONE = "nothing"
    WIRE = "the connection"
    STATUS = "the status"
    BODY = "the answer"
    DOCUMENT = "the document"


class Approval(enum.Enum):
    """The effect of a fault on an approval."""

    LOST = "lost"
    """The approval never arrives, so nothing is approved."""
    TAKEN = "taken"
    """The approval counts; only the answer to it is faulty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """The argument of a kind."""

    key: str
    """The key in a file. In a line, the value follows the name."""
    example: str
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of fault."""

    name: str
    group: Group
    sentence: str
    """The effect that the VM sees."""
    argument: Argument | None = None
    methods: frozenset[str] = ANY
    """HTTP methods of the requests that the fault hits by default."""
    approvals: tuple[Approval, ...] = ()
    """Possible effects on an approval, the default first; empty: the fault cannot hit
    an approval."""
    retry_after: int | None = None
    """Default seconds of Retry-After; -1: no header by default."""

    @property
    def reads_only(self) -> bool:
        """Return whether the fault cannot hit an approval."""
        return not self.approvals


_BOTH = (Approval.LOST, Approval.TAKEN)
_TAKEN = (Approval.TAKEN,)
_TAKEN_FIRST = (Approval.TAKEN, Approval.LOST)


def _status(status: int, meaning: str, *, retry_after: int | None = None) -> Kind:
    return Kind(
        name=str(status),
        group=Group.STATUS,
        sentence=meaning,
        approvals=_BOTH,
        retry_after=retry_after,
    )


def _document(name: str, sentence: str, argument: Argument | None = None) -> Kind:
    return Kind(
        name=name,
        group=Group.DOCUMENT,
        sentence=sentence,
        argument=argument,
        methods=READS,
    )


def _body(name: str, sentence: str) -> Kind:
    return Kind(
        name=name,
        group=Group.BODY,
        sentence=sentence,
        methods=READS,
        approvals=_TAKEN_FIRST,
    )


_KINDS = (
    Kind(
        name="ok",
        group=Group.NONE,
        sentence="The genuine answer: a step of a playbook without a fault.",
        approvals=_TAKEN,
    ),
    Kind(
        name="delay",
        group=Group.WIRE,
        sentence="The answer is made at once and sent after the delay.",
        argument=Argument(key="by", example="3s", required=True),
        approvals=_TAKEN,
    ),
    Kind(
        name="timeout",
        group=Group.WIRE,
        sentence="No answer is sent, and the connection stays open.",
        approvals=_BOTH,
    ),
    Kind(
        name="refuse",
        group=Group.WIRE,
        sentence="A new connection is reset at once, an open one at its next request.",
        approvals=(Approval.LOST,),
    ),
    Kind(
        name="reset",
        group=Group.WIRE,
        sentence="The connection is reset in the middle of the answer, or after this "
        "number of bytes.",
        argument=Argument(key="bytes", example="20"),
        approvals=_TAKEN_FIRST,
    ),
    Kind(
        name="slow",
        group=Group.WIRE,
        sentence="The answer is sent slowly: this number of bytes per unit of time.",
        argument=Argument(key="rate", example="10/s", required=True),
        approvals=_TAKEN,
    ),
    _status(400, "Bad request, for any request."),
    _status(404, "Not found, as if the endpoint did not exist."),
    _status(410, "Gone: Azure answers this during an update of the service."),
    _status(429, "Too many requests, with Retry-After.", retry_after=5),
    _status(500, "Internal server error."),
    _status(503, "Service unavailable, with Retry-After if given.", retry_after=-1),
    Kind(
        name="replace",
        group=Group.STATUS,
        sentence="A custom answer: status, headers, body and content type "
        "(in a file only).",
        approvals=_BOTH,
    ),
    _body("empty", "200 with an empty body."),
    _body("text", "200 with a sentence as text/plain."),
    _body("html", "200 with an HTML page, as from a proxy that requires a login."),
    _document("mistyped", "The document with the content type text/plain."),
    _document("broken", "The first half of the document, which is incomplete JSON."),
    _document("newline", "A raw line break inside a string, which JSON forbids."),
    _document("no-events", "The document without the member Events."),
    _document("null-events", "The document with null for Events."),
    _document("duplicate-events", "Each event is listed twice."),
    _document("reordered-events", "The events in the opposite order."),
    _document(
        "stale",
        "The previous document of this VM, or an older one: the incarnation falls. "
        "A VM without an older document gets the current one.",
        Argument(key="back", example="2"),
    ),
    _document("stuck", "The document from the start of the fault, even after changes."),
    _document(
        "incarnation-reset",
        "DocumentIncarnation is 1 again, or the given number, without other changes.",
        Argument(key="incarnation", example="7"),
    ),
    _document("iso-dates", "NotBefore in ISO 8601 format instead of RFC 1123."),
)

FAULTS: Mapping[str, Kind] = {kind.name: kind for kind in _KINDS}
"""All kinds by name, in the order of the documentation."""

ALIASES: Mapping[str, str] = {
    "good": "ok",
    "time-out": "timeout",
    "silence": "timeout",
    "silent": "timeout",
    "refused": "refuse",
    "too-many": "429",
    "missing-events": "no-events",
    "duplicated-events": "duplicate-events",
    "reorder-events": "reordered-events",
}
"""Other names of kinds."""


class FaultError(ForewarnError):
    """A fault is invalid; nothing was changed."""

    def __init__(self, message: str, *, key: str = "") -> None:
        """Set the message; `key` is the invalid key, as in a file."""
        super().__init__(message, hint="See the page 'Faults' for the syntax.")
        self.key = key


class FaultFileError(FileError):
    """A faults file is invalid; nothing was changed."""

    advice = "Fix the faults file. See the page 'Faults' for the syntax."


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
