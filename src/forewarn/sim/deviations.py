"""Deviations of clients from the protocol, each with its clause.

Most deviations get an error as answer. The others would fail at another service, or in a
future version. The profile decides whether deviations are reported; the journal has all.
Judging does not change any answer.
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
"""Maximum requests of one VM per second: the general limit of Azure (1.9)."""

POLL_SECONDS = 1.0

APPROVED_MAX = 1_000
"""Maximum number of stored approved events of one VM."""

_OK = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule of the protocol for clients."""

    name: str
    clause: str
    """The clause in docs/reference/protocol.md."""
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """A violation of a rule by a client."""

    rule: Rule
    detail: str = ""
    """The detail in this request."""

    @property
    def name(self) -> str:
        """Return the rule's name."""
        return self.rule.name

    def __str__(self) -> str:
        """Return a line of text."""
        detail = f": {self.detail}" if self.detail else ""
        return f"{self.rule.sentence} ({self.rule.clause}){detail}"


def _rules(*rows: tuple[str, str, str]) -> Mapping[str, Rule]:
    return {
        name: Rule(name=name, clause=clause, sentence=sentence)
        for name, clause, sentence in rows
    }


RULES = _rules(
    ("http", "1.6", "The request is not well-formed HTTP/1.1"),
    ("forwarded", "1.7", "X-Forwarded-For was sent: the request came through a proxy"),
    ("header", "1.6", "`Metadata: true` is missing, repeated or has another value"),
    ("path", "1.2", "The path does not exist"),
    ("verb", "1.2", "The method is not GET or POST, or not valid for this path"),
    ("version", "1.3", "api-version is missing, repeated or unknown"),
    ("parameter", "1.11", "A parameter has an invalid value"),
    ("path-case", "1.2", "The case of the path differs from the documented path"),
    (
        "path-spelling",
        "1.1",
        "The path ends with a slash, is escaped, or is a full URL",
    ),
    ("no-body", "3.1", "An approval has no body"),
    ("body", "3.3", "The body is not a list of approvals"),
    ("unknown-event", "3.3", "No document has, or had, an event with this ID"),
    ("foreign-event", "3.3", "The event is not in the document of this VM"),
    (
        "unnamed",
        "8.3",
        "The VM approved an event that does not name it, which only a leader should do",
    ),
    ("again", "3.2", "The VM approved an event again after an answer with 200"),
    ("too-often", "1.9", f"More than {POLLS_MAX} requests within a second"),
)
"""All rules by name."""

TOO_OFTEN = Deviation(rule=RULES["too-often"])
"""The only deviation that a repeated valid request can have."""

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
"""The rule behind each refusal of the endpoint."""

_CANONICAL = ("/metadata/scheduledevents", "/metadata/instance", "/metadata/versions")


@dataclass(slots=True)
class Client:
    """The stored state of one VM."""

    request: Request | None = None
    found: tuple[Deviation, ...] = ()
    """The deviations of `request`, which a poller sends repeatedly."""
    asked: deque[float] = field(default_factory=lambda: deque(maxlen=POLLS_MAX + 1))
    spared_until: float = 0.0
    """Until this time, too many requests are not reported again."""
    approved: dict[str, None] = field(default_factory=dict[str, None])

    def is_hasty(self, io_time: float) -> bool:
        """Return whether the last counted request exceeds the limit."""
        asked_times = self.asked
        if len(asked_times) <= POLLS_MAX or io_time - asked_times[0] >= POLL_SECONDS:
            return False
        self.spared_until = io_time + POLL_SECONDS
        return True


class Inspector:
    """A judge of the requests to one simulated server."""

    def __init__(
        self,
        *,
        route: Callable[[Request], Route | Response],
        event: Callable[[str], Event | None],
    ) -> None:
        """Use `route` to route a request, and `event` to find a stored event."""
        self._route = route
        self._event = event
        self._clients: dict[str, Client] = defaultdict(Client)

    def judge(
        self,
        vm: str,
        request: Request,
        *,
        genuine: Response | None,
        answer: Response | None,
        io_time: float,
    ) -> tuple[Deviation, ...]:
        """Return the deviations of a request and of its time.

        `genuine` is the answer of the endpoint, or None if the request did not reach it.
        `answer` is the answer that the client got.
        """
        client, deviations_found = self.know(vm, request)
        client.asked.append(io_time)
        if io_time >= client.spared_until and client.is_hasty(io_time):
            deviations_found = (*deviations_found, TOO_OFTEN)
        if request.method == "POST" and genuine is not None:
            deviations_found += tuple(
                self._approvals(vm, request, genuine, answer is genuine)
            )
        return deviations_found

    def know(self, vm: str, request: Request) -> tuple[Client, tuple[Deviation, ...]]:
        """Return the state of a VM, and the deviations of a request without its time.

        For a repetition of the same request, only the rate needs to be checked.
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
                # One invalid ID refuses the whole request, and the refusal names it.
                if event_id.encode("ascii") in genuine.payload:
                    yield _deviation(
                        "unknown-event" if event is None else "foreign-event", event_id
                    )
                continue
            if event is not None and all(
                resource.vm != vm for resource in event.resources
            ):
                names = ", ".join(resource.name for resource in event.resources)
                yield _deviation("unnamed", f"{event_id} names {names}")
            if event_id in client.approved:
                yield _deviation("again", event_id)
            elif was_told:
                # A client whose answer was lost should approve again.
                client.approved[event_id] = None
                if len(client.approved) > APPROVED_MAX:
                    del client.approved[next(iter(client.approved))]


def inspect(request: Request, route: Route | Response) -> Iterator[Deviation]:
    """Yield the deviations of a request without its time; `route` is its route."""
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
    """Return the deviation of a request that was refused before it was read."""
    return (_deviation("http", f"it was answered with {refusal.status}"),)


def approved_ids(request: Request) -> tuple[str, ...]:
    """Return the IDs of the events in a POST; empty if it is malformed."""
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
        # Paths below the instance may be escaped, such as the name of a tag.
        return []
    if path in _CANONICAL or path.startswith("/metadata/forewarn/"):
        return []
    is_case = path.lower().startswith(_CANONICAL) and not path.endswith("/")
    return [_deviation("path-case" if is_case else "path-spelling", path)]
