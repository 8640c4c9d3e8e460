"""The world of the tests: a simulated service on a virtual clock, and its VMs as clients.

It can crash at any checkpoint and restart on the durable records. The driver survives,
like a hypervisor. Its VMs use the endpoint without sockets. Questions of the endpoint go to
the plane at once, as in the metadata server.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from forewarn.control.requests.approvals import Approval
from forewarn.control.rules.policy import Policy
from forewarn.control.transactions.named import need
from forewarn.drivers.port import Driver
from forewarn.fleet.model import Vm
from forewarn.instants import SECOND, Micros, parse_duration
from forewarn.metadata.endpoint import Approve, Describe, Enable, Hold, details
from forewarn.metadata.http import Request, Response
from forewarn.metadata.identity import Source
from forewarn.metadata.routes import OwnRead
from forewarn.metadata.waiting import Wait
from forewarn.protocol.events import Event
from forewarn.protocol.operations import Operation
from forewarn.protocol.published import Publication
from forewarn.reporting import event_details, explanations, reports
from forewarn.sim import engine
from forewarn.sim.engine import START, Engine
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from forewarn.store.port import Store, every

__all__ = [
    "START",
    "Answer",
    "CrashError",
    "World",
    "WorldVm",
    "live_events",
    "taken_apart",
]

NEWEST = "2020-07-01"
EVENTS_PATH = "/metadata/scheduledevents"
OWN_NEWEST = "2026-11-01"
OWN_EVENTS_PATH = "/metadata/forewarn/events"
METADATA: Mapping[str, tuple[str, ...]] = {"metadata": ("true",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A parsed answer to a VM."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """Return the body's JSON; raises ValueError."""
        return json.loads(self.body)

    @property
    def incarnation(self) -> int:
        """Return the document's incarnation."""
        return self.json["DocumentIncarnation"]

    @property
    def events(self) -> list[dict[str, Any]]:
        """Return the document's events."""
        return self.json["Events"]


def live_events(engine: Engine) -> list[Event]:
    """Return the events that documents show, the oldest first."""
    events = engine.read(lambda reader: list(every(reader, kinds.LIVE_EVENTS)))
    return sorted(events, key=lambda event: event.place)


class CrashError(BaseException):
    """The process of the service crashed here."""


class LastingStore(MemoryStore):
    """A store in memory that outlives the crashes of a world."""

    def close(self) -> None:
        """Keep everything."""


def _never(_place: str, _count: int) -> bool:
    return False


class World(engine.World):
    """A service on a virtual clock, with actions and queries for tests."""

    has_news = False
    """Whether there was a publication since a test reset this."""

    def __init__(
        self,
        *,
        store: Callable[[], Store],
        driver: Driver,
        fleet: str = "",
        policy: Policy | None = None,
        seed: int | None = 0,
        start: Micros = START,
        rate_limit: float = 0,
    ) -> None:
        """Start with a fleet. `store` opens the store, at the start and after each crash."""
        self.crash_at: Callable[[str, int], bool] = _never
        """Called at each checkpoint with the count so far; returns whether to crash."""
        self.passed: Counter[str] = Counter()
        self.witness: Callable[[str], None] = lambda _place: None
        """Called at each checkpoint, before a crash there."""
        self._open_store = store
        super().__init__(
            store=store(),
            driver=driver,
            fleet=fleet,
            policy=policy,
            seed=seed,
            start=start,
            rate_limit=rate_limit,
        )

    def restart(self) -> None:
        """Crash now, and restart."""
        self.crash_at = _never
        self.on_publish = lambda _publication: None
        self.store.close()
        self.store = self._open_store()
        self.begin()

    def checkpoint(self, place: str) -> None:
        self.passed[place] += 1
        self.witness(place)
        if self.crash_at(place, self.passed[place]):
            raise CrashError(f"crashed at {place} number {self.passed[place]}")

    def publish(self, publication: Publication) -> None:
        super().publish(publication)
        self.has_news = True

    def step_clock(self, by: str | Micros, *, back: bool = False) -> None:
        """Set the wall clock forward or back; no time passes."""
        size = parse_duration(by) if isinstance(by, str) else by
        self.clock.step(-size if back else size)
        self.settle()

    # VMs

    def vm(self, name: str) -> "WorldVm":
        """Return the VM as a client."""
        return WorldVm(self, name)

    # Queries

    def operation(self, operation_id: str) -> Operation:
        """Return a stored operation."""
        return self.read(lambda reader: need(reader, Operation, operation_id))

    def operations(self) -> list[Operation]:
        """Return all stored operations, by ID."""
        return self.read(lambda reader: list(every(reader, kinds.ALL_OPERATIONS)))

    def live_events(self) -> list[Event]:
        """Return the events that documents show, the oldest first."""
        return live_events(self)

    def stored_vm(self, name: str) -> Vm:
        """Return a stored VM."""
        return self.read(lambda reader: need(reader, Vm, name))

    def explain(self, operation_id: str) -> list[str]:
        """Return every reason that holds an operation, in sentences."""
        operation = self.operation(operation_id)
        return self.read(
            lambda reader: explanations.of_operation(reader, operation, now=self.now)
        )["blocked_by"]


class WorldVm:
    """A VM as a client of the endpoint."""

    def __init__(self, world: World, name: str) -> None:
        """Use the VM with this key."""
        self.world = world
        self.name = name

    def get(self, version: str = NEWEST, *, etag: str = "") -> Answer:
        """Get the document."""
        headers = dict(METADATA)
        if etag:
            headers["if-none-match"] = (etag,)
        return self.ask("GET", f"{EVENTS_PATH}?api-version={version}", headers=headers)

    def own_events(self) -> Answer:
        """Get the event details."""
        path = f"{OWN_EVENTS_PATH}?api-version={OWN_NEWEST}"
        return self.ask("GET", path, headers=METADATA)

    def glance(self) -> Answer | None:
        """Get the document; return None if there is no immediate answer."""
        answer = self.world.endpoint.handle(
            Request(
                method="GET",
                path=EVENTS_PATH,
                query=f"api-version={NEWEST}",
                headers=METADATA,
                body=b"",
            ),
            Source(address="", vm=self.name),
            now=self.world.now,
            monotonic=self.world.clock.monotonic(),
        )
        return taken_apart(answer) if isinstance(answer, Response) else None

    def approve(self, *event_ids: str, version: str = NEWEST) -> Answer:
        """Approve events."""
        requests = [{"EventId": event_id} for event_id in event_ids]
        return self.ask(
            "POST",
            f"{EVENTS_PATH}?api-version={version}",
            headers=METADATA,
            body=json.dumps({"StartRequests": requests}).encode(),
        )

    def ask(
        self,
        method: str,
        target: str,
        *,
        headers: Mapping[str, tuple[str, ...]] | None = None,
        body: bytes = b"",
    ) -> Answer:
        """Send a request, and wait for its answer as long as it takes."""
        path, _, query = target.partition("?")
        request = Request(
            method=method, path=path, query=query, headers=headers or {}, body=body
        )
        source = Source(address="", vm=self.name)
        world = self.world
        again = False
        ends: Micros | None = None
        while True:
            answer = world.endpoint.handle(
                request,
                source,
                now=world.now,
                monotonic=world.clock.monotonic(),
                again=again,
            )
            if isinstance(answer, Response):
                return taken_apart(answer)
            again = True
            match answer:
                case Hold(until=until):
                    world.advance_to(until)
                case Wait(seconds=seconds, otherwise=otherwise):
                    if ends is None:
                        ends = world.now + seconds * SECOND
                    if world.now >= ends:
                        return taken_apart(otherwise)
                    due = world.plane.next_due()
                    world.advance_to(ends if due is None else min(due, ends))
                case Enable():
                    world.plane.enable(self.name, now=world.now)
                case Approve(event_ids=event_ids):
                    approval = Approval(vm=self.name, event_ids=event_ids)
                    refusal = world.plane.approve([approval], now=world.now)[0]
                    return taken_apart(
                        world.endpoint.approved(self.name, refusal, now=world.now)
                    )
                case Describe():
                    facts = world.read(
                        lambda reader: reports.instance_facts(reader, self.name)
                    )
                    return taken_apart(world.endpoint.described(answer, facts))
                case OwnRead():
                    own_events = world.read(
                        lambda reader: event_details.own_events(
                            reader, self.name, now=world.now
                        )
                    )
                    return taken_apart(details(own_events))


def taken_apart(response: Response) -> Answer:
    """Parse an answer to a VM."""
    head, _, body = response.payload.partition(b"\r\n\r\n")
    lines = head.decode("ascii").split("\r\n")[1:]
    headers = dict(line.split(": ", 1) for line in lines)
    return Answer(
        status=response.status,
        headers={name.lower(): value for name, value in headers.items()},
        body=body,
    )
