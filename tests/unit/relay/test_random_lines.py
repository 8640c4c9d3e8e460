"""Two relays with a VM that moves, and lines that are lost, repeated, late or reordered.

The lines are those of the service (`admin.relay_hub.Host`). The endpoint of each relay
is the real one.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.admin.relay_hub import Host, alive
from forewarn.fleet import instance_json
from forewarn.metadata.endpoint import Endpoint
from forewarn.protocol import relayed
from forewarn.protocol.published import ViewSnapshot
from forewarn.relay import knowledge, messages
from forewarn.relay.knowledge import Knowledge, Verdict
from tests.unit.relay.test_knowledge import known, view

HOSTS = ("h1", "h2")
VMS = {"web_0": "h1", "web_1": "h2", "db_0": "h1"}
VIEW_OF = {"web_0": "web", "web_1": "web", "db_0": "db"}


@dataclass
class Service:
    """A service with its views, and where each VM is or moves to."""

    term: int = 1
    number: int = 0
    views: dict[str, ViewSnapshot] = field(
        default_factory=lambda: {name: view(name) for name in ("web", "db")}
    )
    hosts_of: dict[str, set[str]] = field(
        default_factory=lambda: {vm: {host} for vm, host in VMS.items()}
    )
    states: dict[str, Host] = field(default_factory=dict)

    def position(self) -> str:
        return f"{self.term}.{self.number}.s{self.term}"

    def state(self, host: str) -> Host:
        """Read the host again, as the hub does."""
        host_state = self.states.setdefault(host, Host(host, self.number))
        self.number += 1
        here = [vm for vm, hosts in self.hosts_of.items() if host in hosts]
        texts = {
            name: relayed.view_text(self.views[name])
            for name in sorted({VIEW_OF[vm] for vm in here})
        }
        host_state.put("views", texts, self.number)
        host_state.put("guests", {vm: guest(vm) for vm in here}, self.number)
        return host_state

    def restart(self) -> None:
        self.term, self.number, self.states = self.term + 1, 0, {}


def guest(vm: str) -> str:
    guest_ = known(vm, VIEW_OF[vm], f"192.0.2.{[*VMS].index(vm) + 1}")
    return relayed.guest_text(guest_.guest, instance_json.members_of(guest_.instance))


class Relay:
    """A relay, with the lines that are on their way to it."""

    def __init__(self, service: Service, host: str) -> None:
        self.service, self.host = service, host
        self.knowledge = Knowledge()
        self.endpoint = Endpoint()
        self.lines: list[str] = []
        self.number: int | None = None

    def connect(self) -> None:
        """Begin a stream after the position, if the service still knows it."""
        state = self.service.state(self.host)
        at = self.knowledge.position
        resumes = (
            at is not None
            and at.start == f"s{self.service.term}"
            and state.since < at.number <= self.service.number
        )
        self.number = at.number if at is not None and resumes else None
        self.send()

    def send(self) -> None:
        state = self.service.state(self.host)
        self.lines.append(state.message(self.number, self.service.position()))
        self.number = self.service.number

    def keep_alive(self) -> None:
        if self.number is not None:
            self.lines.append(alive(self.number, self.service.position()))

    def take(self, line: str) -> None:
        before = dict(self.knowledge.views)
        step = knowledge.take(self.knowledge, messages.line_of(line))
        self.knowledge = step.knowledge
        self.endpoint.publish(step.change)
        self.check(before)
        if step.verdict is Verdict.LEAVE:
            self.lines.clear()
            self.connect()

    def restart(self) -> None:
        """Read the file that was written before the last change was served."""
        before = dict(self.knowledge.views)
        self.lines.clear()
        self.endpoint = Endpoint()
        if self.knowledge.position is not None:
            text = messages.text_of(self.knowledge)
            step = knowledge.take(Knowledge(), messages.line_of(text))
            self.knowledge = step.knowledge
            self.endpoint.publish(step.change)
        self.check(before)
        self.connect()

    def check(self, before: dict[str, ViewSnapshot]) -> None:
        for name, now in self.knowledge.views.items():
            if name in before:
                assert now.rank >= before[name].rank
            # It never serves a document before the service does.
            assert now.rank <= self.service.views[name].rank
            served: Any = self.endpoint._views[name]
            assert not served.is_older_than(now)
        assert set(self.endpoint.directory.by_vm) == set(self.knowledge.guests)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            (
                *("raise", "raise", "enable", "disable", "again", "reserve", "arrive"),
                *("send", "alive", "take", "take", "take", "lose", "repeat", "late"),
                *("restart-service", "restart-relay"),
            )
        ),
        st.integers(0, 1),
        st.sampled_from(sorted(VMS)),
    ),
    max_size=60,
)


def change(service: Service, step: str, vm: str) -> None:
    held = service.views[VIEW_OF[vm]]
    at = service.hosts_of[vm]
    match step:
        case "raise" if held.enabled:
            held = replace(held, incarnation=held.incarnation + 1)
        case "enable" if not held.enabled:
            held = replace(held, enabled=True, epoch=held.epoch + 1, incarnation=1)
        case "disable":
            held = replace(held, enabled=False)
        case "again":
            # The scope was removed, and added again.
            held = replace(held, enabled=False, epoch=held.epoch + 1, incarnation=0)
        case "reserve":
            at |= set(HOSTS)
        case "arrive" if len(at) == 2:
            at.remove(VMS[vm])
        case "restart-service":
            service.restart()
        case _:
            pass
    service.views[held.view_id] = held


def deliver(relay: Relay, step: str) -> None:
    match step:
        case "send":
            relay.send()
        case "alive":
            relay.keep_alive()
        case "restart-relay":
            relay.restart()
        case "take" if relay.lines:
            relay.take(relay.lines.pop(0))
        case "lose" if relay.lines:
            relay.lines.pop(0)
        case "repeat" if relay.lines:
            relay.lines.append(relay.lines[0])
        case "late" if relay.lines:
            relay.lines.append(relay.lines.pop(0))
        case _:
            pass


@given(STEPS)
@settings(deadline=None)
def test_no_order_of_lines_makes_a_document_older(
    steps: list[tuple[str, int, str]],
) -> None:
    service = Service()
    relays = [Relay(service, host) for host in HOSTS]
    for relay in relays:
        relay.connect()
    for step, which, vm in steps:
        change(service, step, vm)
        if step == "restart-service":
            for relay in relays:
                relay.lines.clear()
                relay.connect()
        deliver(relays[which], step)
    for relay in relays:
        relay.lines.clear()
        relay.connect()
        while relay.lines:
            relay.take(relay.lines.pop(0))
        here = {vm for vm, at in service.hosts_of.items() if relay.host in at}
        assert set(relay.knowledge.guests) == here
        assert relay.knowledge.views == {
            VIEW_OF[vm]: replace(service.views[VIEW_OF[vm]], enabling="") for vm in here
        }


def test_a_vm_that_moves_is_served_by_both_relays_with_one_truth() -> None:
    service = Service()
    relays = [Relay(service, host) for host in HOSTS]
    for relay in relays:
        relay.connect()
        relay.take(relay.lines.pop())
    # Started: the place is reserved, and the document is the same on both hosts.
    change(service, "reserve", "db_0")
    change(service, "raise", "db_0")
    for relay in relays:
        relay.send()
        relay.take(relay.lines.pop())
    assert [relay.knowledge.views["db"].incarnation for relay in relays] == [2, 2]
    assert all("db_0" in relay.knowledge.guests for relay in relays)
    change(service, "arrive", "db_0")
    for relay in relays:
        relay.send()
        relay.take(relay.lines.pop())
    source, destination = relays
    assert "db_0" not in source.knowledge.guests
    assert "db" not in source.knowledge.views
    assert destination.knowledge.views["db"].incarnation == 2
