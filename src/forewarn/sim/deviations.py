"""What a client did otherwise than the protocol says, each with the clause.

Most of it is answered with an error anyway; some is not, and would fail only at
another service, or one day. A profile decides what is reported, the journal keeps
all. Judging changes nothing that is answered.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from forewarn.metadata import answers
from forewarn.metadata.http import Request, Response
from forewarn.metadata.routes import Route
from forewarn.protocol import approvals
from forewarn.protocol.errors import BadRequestError
from forewarn.protocol.events import Event

POLLS_MAX = 5
"""Requests of one VM within a second: the general limit of the real service (1.9)."""

POLL_SECONDS = 1.0

APPROVED_MAX = 1_000
"""Approved events that are remembered of one VM."""

_OK = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Something that a client should not do."""

    name: str
    clause: str
    """Of docs/reference/protocol.md."""
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """That a client did it."""

    rule: Rule
    detail: str = ""
    """What it was, in this request."""

    @property
    def name(self) -> str:
        """Return the rule's name."""
        return self.rule.name

    def __str__(self) -> str:
        """Return the line for a person."""
        detail = f": {self.detail}" if self.detail else ""
        return f"{self.rule.sentence} ({self.rule.clause}){detail}"


def _rules(*rows: tuple[str, str, str]) -> Mapping[str, Rule]:
    return {
        name: Rule(name=name, clause=clause, sentence=sentence)
        for name, clause, sentence in rows
    }


RULES = _rules(
    ("http", "1.6", "The request is no well-formed HTTP/1.1"),
    ("forwarded", "1.7", "X-Forwarded-For was sent: a proxy stands in between"),
    ("header", "1.6", "`Metadata: true` is missing, repeated or something else"),
    ("path", "1.2", "There is nothing at this path"),
    ("verb", "1.2", "The verb is not GET or POST, or not of this path"),
    ("version", "1.3", "api-version is missing, repeated or unknown"),
    ("parameter", "1.11", "A parameter has a value that is not understood"),
    ("path-case", "1.2", "The path is answered in any case, but is written otherwise"),
    ("path-spelling", "1.1", "The path has a slash at its end, or is escaped or whole"),
    ("no-body", "3.1", "An approval has no body"),
    ("body", "3.3", "The body is no list of approvals"),
    ("unknown-event", "3.3", "No event with this id is, or was, in any document"),
    ("foreign-event", "3.3", "The event is not in the document of this VM"),
    (
        "unnamed",
        "8.3",
        "The VM approved an event that does not name it: a leader's part only",
    ),
    ("again", "3.2", "The VM approved an event again that it had approved with 200"),
    ("too-often", "1.9", f"More than {POLLS_MAX} requests within a second"),
)
"""Every rule by its name."""

TOO_OFTEN = Deviation(rule=RULES["too-often"])
"""What alone can be wrong with a request that was right before."""

_BY_REFUSAL: Mapping[Response, str] = {
    answers.FORWARDED: "forwarded",
    answers.HEADER_MISSING: "header",
    answers.NOT_FOUND: "path",
    answers.READ_ONLY: "verb",
    answers.READ_OR_APPROVE: "verb",
    answers.EVENTS_VERSION: "version",
    answers.INSTANCE_VERSION: "version",
    answers.OWN_EVENTS_VERSION: "version",
    answers.INSTANCE_FORMAT: "parameter",
    answers.WAIT: "parameter",
}
"""What the endpoint's own refusals say about the request."""

_CANONICAL = ("/metadata/scheduledevents", "/metadata/instance", "/metadata/versions")


@dataclass(slots=True)
class Client:
    """What is remembered of one VM."""

    request: Request | None = None
    found: tuple[Deviation, ...] = ()
    """What is wrong with `request` by itself: a poller sends the same again."""
    asked: deque[float] = field(default_factory=lambda: deque(maxlen=POLLS_MAX + 1))
    spared_until: float = 0.0
    """Until then, nothing is told of how often it asks."""
    approved: dict[str, None] = field(default_factory=dict[str, None])

    def is_hasty(self, io_time: float) -> bool:
        """Tell whether the last of those that were counted is one too many."""
        asked = self.asked
        if len(asked) <= POLLS_MAX or io_time - asked[0] >= POLL_SECONDS:
            return False
        self.spared_until = io_time + POLL_SECONDS
        return True


class Inspector:
    """Judges the requests of one stage."""

    def __init__(
        self,
        *,
        route: Callable[[Request], Route | Response],
        event: Callable[[str], Event | None],
    ) -> None:
        """Ask `route` what a request is for, and `event` for one that is stored."""
        self._route = route
        self._event = event
        self._clients: dict[str, Client] = defaultdict(Client)

    def judge(
        self,
        vm: str,
        request: Request,
        *,
        genuine: Response | None,
        given: Response | None,
        io_time: float,
    ) -> tuple[Deviation, ...]:
        """Return what is wrong with a request, and with when it came.

        `genuine` is what the endpoint said, None if it was not asked; `given` is
        what the client got.
        """
        client, found = self.know(vm, request)
        client.asked.append(io_time)
        if io_time >= client.spared_until and client.is_hasty(io_time):
            found = (*found, TOO_OFTEN)
        if request.method == "POST" and genuine is not None:
            found += tuple(self._approvals(vm, request, genuine, given is genuine))
        return found

    def know(self, vm: str, request: Request) -> tuple[Client, tuple[Deviation, ...]]:
        """Return a VM as it is remembered, and what is wrong with a request by itself.

        Whoever sees the same request again need ask only whether the VM hurries.
        """
        client = self._clients[vm]
        if request is not client.request:
            client.found = tuple(inspect(request, self._route(request)))
            client.request = request
        return client, client.found

    def _approvals(
        self,
        vm: str,
        request: Request,
        genuine: Response,
        was_told: bool,  # noqa: FBT001 - of four values in a private call
    ) -> Iterator[Deviation]:
        client = self._clients[vm]
        for event_id in approved_ids(request):
            event = self._event(event_id)
            if genuine.status != _OK:
                # One bad id refuses all; the refusal names it.
                if event_id.encode("ascii") in genuine.payload:
                    name = "unknown-event" if event is None else "foreign-event"
                    yield _deviation(name, event_id)
                continue
            if event is not None and all(each.vm != vm for each in event.resources):
                names = ", ".join(each.name for each in event.resources)
                yield _deviation("unnamed", f"{event_id} names {names}")
            if event_id in client.approved:
                yield _deviation("again", event_id)
            elif was_told:
                # One whose answer was lost had better approve again.
                client.approved[event_id] = None
                if len(client.approved) > APPROVED_MAX:
                    del client.approved[next(iter(client.approved))]


def inspect(request: Request, route: Route | Response) -> Iterator[Deviation]:
    """Yield what is wrong with a request by itself; `route` is what it asks for."""
    if not isinstance(route, Response):
        yield from _spelling(request.path)
    elif (name := _BY_REFUSAL.get(route)) is not None:
        yield _deviation(name, _detail(name, request))
    if request.method == "POST" and not request.body:
        yield _deviation("no-body")
    elif request.method == "POST":
        try:
            approvals.parse_start_requests(request.body)
        except BadRequestError as error:
            yield _deviation("body", error.message)


def unread(refusal: Response) -> tuple[Deviation, ...]:
    """Return what is wrong with a request that was refused before it was read."""
    return (_deviation("http", f"it was answered with {refusal.status}"),)


def approved_ids(request: Request) -> tuple[str, ...]:
    """Return the ids of the events that a POST approves; none if it is malformed."""
    try:
        return approvals.parse_start_requests(request.body)
    except BadRequestError:
        return ()


def _deviation(name: str, detail: str = "") -> Deviation:
    return Deviation(rule=RULES[name], detail=detail)


def _detail(name: str, request: Request) -> str:
    values = ", ".join(request.values("metadata"))
    return {
        "header": f"it was {values!r}" if values else "it is missing",
        "version": request.query,
        "parameter": request.query,
        "verb": f"{request.method} {request.path}",
        "path": request.path,
    }.get(name, "")


def _spelling(path: str) -> list[Deviation]:
    if path.startswith(_CANONICAL[1] + "/") and not path.endswith("/"):
        # What is below the instance may be escaped, as a tag's name.
        return []
    if path in _CANONICAL or path.startswith("/metadata/forewarn/"):
        return []
    if path.lower().startswith(_CANONICAL) and not path.endswith("/"):
        return [_deviation("path-case", path)]
    return [_deviation("path-spelling", path)]
