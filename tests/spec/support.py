"""Shared parts of the clause tests: worlds, requests, and a real endpoint over a
world."""

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from forewarn.control.requests import failures, verbs
from forewarn.control.requests.approvals import Approval
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.rules.policy import Policy
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleet.instance import InstanceFacts
from forewarn.instants import Micros, parse_duration, parse_instant
from forewarn.metadata.server import Server
from forewarn.protocol.notes import Said
from forewarn.protocol.operations import Action, Operation, Request, Verb
from forewarn.protocol.own_events import OwnEvents
from forewarn.reporting import event_details, reports
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from forewarn.store.port import Store, every
from forewarn.store.sqlite import SqliteStore
from forewarn.testing.client import METADATA, Answer, Client, Headers, HttpClient, Sent
from forewarn.testing.conformance.check import (
    Check,
    NotTried,
    Passed,
    Question,
    Verdict,
)
from forewarn.testing.conformance.checks import checks_of
from forewarn.testing.conformance.inquiry import (
    INSTANCE_TARGET,
    Inquiry,
    UntriedError,
)
from tests.support.worlds import START, World

T = TypeVar("T")


def each_check(clause: str) -> pytest.MarkDecorator:
    """Give a test every black-box check of a clause, as `check`."""
    return pytest.mark.parametrize("check", checks_of(clause), ids=lambda c: c.title)


def verdict_of(
    check: Check, client: Client, *, wait: Callable[[], object] = lambda: None
) -> Verdict:
    """Return what comes of one check at an endpoint that does not change meanwhile."""
    inquiry = Inquiry(client, now=lambda: START, wait=wait)
    inquiry.ask("GET", INSTANCE_TARGET)
    inquiry.look_around()
    inquiry.post(b"{")
    if not isinstance(check, Question):
        return check.judge(inquiry.seen)
    try:
        return check.ask(inquiry)
    except UntriedError as error:
        return NotTried(needs=error.needs)


NEEDS_TIME = {
    "an earlier tag gets the new document",
    "an event keeps its id when it is Started",
    "the id of a removed event is not shown again",
    "NotBefore is never moved to an earlier time",
    "the incarnation rises with a change, and only then",
    "the incarnation never falls",
    "an approval of a removed event is 200",
    "repeats are 200",
    "an approval covers every named VM",
    "an approval postpones nothing",
    "a refusal approves nothing",
    "an approval has an empty answer",
    "an approval may come in chunks",
    "each event of one approval is approved",
    "an approval has an effect",
    "an approval needs a version",
    "an approval needs the header",
    "no approval is forwarded",
    "a user's request starts at its NotBefore",
    "a deletion is announced at most 15 minutes ahead",
    "a pause of seconds does not disable events",
}
"""The checks that need more than one poll of an endpoint."""


def assert_kept(
    check: Check, client: Client, *, wait: Callable[[], object] = lambda: None
) -> None:
    """Assert that an endpoint is seen to keep what a check is about."""
    verdict = verdict_of(check, client, wait=wait)
    if check.title in NEEDS_TIME:
        assert isinstance(verdict, NotTried), verdict
    else:
        assert isinstance(verdict, Passed), verdict


Table = Mapping[str, Mapping[str, object]]


def fleet(
    *, hosts: Sequence[str], scopes: Table, vms: Table, zones: Sequence[str] = ()
) -> str:
    """Return a fleet file; every tenant that a scope names is in it."""
    tenants = dict.fromkeys(str(scope["tenant"]) for scope in scopes.values())
    placed = dict(zip(hosts, zones, strict=True)) if zones else {}
    tables: list[tuple[str, Table]] = [
        ("tenant", {name: {} for name in tenants}),
        ("scope", scopes),
        ("host", {name: {"zone": placed.get(name, "")} for name in hosts}),
        ("vm", vms),
    ]
    lines: list[str] = []
    for kind, table in tables:
        for name, values in table.items():
            lines += [f"[[{kind}]]", f"name = {json.dumps(name)}"]
            lines += [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    return "\n".join(lines)


WEB = {"tenant": "shop", "kind": "availability-set"}
DB = {"tenant": "bank", "kind": "availability-set"}

FLEET = fleet(
    hosts=["h1", "h2", "h3"],
    scopes={"web": WEB, "db": DB},
    vms={
        "web_0": {"host": "h1", "scope": "web", "fault_domain": 0},
        "web_1": {"host": "h2", "scope": "web", "fault_domain": 1},
        "db_0": {"host": "h1", "scope": "db", "fault_domain": 0},
        "db_1": {"host": "h2", "scope": "db", "fault_domain": 1},
    },
)
"""Two tenants with a set of two VMs each, on two hosts that they share."""


def make_world(
    text: str = FLEET,
    *,
    store: Callable[[], Store] | None = None,
    policy: Policy | None = None,
    driver: SimulatedDriver | None = None,
    start: Micros = START,
    rate_limit: float = 0,
    listening: Sequence[str] = (),
) -> World:
    """Return a world; the VMs that are `listening` have asked once."""
    memory = MemoryStore()
    world = World(
        store=store or (lambda: memory),
        driver=driver or SimulatedDriver(),
        fleet=text,
        policy=policy,
        start=start,
        rate_limit=rate_limit,
    )
    for name in listening:
        assert world.vm(name).get().status == 200, name
    return world


@contextlib.contextmanager
def durable_world(directory: Path, **options: Any) -> Generator[World]:
    """Yield a world that can be restarted: its store is in a file."""
    world = make_world(store=lambda: SqliteStore(directory / "world.db"), **options)
    try:
        yield world
    finally:
        world.store.close()


# Orders; each returns the operations that it made, in the order of their targets.


def operations_of(world: World, request: Request) -> list[Operation]:
    operations = world.read(
        lambda reader: list(
            every(reader, kinds.OPERATIONS_OF_REQUEST, request.request_id)
        )
    )
    return sorted(operations, key=lambda operation: operation.target)


def wishes(**options: Any) -> OrderOptions:
    """Return wishes; `not_before` may be a text, a time or a duration from START."""
    not_before = options.get("not_before")
    if isinstance(not_before, str):
        by_length = not_before[:1].isdecimal() and "T" not in not_before
        options["not_before"] = (
            START + parse_duration(not_before)
            if by_length
            else parse_instant(not_before)
        )
    return OrderOptions(**options)


def maintain(
    world: World, *hosts: str, action: Action = Action.FREEZE, **options: Any
) -> list[Operation]:
    """Maintain hosts, each by an order of its own: all are announced at once."""
    operations: list[Operation] = []
    for host in hosts:
        request = world.order(
            lambda work, host=host: verbs.maintain(
                work, [host], action, wishes(**options)
            )
        )
        operations += operations_of(world, request)
    return operations


def roll_out(world: World, *hosts: str, at_once: int = 1) -> list[Operation]:
    """Freeze several hosts by one order, one after the other."""
    options = OrderOptions(at_once=at_once)
    request = world.order(
        lambda work: verbs.maintain(work, hosts, Action.FREEZE, options)
    )
    return operations_of(world, request)


def reboot(world: World, *vms: str, **options: Any) -> list[Operation]:
    request = world.order(
        lambda work: verbs.change_vms(work, vms, Verb.REBOOT, wishes(**options))
    )
    return operations_of(world, request)


def redeploy(world: World, *vms: str, **options: Any) -> list[Operation]:
    request = world.order(
        lambda work: verbs.change_vms(work, vms, Verb.REDEPLOY, wishes(**options))
    )
    return operations_of(world, request)


def evict(world: World, *vms: str, **options: Any) -> list[Operation]:
    request = world.order(
        lambda work: verbs.change_vms(work, vms, Verb.EVICT, wishes(**options))
    )
    return operations_of(world, request)


def terminate(world: World, *vms: str, **options: Any) -> list[Operation]:
    request = world.order(
        lambda work: verbs.change_vms(work, vms, Verb.TERMINATE, wishes(**options))
    )
    return operations_of(world, request)


def renew_image(
    world: World, *vms: str, verb: Verb = Verb.REIMAGE, **options: Any
) -> list[Operation]:
    request = world.order(
        lambda work: verbs.change_vms(work, vms, verb, wishes(**options))
    )
    return operations_of(world, request)


def predict_failure(world: World, host: str, *, notice: str = "7d") -> list[Operation]:
    request = world.order(
        lambda work: verbs.predict_failure(
            work, [host], parse_duration(notice), OrderOptions()
        )
    )
    return operations_of(world, request)


def cancel(world: World, name: str) -> None:
    world.order(lambda work: verbs.cancel(work, name, note=Said(text="by hand")))


def fail_host(world: World, host: str) -> Operation:
    return world.order(lambda work: failures.fail_host(work, host))


def restore_host(world: World, host: str) -> None:
    world.order(lambda work: failures.restore_host(work, host))


# What VMs see, in short.


def seen(world: World, vm: str) -> list[tuple[str, str, list[str]]]:
    """Return status, type and resources of each event that a VM sees."""
    return [
        (event["EventStatus"], event["EventType"], event["Resources"])
        for event in world.vm(vm).get().events
    ]


def only_event(world: World, vm: str) -> dict[str, Any]:
    """Return the one event that a VM sees."""
    (event,) = world.vm(vm).get().events
    return event


def approve_all(world: World, vm: str) -> None:
    """Approve everything that a VM sees."""
    ids = [event["EventId"] for event in world.vm(vm).get().events]
    assert world.vm(vm).approve(*ids).status == 200


class WorldClient:
    """A VM of a world as a client of checks: no sockets between."""

    def __init__(self, world: World, vm: str) -> None:
        self._vm = world.vm(vm)

    def ask(
        self,
        method: str,
        target: str,
        *,
        headers: Headers = METADATA,
        body: bytes | None = None,
        patient: bool = True,
    ) -> Answer:
        sent: dict[str, tuple[str, ...]] = {}
        for name, value in headers:
            sent[name.lower()] = (*sent.get(name.lower(), ()), value)
        answer = self._vm.ask(method, target, headers=sent, body=body or b"")
        return Answer(
            status=answer.status,
            headers=tuple(answer.headers.items()),
            body=answer.body,
        )

    def ask_first(self, target: str, body: bytes) -> tuple[bool, Answer]:
        return True, self.ask("POST", target, body=body)

    def ask_in_turn(
        self, requests: Sequence[Sent]
    ) -> tuple[tuple[Answer, ...], OSError | None]:
        return tuple(
            self.ask(
                request.method,
                request.target,
                headers=request.headers,
                body=request.body,
            )
            for request in requests
        ), None


class _WorldGateway:
    """The gateway over a world's plane; both live in the loop's thread."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def enable(self, vm: str) -> None:
        self._world.plane.enable(vm, now=self._world.now)

    async def approve(self, vm: str, event_ids: Sequence[str]) -> str | None:
        approval = Approval(vm=vm, event_ids=tuple(event_ids))
        return self._world.plane.approve([approval], now=self._world.now)[0]

    async def instance(self, vm: str) -> InstanceFacts | None:
        return self._world.read(lambda reader: reports.instance_facts(reader, vm))

    async def own_events(self, vm: str) -> OwnEvents | None:
        now = self._world.now
        return self._world.read(
            lambda reader: event_details.own_events(reader, vm, now=now)
        )


class ServedWorld:
    """A world behind real sockets on loopback, in a thread of its own."""

    def __init__(self, world: World, loop: asyncio.AbstractEventLoop) -> None:
        self.world = world
        self._loop = loop
        self._server = Server(
            endpoint=world.endpoint, gateway=_WorldGateway(world), clock=world.clock
        )

    def do(self, act: Callable[[World], T]) -> T:
        """Do something to the world in its own thread."""

        async def acting() -> T:
            return act(self.world)

        return asyncio.run_coroutine_threadsafe(acting(), self._loop).result(30)

    def url(self, vm: str) -> str:
        """Return where the VM reaches its endpoint."""

        async def serve() -> tuple[str, int]:
            bound = self._server.addresses()
            return bound.get(vm) or await self._server.serve_guest(vm, "127.0.0.1", 0)

        host, port = asyncio.run_coroutine_threadsafe(serve(), self._loop).result(30)
        return f"http://{host}:{port}"

    def client(self, vm: str) -> HttpClient:
        """Return the VM as a client over sockets."""
        return HttpClient(self.url(vm), timeout_seconds=10)

    def stop(self) -> None:
        """Stop listening."""
        asyncio.run_coroutine_threadsafe(
            self._server.stop(grace_seconds=1), self._loop
        ).result(30)


@contextlib.contextmanager
def served(world: World) -> Generator[ServedWorld]:
    """Serve a world on loopback until the block ends."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="served world")
    thread.start()

    async def build() -> ServedWorld:
        return ServedWorld(world, loop)

    try:
        whole = asyncio.run_coroutine_threadsafe(build(), loop).result(30)
        yield whole
        whole.stop()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


Bend = Callable[[str, str, Headers, bytes | None, Answer], Answer]
"""The change that a faulty server makes to a correct response."""


class BentClient:
    """A client of a server with a fault."""

    def __init__(self, client: Client, bend: Bend) -> None:
        self._client = client
        self._bend = bend

    def ask(
        self,
        method: str,
        target: str,
        *,
        headers: Headers = METADATA,
        body: bytes | None = None,
        patient: bool = True,
    ) -> Answer:
        answer = self._client.ask(
            method, target, headers=headers, body=body, patient=patient
        )
        return self._bend(method, target, headers, body, answer)

    def ask_first(self, target: str, body: bytes) -> tuple[bool, Answer]:
        return self._client.ask_first(target, body)

    def ask_in_turn(
        self, requests: Sequence[Sent]
    ) -> tuple[tuple[Answer, ...], OSError | None]:
        answers, error = self._client.ask_in_turn(requests)
        return tuple(
            self._bend(
                request.method, request.target, request.headers, request.body, answer
            )
            for request, answer in zip(requests, answers, strict=False)
        ), error
