"""No waiting client misses a change, in whatever order things happen.

VMs on real connections, without sockets, ask again and again with `wait`. In
between, documents change, scopes are disabled and enabled, VMs move, go and come,
addresses change hands, time passes, clients go; and the loop is given a turn or
not, so that what happens comes before, between and after the turns of a waiter.
"""

import asyncio
from dataclasses import dataclass, field, replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.clock import VirtualClock
from forewarn.instants import SECOND
from forewarn.metadata.connection import Connection
from forewarn.metadata.endpoint import Endpoint
from forewarn.metadata.hub import Hub
from forewarn.metadata.limits import Limits
from forewarn.metadata.waiting import Waits
from forewarn.protocol.published import Guest, Publication, ViewSnapshot
from tests.fuzz.talk import Answered, FakeTransport, answers_of
from tests.unit.metadata.support import (
    EVENT,
    NEWEST,
    NOW,
    PATH,
    FakeGateway,
    raw,
    snapshot,
)

VIEWS = ("west", "east")
VMS = ("w0", "w1", "w2")
LONGEST = 60
TURNS = 60
"""The number of iterations of the loop in which every caused callback has run."""


@dataclass
class Client:
    """A program in a VM: it asks, waits, and asks again with the answer."""

    hub: Hub
    address: str
    rng: Random
    connection: Connection = field(init=False)
    transport: FakeTransport = field(init=False)
    tag: str = ""
    read: int = 0
    asked_at: float = 0.0
    is_asking: bool = False

    def __post_init__(self) -> None:
        self.connect()

    def connect(self) -> None:
        self.connection = Connection(self.hub)
        self.transport = FakeTransport(self.address, chokes=False)
        self.transport.protocol = self.connection
        self.connection.connection_made(self.transport)
        self.read, self.is_asking = 0, False

    def ask(self) -> None:
        wait = self.rng.choice((1, 7, LONGEST, 1000))
        data = raw(
            "GET", f"{PATH}?{NEWEST}&wait={wait}", f'If-None-Match: "{self.tag}"'
        )
        cut = self.rng.choice((0, 0, len(data) // 2))
        self.asked_at, self.is_asking = self.hub.clock.monotonic(), True
        for piece in (data[:cut], data[cut:]):
            if piece:
                self.connection.data_received(piece)

    def go(self) -> None:
        """Close, or only stop sending."""
        if self.rng.random() < 0.5:
            self.transport.abort()
        elif not self.connection.eof_received():
            self.transport.close()

    def hear(self) -> None:
        """Take in what has been answered."""
        answers = answers_of(b"".join(self.transport.written))
        for answer in answers[self.read :]:
            self.read += 1
            self.is_asking = False
            if answer.status in {200, 304}:
                self.learn(answer)
        if self.transport.is_closing():
            self.connect()

    def learn(self, answer: Answered) -> None:
        headers = dict(answer.headers)
        tag = headers[b"ETag"].decode().strip('"')
        assert headers[b"Forewarn-Wait"] == b"%d" % LONGEST
        assert answer.status == 200 or tag == self.tag, "a 304 for what it has not got"
        self.tag = tag


@dataclass
class Life:
    """A few VMs, and everything that may happen to them."""

    rng: Random
    clock: VirtualClock = field(default_factory=lambda: VirtualClock(NOW))
    hub: Hub = field(init=False)
    views: dict[str, tuple[int, int, bool]] = field(init=False)
    """Epoch, incarnation, enabled."""
    guests: dict[str, Guest] = field(init=False)
    clients: list[Client] = field(default_factory=list[Client])

    def __post_init__(self) -> None:
        endpoint = Endpoint(waits=Waits(longest_seconds=LONGEST))
        gateway = _Gateway(endpoint, life=self)
        self.hub = Hub(
            endpoint=endpoint, gateway=gateway, clock=self.clock, bounds=Limits()
        )
        self.views = dict.fromkeys(VIEWS, (1, 1, True))
        self.guests = {
            vm: Guest(
                vm=vm,
                view_id=VIEWS[number % 2],
                vm_id=f"id-{number}",
                addresses=(f"192.0.2.{number}",),
                listen="",
            )
            for number, vm in enumerate(VMS)
        }
        self.publish(*VIEWS, guests=tuple(self.guests.values()))
        self.clients = [
            Client(self.hub, f"192.0.2.{number % 3}", self.rng) for number in range(5)
        ]

    def publish(self, *views: str, guests: tuple[Guest, ...] = ()) -> None:
        shown = tuple(self.snapshot(view) for view in views)
        self.hub.endpoint.publish(Publication(views=shown, guests=guests))

    def snapshot(self, view: str) -> ViewSnapshot:
        epoch, incarnation, enabled = self.views[view]
        events = [replace(EVENT, description=f"{view} {incarnation}")]
        shown = events if enabled and incarnation % 2 == 0 else []
        return snapshot(incarnation, *shown, view=view, epoch=epoch, enabled=enabled)

    def enable(self, view: str) -> None:
        epoch, _, enabled = self.views[view]
        if not enabled:
            self.views[view] = (epoch + 1, 1, True)
            self.publish(view)

    # Steps

    async def step(self) -> None:
        rng = self.rng
        match rng.randrange(10):
            case 0 | 1:
                self.change(rng.choice(VIEWS))
            case 2:
                self.disable(rng.choice(VIEWS))
            case 3:
                self.move()
            case 4:
                self.come_or_go()
            case 5:
                await self.pass_time(rng.choice((1, 5, 70)))
            case 6:
                rng.choice(self.clients).go()
            case _:
                for client in self.clients:
                    if not client.is_asking and rng.random() < 0.6:
                        client.ask()
        for _ in range(rng.choice((0, 0, 1, 3))):
            await asyncio.sleep(0)
        for client in self.clients:
            client.hear()

    def disable(self, view: str) -> None:
        epoch, incarnation, _ = self.views[view]
        self.views[view] = (epoch, incarnation, False)
        self.publish(view)

    def change(self, view: str) -> None:
        epoch, incarnation, enabled = self.views[view]
        if enabled:
            self.views[view] = (epoch, incarnation + 1, True)
            self.publish(view)

    async def pass_time(self, seconds: int) -> None:
        # A wait begins when an enabling that was asked for is through.
        for _ in range(TURNS):
            await asyncio.sleep(0)
        self.clock.advance_to(self.clock.now() + seconds * SECOND)
        self.hub.wakeups.wake()

    def move(self) -> None:
        """Have a VM see another list of events, or take another one's address."""
        vm = self.rng.choice(VMS)
        if vm not in self.guests:
            return
        guest = self.guests[vm]
        if self.rng.random() < 0.6:
            guest = replace(guest, view_id=self.rng.choice(VIEWS))
        else:
            guest = replace(guest, addresses=(f"192.0.2.{self.rng.randrange(3)}",))
        self.guests[vm] = guest
        self.publish(guests=(guest,))

    def come_or_go(self) -> None:
        vm = self.rng.choice(VMS)
        if vm in self.guests:
            del self.guests[vm]
            self.hub.endpoint.publish(Publication(guests_gone=(vm,)))
        else:
            self.guests[vm] = Guest(
                vm=vm,
                view_id=self.rng.choice(VIEWS),
                vm_id=f"id-{VMS.index(vm)}",
                addresses=(f"192.0.2.{self.rng.randrange(3)}",),
                listen="",
            )
            self.publish(guests=(self.guests[vm],))

    # Invariants

    async def check(self) -> None:
        """When nothing happens any more, each waiting client has the current
        document."""
        for _ in range(TURNS):
            await asyncio.sleep(0)
        for client in self.clients:
            client.hear()
        waits = self.hub.endpoint.waits
        assert len(waits) == sum(client.is_asking for client in self.clients)
        for client in self.clients:
            if not client.is_asking:
                continue
            elapsed = self.clock.monotonic() - client.asked_at
            assert elapsed <= LONGEST + 0.1, "it waits for too long"
            caller = self.hub.endpoint.directory.find(client.connection.source)
            assert caller is not None, "a stranger waits"
            epoch, incarnation, enabled = self.views[caller.guest.view_id]
            assert enabled, "it waits for a document that no VM is served"
            assert client.tag == str(incarnation), "it has missed a change"
            assert caller.greeted == epoch, "it has missed a new epoch"

    async def end(self) -> None:
        self.clock.advance_to(self.clock.now() + 2 * LONGEST * SECOND)
        self.hub.wakeups.wake()
        await self.check()
        assert len(self.hub.endpoint.waits) == 0, "a client waits forever"
        for client in self.clients:
            client.transport.abort()
        await asyncio.sleep(0)
        assert not self.hub.connections


class _Gateway(FakeGateway):
    """Enables the way that control does: a new epoch, from 1 on."""

    def __init__(self, endpoint: Endpoint, *, life: Life) -> None:
        super().__init__(endpoint)
        self.life = life

    async def enable(self, vm: str) -> None:
        await asyncio.sleep(0)
        if vm in self.life.guests:
            self.life.enable(self.life.guests[vm].view_id)


async def live(seed: int) -> None:
    life = Life(Random(seed))
    for number in range(80):
        await life.step()
        if number % 4 == 3:
            await life.check()
    await life.end()


@given(seed=st.integers(min_value=0, max_value=2**32))
def test_waiting_client_misses_no_change(seed: int) -> None:
    asyncio.run(live(seed))


@pytest.mark.parametrize("name", ["call_view", "call_vm", "call_due", "leave"])
def test_a_planted_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Waits, name, lambda *_, **__: None)

    def lives() -> None:
        for seed in range(50):
            asyncio.run(live(seed))

    with pytest.raises(AssertionError):
        lives()


def test_random_life_has_waiting_clients() -> None:
    """Without waiting clients, the property would hold too."""

    async def story() -> int:
        life, most = Life(Random(1)), 0
        for _ in range(80):
            await life.step()
            most = max(most, len(life.hub.endpoint.waits))
        await life.end()
        return most

    assert asyncio.run(story()) >= 3
