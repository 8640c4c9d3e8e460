"""A long visit to the server, the same for each defect, without a socket or a wait.

It looks at the story and not at the answers, so that it continues with any defect.
"""

import itertools
import json
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass

from forewarn.clock import VirtualClock
from forewarn.instants import HOUR, MILLISECOND, SECOND, Micros
from tests.support.planted.catalog import Defect
from tests.support.planted.endpoint import (
    EVENTS,
    INSTANCE,
    INSTANCE_VERSIONS,
    NEWEST,
    PREVIEW,
    VERSIONS,
    VERSIONS_PATH,
)
from tests.support.planted.fleet import FLEET
from tests.support.planted.messages import Connection
from tests.support.planted.serving import ASKER, Backend
from tests.support.planted.story import QUICK, Event, Pace

BEGIN: Micros = 1_775_000_000 * SECOND + 700 * MILLISECOND
"""When a visit begins: not at a whole second."""

PAUSE: Micros = 25 * MILLISECOND
"""Time between two requests: below the limit of requests per second."""

LOOK: Micros = 100 * MILLISECOND
"""Time between two polls of a story whose phases last at least twice as long."""

WATCHED = 130
"""Looks after which a round of the story has ended."""

APPROVED_LOOKS = 150
"""Looks after which some rounds have ended, whose events are approved."""

UNSEEN = "00000000-0000-4000-8000-00000000DEAD"

MARK = ("Metadata", "true")


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request of one VM, its response, and the time."""

    at: Micros
    vm: str
    sent: bytes
    got: bytes

    @property
    def status(self) -> int:
        """Return the status of the answer."""
        return int(self.got.split(b" ", 2)[1])

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers of the answer, by names in lower case."""
        head = self.got.partition(b"\r\n\r\n")[0].decode("latin-1")
        pairs = (line.partition(": ") for line in head.split("\r\n")[1:])
        return {name.lower(): value for name, _, value in pairs}

    @property
    def body(self) -> bytes:
        """Return what follows the headers."""
        return self.got.partition(b"\r\n\r\n")[2]

    @property
    def version(self) -> str:
        """Return the api-version that was asked with, if that was all."""
        line = self.sent.split(b" ", 2)[1].decode()
        return line.partition(f"{EVENTS}?api-version=")[2]


def request(
    method: str = "GET",
    target: str = f"{EVENTS}?api-version={NEWEST}",
    headers: Iterable[tuple[str, str]] = (MARK,),
    body: bytes = b"",
) -> bytes:
    """Return the bytes of a request."""
    lines = [f"{method} {target} HTTP/1.1", "Host: 127.0.0.1"]
    lines += [f"{name}: {value}" for name, value in headers]
    lines += [f"Content-Length: {len(body)}"] if body or method == "POST" else []
    return "\r\n".join((*lines, "", "")).encode() + body


def approval(*ids: str) -> bytes:
    """Return the body that approves events."""
    entries = [{"EventId": event_id} for event_id in ids]
    return json.dumps({"StartRequests": entries}).encode()


def post(
    *ids: str, version: str = NEWEST, headers: Iterable[tuple[str, str]] = (MARK,)
) -> bytes:
    """Return the bytes of an approval."""
    target = f"{EVENTS}?api-version={version}"
    return request("POST", target, headers, approval(*ids))


def _with_unseen(visit: "Visit", event: Event) -> list[bytes]:
    bad = post(event.event_id, UNSEEN)
    return [bad, request(), post(event.event_id.lower())]


def _twice_with_tag(visit: "Visit", event: Event) -> list[bytes]:
    views = visit.backend.story.views
    tag = ("If-None-Match", str(views["web_2"].incarnation))
    tagged = post(event.event_id, headers=(MARK, tag))
    return [tagged, request(), post(event.event_id)]


def _when_asked_for(visit: "Visit", event: Event) -> list[bytes]:
    whole = post(event.event_id, headers=(MARK, ("Expect", "100-continue")))
    head, _, body = whole.partition(b"\r\n\r\n")
    return [head + b"\r\n\r\n", body]


def _in_chunks(visit: "Visit", event: Event) -> list[bytes]:
    body = approval(event.event_id)
    coded = (MARK, ("Transfer-Encoding", "chunked"))
    head = request("PUT", headers=coded).replace(b"PUT", b"POST", 1)
    half = len(body) // 2
    parts = b"".join(b"%x\r\n%s\r\n" % (len(x), x) for x in (body[:half], body[half:]))
    return [head + parts + b"0\r\n\r\n"]


def _as_old_clients(visit: "Visit", event: Event) -> list[bytes]:
    old = {"StartRequests": [{"EventId": event.event_id}], "DocumentIncarnation": "2"}
    form = ("Content-Type", "application/x-www-form-urlencoded")
    target = f"{EVENTS}?api-version=2017-08-01"
    return [request("POST", target, (MARK, form), json.dumps(old).encode())]


def _without_header(visit: "Visit", event: Event) -> list[bytes]:
    newest = post(event.event_id, headers=())
    return [newest, post(event.event_id, version=PREVIEW, headers=())]


def _all_together(visit: "Visit", event: Event) -> list[bytes]:
    others = [event_.event_id for event_ in visit.events(f"{event.plan.scope}_0")]
    return [post(*reversed(others))]


def _not_at_all(visit: "Visit", event: Event) -> list[bytes]:
    return []


WAYS = (
    _with_unseen,
    _twice_with_tag,
    _not_at_all,
    _when_asked_for,
    _in_chunks,
    _as_old_clients,
    _without_header,
    _all_together,
)
"""The ways to approve an event. A round has nine events, so each way is used."""

APPROVERS = ("web_2", "db_0")


class Visit:
    """All VMs' connections to one server, on a clock that only the visit moves."""

    def __init__(self, defect: Defect | None = None, pace: Pace = QUICK) -> None:
        self.clock = VirtualClock(BEGIN)
        self.backend = Backend(defect, pace=pace, clock=self.clock)
        self._open: dict[str, Connection] = {}

    def wait(self, time: Micros) -> None:
        """Let time pass."""
        self.clock.advance_to(self.clock.now() + time)

    def ask(self, sent: bytes, vm: str = ASKER, pause: Micros = PAUSE) -> Exchange:
        """Send bytes on the VM's connection, or a new one if that has ended."""
        self.wait(pause)
        connection = self._open.get(vm)
        if connection is None or connection.is_closing:
            connection = self._open[vm] = self.backend.connection(vm)
        got = connection.receive(sent)
        return Exchange(self.clock.now(), vm, sent, got)

    def events(self, vm: str) -> list[Event]:
        """Return what the story lets a VM see, whatever it is served."""
        return [
            event for event in self.backend.story.events if event.plan.scope == vm[:-2]
        ]

    # -- what is played --------------------------------------------------------------

    def play(self) -> Generator[Exchange]:
        """Do everything in turn."""
        yield from self.before_enabling()
        yield from self.questions()
        yield from self.watching()
        yield from self.wrong_bodies()
        yield from self.approving()
        yield from self.pausing()

    def before_enabling(self) -> Generator[Exchange]:
        """Be refused, wait, and only then ask well."""
        yield self.ask(request(target=EVENTS))
        yield self.ask(post(UNSEEN))
        self.wait(SECOND)
        for tag in ('"1"', '"1"', "1"):
            yield self.ask(request(headers=(MARK, ("If-None-Match", tag))))

    def questions(self) -> Generator[Exchange]:
        """Ask in all ways, right and wrong."""
        query = f"?api-version={NEWEST}"
        for target in (
            f"/metadata/scheduledEvents{query}",
            f"{EVENTS}/{query}",
            f"{EVENTS}/more{query}",
            f"/{query}",
            f"{EVENTS}?api-version=latest",
            f"{EVENTS}?api-version=%7Blatest%7D",
            f"{EVENTS}?api-version=1999-01-01",
            f"{EVENTS}{query}&api-version={PREVIEW}",
            f"{EVENTS}{query}&format=json",
            f"{EVENTS}{query}&vm=db_0",
            VERSIONS_PATH,
            f"{INSTANCE}?api-version={INSTANCE_VERSIONS[-1]}",
            f"{INSTANCE}{query}",
            f"{INSTANCE}/compute/name?api-version=2019-06-01&format=text",
            f"{INSTANCE}/compute/name?api-version=2019-06-01&format=json",
            f"{INSTANCE}/compute/age?api-version=2019-06-01",
        ):
            yield self.ask(request(target=target))
        for version in VERSIONS:
            target = f"{EVENTS}?api-version={version}"
            yield self.ask(request(target=target))
            yield self.ask(request(target=target, headers=()))
        for method in ("HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"):
            yield self.ask(request(method))
        for headers in (
            (("metadata", "True"),),
            (("Metadata", "false"),),
            (MARK, MARK),
            (MARK, ("X-Forwarded-For", "10.0.0.1")),
            (MARK, ("Connection", "close")),
        ):
            yield self.ask(request(headers=headers))
        yield self.ask(request(target="/", headers=()))
        yield self.ask(request("POST", headers=(), body=b"{}"))
        yield self.ask(b"nonsense\r\n\r\n")

    def watching(self) -> Generator[Exchange]:
        """Look on for a round; at a change with every version, and by every VM."""
        last_content: dict[str, tuple[object, ...]] = {}
        for _ in range(WATCHED):
            yield self.ask(request(), pause=LOOK)
            for vm in FLEET:
                content = self.backend.story.content(vm)
                if last_content.get(vm) == content:
                    continue
                last_content[vm] = content
                for version in VERSIONS if vm == ASKER else (NEWEST,):
                    target = f"{EVENTS}?api-version={version}"
                    yield self.ask(request(target=target), vm)

    def wrong_bodies(self) -> Generator[Exchange]:
        """Approve badly."""
        for body in (
            b"",
            b"{",
            b"[]",
            b"{}",
            b'{"StartRequests":[]}',
            b'{"StartRequests":{"EventId":"%s"}}' % UNSEEN.encode(),
            b'{"StartRequests":[{}]}',
            b'{"StartRequests":[{"EventId":1}]}',
            approval("evt-1"),
            approval(UNSEEN),
        ):
            yield self.ask(request("POST", body=body))

    def approving(self) -> Generator[Exchange]:
        """Approve each event of two tenants, each in the next way, and when it is over."""
        ways = itertools.cycle(WAYS)
        approved: list[tuple[str, Event]] = []
        over: list[Event] = []
        for _ in range(APPROVED_LOOKS):
            yield self.ask(request(), pause=LOOK)
            for vm in APPROVERS:
                for event in self.events(vm):
                    if any(event is other for _, other in approved):
                        continue
                    approved.append((vm, event))
                    for sent in next(ways)(self, event):
                        yield self.ask(sent, vm)
                    yield self.ask(request(), vm)
                    # The response of another tenant.
                    yield self.ask(post(event.event_id), "gpu_1")
            for vm, event in approved:
                is_there = any(event is other for other in self.backend.story.events)
                if is_there or any(event is other for other in over):
                    continue
                over.append(event)
                yield self.ask(post(event.event_id), vm)

    def pausing(self) -> Generator[Exchange]:
        """Ask too often, then not for a while, then not for more than a day."""
        for _ in range(60):
            yield self.ask(request(), pause=0)
        for silence in (4 * SECOND, 25 * HOUR):
            self.wait(silence)
            yield self.ask(request())
            yield self.ask(request(), "web_1")
