"""A small world for the endpoint: two VMs that share a view, and a third VM."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from forewarn.clock import VirtualClock
from forewarn.fleet.instance import InstanceFacts
from forewarn.fleet.model import Host, Scope, ScopeKind, Vm
from forewarn.instants import parse_instant
from forewarn.metadata.endpoint import Endpoint
from forewarn.metadata.http import Request, Response
from forewarn.metadata.identity import Source
from forewarn.metadata.limits import Limits
from forewarn.metadata.server import Server
from forewarn.metadata.waiting import Waits
from forewarn.protocol.events import (
    Event,
    EventSource,
    EventStatus,
    EventType,
    Resource,
)
from forewarn.protocol.own_events import OwnEvents
from forewarn.protocol.published import Guest, Publication, ViewSnapshot

Story: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
Play: TypeAlias = Callable[[Story], None]
"""Runs a story on an event loop."""

NOW = parse_instant("2022-04-11T22:00:00Z")
PATH = "/metadata/scheduledevents"
NEWEST = "api-version=2020-07-01"
EVENT_ID = "C7061BAC-AFDC-4513-B24B-AA5F13A16123"
WEST_0 = Source(address="192.0.2.4")
WEST_1 = Source(address="192.0.2.5")
ALONE = Source(address="2001:db8::7")

EVENT = Event(
    event_id=EVENT_ID,
    operation="op-1",
    scope="west",
    tenant="shop",
    status=EventStatus.SCHEDULED,
    event_type=EventType.FREEZE,
    source=EventSource.PLATFORM,
    resources=(Resource(vm="w0", name="WestNO_0", fault_domain=0),),
    not_before=parse_instant("2022-04-11T22:26:58Z"),
    description="Host server is undergoing maintenance.",
    duration_seconds=9,
    created=NOW,
)

GUESTS = (
    Guest(
        vm="w0",
        view_id="west",
        vm_id="11111111-2222-3333-4444-555555555555",
        addresses=("192.0.2.4",),
        listen="",
    ),
    Guest(
        vm="w1",
        view_id="west",
        vm_id="11111111-2222-3333-4444-666666666666",
        addresses=("192.0.2.5", "127.0.0.1"),
        listen="",
    ),
    Guest(
        vm="alone",
        view_id="alone",
        vm_id="11111111-2222-3333-4444-777777777777",
        addresses=("2001:DB8:0::7",),
        listen="127.0.0.1:0",
    ),
)


def snapshot(
    incarnation: int = 1,
    *events: Event,
    view: str = "west",
    epoch: int = 1,
    enabled: bool = True,
    ready_at: int = 0,
) -> ViewSnapshot:
    return ViewSnapshot(
        view_id=view,
        enabling=view,
        enabled=enabled,
        epoch=epoch,
        incarnation=incarnation,
        ready_at=ready_at,
        events=events,
    )


def published(*views: ViewSnapshot) -> Publication:
    return Publication(views=views)


def make_endpoint(
    *, rate_limit: float = 0, secret: bytes = b"", waits: Waits | None = None
) -> Endpoint:
    endpoint = Endpoint(rate_limit=rate_limit, secret=secret, waits=waits)
    endpoint.publish(
        Publication(
            views=(
                snapshot(),
                snapshot(incarnation=0, view="alone", epoch=0, enabled=False),
            ),
            guests=GUESTS,
        )
    )
    return endpoint


def get(
    query: str = NEWEST, /, *, path: str = PATH, method: str = "GET", **headers: str
) -> Request:
    """Return a request with `Metadata: true`; a header given as "" is left out."""
    values = {"metadata": "true", **headers}
    return Request(
        method=method,
        path=path,
        query=query,
        headers={
            name.replace("_", "-"): tuple(value.split("|"))
            for name, value in values.items()
            if value
        },
    )


def post(body: bytes | str, query: str = NEWEST, /, **headers: str) -> Request:
    sent = body.encode() if isinstance(body, str) else body
    return get(query, method="POST", **headers)._replace(body=sent)


def approval(*event_ids: str) -> str:
    return json.dumps({"StartRequests": [{"EventId": i} for i in event_ids]})


def ask(endpoint: Endpoint, request: Request, source: Source = WEST_0) -> Any:
    return endpoint.handle(request, source, now=NOW, monotonic=0.0)


@dataclass(frozen=True)
class Parsed:
    """A response as a client reads it."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def parse(payload: bytes) -> Parsed:
    head, _, body = payload.partition(b"\r\n\r\n")
    line, *lines = head.decode("ascii").split("\r\n")
    headers = dict(header.split(": ", 1) for header in lines)
    assert len(headers) == len(lines), "a header is repeated"
    return Parsed(int(line.split(" ")[1]), headers, body)


def read(answer: object) -> Parsed:
    assert isinstance(answer, Response)
    parsed = parse(answer.payload)
    assert parsed.status == answer.status
    if answer.status != 304:
        assert parsed.headers["Content-Length"] == str(len(parsed.body))
    return parsed


FACTS = InstanceFacts(
    vm=Vm(
        name="w0",
        wire_name="WestNO_0",
        host="h1",
        scope="west",
        tenant="shop",
        view="west",
        fault_domain=2,
        update_domain=3,
        size="general-4",
        vm_id=GUESTS[0].vm_id,
        tags=(("role", "web"), ("tier", "ü")),
        resource_group="rg",
        subscription="sub",
        location="west",
        addresses=("192.0.2.4", "2001:db8::4"),
    ),
    scope=Scope(name="west", tenant="shop", kind=ScopeKind.AVAILABILITY_SET),
    host=Host(name="h1", zone="1"),
)


NO_EVENTS = OwnEvents(live=(), ended=())


async def looks(count: int = 10) -> None:
    """Let the loop look at its sockets so often.

    Bytes that were sent over loopback are there at once, so they are read by then.
    """
    for _ in range(count):
        await asyncio.sleep(0)


@dataclass
class FakeGateway:
    """Control, as far as a test needs it."""

    endpoint: Endpoint
    refusal: str | None = None
    facts: InstanceFacts | None = FACTS
    own: OwnEvents | None = NO_EVENTS
    ready_at: int = 0
    publishes: bool = True
    before: Callable[[], Any] | None = None
    enabled: list[str] = field(default_factory=list[str])
    approved: list[tuple[str, Sequence[str]]] = field(
        default_factory=list[tuple[str, Sequence[str]]]
    )

    async def enable(self, vm: str) -> None:
        await self._pause()
        self.enabled.append(vm)
        if self.publishes:
            view = self.endpoint.directory.by_vm[vm].guest.view_id
            epoch = len(self.enabled)
            self.endpoint.publish(
                published(snapshot(view=view, epoch=epoch, ready_at=self.ready_at))
            )

    async def approve(self, vm: str, event_ids: Sequence[str]) -> str | None:
        await self._pause()
        self.approved.append((vm, event_ids))
        return self.refusal

    async def instance(self, vm: str) -> InstanceFacts | None:
        await self._pause()
        return self.facts

    async def own_events(self, vm: str) -> OwnEvents | None:
        await self._pause()
        return self.own

    async def _pause(self) -> None:
        await asyncio.sleep(0)
        if self.before is not None:
            result = self.before()
            if result is not None:
                await result


class Gate:
    """A barrier at which a gateway waits before it answers, if a test closes it."""

    def __init__(self) -> None:
        self._come, self._open = asyncio.Event(), asyncio.Event()

    async def wait(self) -> None:
        """Be waited for by the gateway."""
        self._come.set()
        await self._open.wait()

    async def is_reached(self) -> None:
        """Return when a request waits here."""
        await self._come.wait()

    def set(self) -> None:
        """Let all requests pass."""
        self._open.set()


class Wire:
    """A raw connection."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self, *, bodiless: bool = False) -> Parsed:
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 60)
        parsed = parse(head)
        length = 0 if bodiless else int(parsed.headers.get("Content-Length", "0"))
        return replace(parsed, body=await self.reader.readexactly(length))

    async def head(self) -> bytes:
        return await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 60)

    async def is_closed(self) -> bool:
        """Wait until the server closes; return whether it sent nothing more."""
        try:
            return await asyncio.wait_for(self.reader.read(), 60) == b""
        except ConnectionResetError:
            return True


@dataclass
class World:
    """A server on a separate port, with its gateway and its clock."""

    endpoint: Endpoint
    gateway: FakeGateway
    clock: VirtualClock
    server: Server
    port: int
    wires: list[Wire] = field(default_factory=list[Wire])

    async def connect(self, port: int = 0) -> Wire:
        wire = Wire(*await asyncio.open_connection("127.0.0.1", port or self.port))
        self.wires.append(wire)
        return wire

    async def ask(self, data: bytes) -> Parsed:
        wire = await self.connect()
        wire.send(data)
        return await wire.answer()


@asynccontextmanager
async def running(
    *,
    bounds: Limits | None = None,
    rate_limit: float = 0,
    secret: bytes = b"",
    waits: Waits | None = None,
) -> AsyncGenerator[World]:
    endpoint = make_endpoint(rate_limit=rate_limit, secret=secret, waits=waits)
    gateway, clock = FakeGateway(endpoint), VirtualClock(NOW)
    server = Server(endpoint=endpoint, gateway=gateway, clock=clock, bounds=bounds)
    _, port = await server.serve_shared("127.0.0.1", 0)
    world = World(endpoint, gateway, clock, server, port)
    try:
        yield world
    finally:
        for wire in world.wires:
            wire.writer.close()
        await server.stop(grace_seconds=0.05)


def raw(
    method: str = "GET", target: str = f"{PATH}?{NEWEST}", *headers: str, body: str = ""
) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Host: x", "Metadata: true", *headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


GET = raw()
POST = raw("POST", body=approval(EVENT_ID))
INSTANCE = raw(
    "GET", "/metadata/instance/compute/name?api-version=2019-06-01&format=text"
)
EMPTY = {"DocumentIncarnation": 1, "Events": []}
