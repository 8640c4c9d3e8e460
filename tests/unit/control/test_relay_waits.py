"""Planned work waits for the relays of its hosts: which work, for which, and how long."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from forewarn.control import tokens
from forewarn.control.execution import calls
from forewarn.control.requests import fleet_changes, relay_links, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.rules import relay_links as rules
from forewarn.control.rules.avoided import with_avoided
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleet.file import read_fleet
from forewarn.instants import HOUR, MINUTE, SECOND, Micros, format_instant
from forewarn.protocol.blockers import RelaySilent
from forewarn.protocol.operations import (
    Action,
    Operation,
    OperationState,
    Verb,
)
from forewarn.reporting import attention, held
from forewarn.reporting.problem import ProblemKind
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.store.relay_links import RelayLink
from tests.support.worlds import LastingStore, World

HOSTS = 4
FLEET = "".join(
    f'[[host]]\nname = "h{number}"\n'
    + (f'[[vm]]\nname = "web_{number}"\nhost = "h{number}"\n' * (number < HOSTS - 1))
    for number in range(HOSTS)
)


@pytest.fixture
def world() -> World:
    store = LastingStore()
    return World(store=lambda: store, driver=SimulatedDriver(), fleet=FLEET)


def token(world: World, host: str, *, lifetime: Micros | None = None) -> str:
    return world.order(
        lambda work: tokens.create(
            work,
            name="",
            tenant="",
            roles=(),
            lifetime=lifetime,
            secret_digest="0" * 64,
            relay=host,
        )
    ).token_id


def report(world: World, silent_since: Micros = 0, *, host: str = "h0") -> None:
    """Report that the relay of a host is silent, or that it has confirmed all."""
    world.order(lambda work: relay_links.take(work, {host: silent_since}))
    world.settle()


def connect(world: World, *hosts: str) -> None:
    for host in hosts:
        token(world, host)
        report(world, host=host)


def maintain(
    world: World,
    *hosts: str,
    action: Action = Action.REBOOT,
    emergency: bool = False,
) -> None:
    options = OrderOptions(emergency=emergency)
    world.order(lambda work: verbs.maintain(work, hosts, action, options))
    world.settle()


def of_host(world: World, host: str = "h0") -> Operation:
    (found,) = (operation for operation in world.operations() if operation.host == host)
    return found


def run_to(world: World, minutes: int) -> None:
    for _ in range(minutes):
        world.advance("1m")


def links(world: World) -> list[RelayLink]:
    return world.read(lambda reader: list(every(reader, kinds.ALL_RELAY_LINKS)))


def silent_ones(world: World) -> list[attention.Problem]:
    problems = world.read(lambda reader: attention.problems(reader, now=world.now))
    return [problem for problem in problems if problem.kind is ProblemKind.RELAY_SILENT]


def test_routine_start_waits_for_a_silent_relay_and_begins_when_it_is_back(
    world: World,
) -> None:
    connect(world, "h0", "h1")
    maintain(world, "h0")
    since = world.now
    report(world, since)
    run_to(world, 20)
    waiting = of_host(world)
    assert waiting.state is OperationState.READY
    assert waiting.held_by == (RelaySilent(host="h0", since=since),)
    sentence = (
        f"the relay of host h0 has been silent since {format_instant(since)}, so its VMs "
        "may not know their events: `forewarn relay list` shows it. If the host has no "
        "relay any longer, revoke its tokens (`forewarn token list`)"
    )
    assert world.explain(waiting.operation_id) == [sentence]
    (problem,) = silent_ones(world)
    assert (problem.text, problem.hosts, problem.since) == (sentence, ("h0",), since)
    report(world)
    assert of_host(world).state is OperationState.IMPACTING
    assert silent_ones(world) == []


def test_waits_name_the_relays_that_hold_announced_hosts(world: World) -> None:
    connect(world, "h0", "h1")
    maintain(world, "h0")
    assert world.read(held.by_relays) == []
    report(world, world.now)
    report(world, world.now, host="h1")
    run_to(world, 16)
    (found,) = world.read(held.by_relays)
    told = held.held_report(found)
    assert (told["relay"], told["hosts"], told["until"]) == ("h0", 1, None)
    assert (told["kind"], told["scope"], told["blackout"]) == (
        "relay silent",
        None,
        None,
    )
    assert "the relay of host h0 has been silent" in told["text"]
    report(world)
    assert world.read(held.by_relays) == []


def test_approval_does_not_start_work_behind_a_silent_relay(world: World) -> None:
    world.vm("web_0").get()
    connect(world, "h0")
    report(world, world.now)
    maintain(world, "h0")
    (event,) = world.live_events()
    world.vm("web_0").approve(event.event_id)
    world.settle()
    assert of_host(world).state is OperationState.READY
    report(world)
    assert of_host(world).state is OperationState.IMPACTING


def test_silent_relay_of_another_host_holds_nothing(world: World) -> None:
    connect(world, "h0", "h1")
    report(world, world.now, host="h1")
    maintain(world, "h0")
    run_to(world, 16)
    assert of_host(world).state is not OperationState.READY
    assert of_host(world).started_at


def test_host_whose_relay_never_connected_is_not_held(world: World) -> None:
    token(world, "h0")
    maintain(world, "h0")
    run_to(world, 16)
    assert of_host(world).started_at


def test_after_a_restart_a_start_waits_until_the_relay_is_heard_again(
    world: World,
) -> None:
    connect(world, "h0")
    maintain(world, "h0")
    world.restart()
    run_to(world, 16)
    waiting = of_host(world)
    assert waiting.held_by == (RelaySilent(host="h0"),)
    assert "since the start of the service" in world.explain(waiting.operation_id)[0]
    report(world)
    assert of_host(world).state is OperationState.IMPACTING


@pytest.mark.parametrize("work", ["emergency", "request of a user", "failure"])
def test_emergencies_and_short_notice_do_not_wait(world: World, work: str) -> None:
    connect(world, "h0")
    report(world, world.now)
    if work == "emergency":
        maintain(world, "h0", emergency=True)
    elif work == "failure":
        world.order(
            lambda made: verbs.predict_failure(made, ["h0"], HOUR, OrderOptions())
        )
    else:
        world.order(
            lambda made: verbs.change_vms(made, ["web_0"], Verb.REBOOT, OrderOptions())
        )
    world.settle()
    run_to(world, 65)
    operation = of_host(world)
    assert operation.started_at or operation.verb is Verb.PREDICT_FAILURE
    why = world.explain(operation.operation_id)
    assert not [reason for reason in why if "relay" in reason], why


def test_revoking_the_last_token_of_a_relay_frees_its_host_at_once(
    world: World,
) -> None:
    first = token(world, "h0")
    second = token(world, "h0")
    report(world, world.now)
    maintain(world, "h0")
    run_to(world, 16)
    world.order(lambda work: tokens.revoke(work, first))
    world.settle()
    assert of_host(world).state is OperationState.READY
    world.order(lambda work: tokens.revoke(work, second))
    world.settle()
    assert of_host(world).state is OperationState.IMPACTING
    assert silent_ones(world) == []


def test_expired_token_is_that_of_no_relay(world: World) -> None:
    token(world, "h0", lifetime=HOUR)
    report(world, world.now)
    assert len(silent_ones(world)) == 1
    world.advance("1h")
    assert silent_ones(world) == []


def place_of(world: World, operation: Operation) -> str:
    (move,) = world.operation(operation.operation_id).moves
    return move.to_host


def test_routine_move_goes_to_a_host_whose_relay_is_heard(world: World) -> None:
    connect(world, "h0", "h3")
    report(world, world.now, host="h3")
    maintain(world, "h0", action=Action.LIVE_MIGRATE)
    # Without its relay, the empty h3 would be the best one.
    assert place_of(world, of_host(world)) in {"h1", "h2"}


def test_destination_whose_relay_becomes_silent_is_replaced_at_the_start(
    world: World,
) -> None:
    connect(world, "h0", "h3")
    maintain(world, "h0", action=Action.LIVE_MIGRATE)
    assert place_of(world, of_host(world)) == "h3"
    report(world, world.now, host="h3")
    run_to(world, 16)
    started = of_host(world)
    assert started.started_at
    assert place_of(world, started) in {"h1", "h2"}


def test_routine_move_waits_while_all_other_relays_are_silent(world: World) -> None:
    others = ("h1", "h2", "h3")
    connect(world, "h0", *others)
    maintain(world, "h0", action=Action.LIVE_MIGRATE)
    for host in others:
        report(world, world.now, host=host)
    run_to(world, 16)
    waiting = of_host(world)
    assert waiting.state is OperationState.READY
    (why,) = world.explain(waiting.operation_id)
    assert "with a silent relay (`forewarn relay list`): h1, h2, h3" in why
    report(world, host="h2")
    started = of_host(world)
    assert started.started_at
    assert place_of(world, started) == "h2"


def test_emergency_moves_to_a_silent_host_if_there_is_no_other(world: World) -> None:
    others = ("h1", "h2", "h3")
    connect(world, "h0", *others)
    for host in others:
        report(world, world.now, host=host)
    maintain(world, "h0", action=Action.LIVE_MIGRATE, emergency=True)
    run_to(world, 16)
    assert of_host(world).started_at


def test_driver_that_chooses_hosts_is_told_to_avoid_silent_ones(world: World) -> None:
    connect(world, "h2", "h3")
    for host in ("h2", "h3"):
        report(world, world.now, host=host)
    maintain(world, "h0", action=Action.LIVE_MIGRATE)
    chosen = replace(of_host(world), driver_chooses=True)
    call = calls.call_of(chosen)
    told = world.read(lambda reader: with_avoided(reader, chosen, call))
    assert {"h2", "h3"} <= {*told.closed}


def test_long_silence_announces_the_work_again(world: World) -> None:
    connect(world, "h0")
    maintain(world, "h0")
    report(world, world.now)
    first = of_host(world)
    world.advance("3d")
    again = [operation for operation in world.operations() if operation.host == "h0"]
    assert len(again) > 1
    assert world.operation(first.operation_id).state is OperationState.CANCELLED


def test_removed_host_takes_its_relay_with_it(world: World) -> None:
    connect(world, "h3")
    smaller = FLEET.removesuffix('[[host]]\nname = "h3"\n')
    fleet = read_fleet(smaller, name="fleet.toml")
    world.order(lambda work: fleet_changes.apply(work, fleet))
    assert links(world) == []
    report(world, world.now, host="h3")
    assert links(world) == []


def test_same_report_again_writes_nothing(world: World) -> None:
    connect(world, "h0")
    (before,) = links(world)
    report(world)
    assert links(world) == [before]
    report(world, 5 * SECOND)
    assert links(world)[0].revision == before.revision + 1


@pytest.mark.parametrize("silent", [1, HOSTS])
def test_work_of_a_decision_does_not_grow_with_the_relays(
    world: World, silent: int
) -> None:
    hosts: Sequence[str] = [f"h{number}" for number in range(silent)]
    connect(world, *hosts)
    for host in hosts:
        report(world, world.now, host=host)
    maintain(world, "h0")
    operation, vm = of_host(world), world.stored_vm("web_0")

    read: list[str] = []

    def count(reader: Reader) -> None:
        noting: Any = SimpleNamespace(
            get=lambda kind, key: read.append(key) or reader.get(kind, key),
            select=lambda query, value="", **more: (
                read.append(value) or reader.select(query, value, **more)
            ),
        )
        found = rules.why_silent(noting, operation, [vm], now=world.now)
        assert len(found) == 1

    world.read(count)
    # Whether there is any relay, the one of the host, and its tokens.
    assert read == ["", "h0", "h0"]


def test_waiting_work_is_checked_when_its_relay_is_back_and_not_before(
    world: World,
) -> None:
    connect(world, "h0", "h1")
    for host in ("h0", "h1"):
        report(world, world.now, host=host)
    maintain(world, "h0")
    maintain(world, "h1")
    run_to(world, 16)
    names = {operation.host: operation.waits_for for operation in world.operations()}
    assert names == {"h0": ("relay:h0",), "h1": ("relay:h1",)}
    report(world, host="h1")
    assert of_host(world, "h0").state is OperationState.READY
    assert of_host(world, "h1").state is OperationState.IMPACTING
    assert of_host(world, "h0").due_at > world.now + MINUTE // 2
