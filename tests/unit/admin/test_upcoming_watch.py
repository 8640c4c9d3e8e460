"""The topic `upcoming`: a tenant follows its coming work, and sees nothing of others."""

import json
from typing import Any

import pytest

from forewarn.admin import limits
from forewarn.admin.coming_work import ComingWork
from forewarn.admin.selection import About, Wanted
from forewarn.admin.topics import Change
from forewarn.control.requests import choices, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.transactions.work import Who, Work
from forewarn.instants import HOUR
from forewarn.protocol.actors import operator, tenant_user
from forewarn.protocol.operations import WAITING_STATES, Action
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from tests.unit.admin.gateway import LocalGateway
from tests.unit.admin.streams import Streams, Watcher, names, run
from tests.unit.admin.tenants import FLEET, SECRETS, Shared

QUIET_MAX = 12
"""Comments in a row after which nothing comes: a minute."""
MINUTES_MAX = 60
"""More than the work on one host takes."""


@pytest.fixture
def gateway() -> LocalGateway:
    """Return a service with an announced and a planned host that both tenants share."""
    gateway = LocalGateway(FLEET)
    for vm in ("web_0", "web_1", "hidden-db-0", "hidden-db-1"):
        gateway.enable(vm)
    gateway.advance("1m")
    options = OrderOptions()
    gateway.plane.order(
        Who(actor=operator("test")),
        lambda work: verbs.maintain(
            work, ["hidden-h1", "hidden-h2"], Action.REBOOT, options
        ),
        now=gateway.now(),
    )
    gateway.advance("1s")
    return gateway


async def of(watcher: Watcher, vm: str, state: str) -> dict[str, Any]:
    """Return the next message about a VM with this state."""
    quiet = 0
    while quiet < QUIET_MAX:
        name, told = await watcher.next()
        quiet += name == "comment"
        if name == "upcoming" and (told["vm"], told["state"]) == (vm, state):
            return told
    raise AssertionError(f"nothing about {vm} is {state}")


def announce(gateway: LocalGateway, vm: str) -> None:
    """Advance until a VM has an event."""

    def events(reader: Reader) -> int:
        operations = every(reader, kinds.OPEN_OPERATIONS_OF_VM, vm)
        return sum(1 for operation in operations if operation.state in WAITING_STATES)

    for _ in range(MINUTES_MAX):
        if gateway.store.read(events):
            return
        gateway.advance("1m")
    raise AssertionError(f"{vm} has no event")


def defer(gateway: LocalGateway, vm: str) -> None:
    until = gateway.now() + 30 * HOUR

    def decide(work: Work) -> object:
        return choices.defer(work, choices.target_of(work, vm), until)

    who = Who(actor=tenant_user("shop", "ci"), reason="month end")
    gateway.plane.order(who, decide, now=gateway.now())
    gateway.advance("1s")


def test_stream_has_the_coming_work_its_changes_and_its_end(
    gateway: LocalGateway,
) -> None:
    async def story(streams: Streams) -> None:
        watcher = streams.watch("upcoming")
        first, second = await watcher.until("ready")
        assert (first["vm"], first["state"]) == ("web_0", "Announced")
        assert (second["vm"], second["state"]) == ("web_1", "Planned")
        defer(gateway, "web_1")
        later = await of(watcher, "web_1", "Planned")
        assert later["work"] == second["work"]
        assert later["earliest"] > second["earliest"]
        gateway.advance("16m")
        over = await of(watcher, "web_0", "Over")
        assert (over["work"], bool(over["ended"])) == (first["work"], True)
        assert not [secret for secret in SECRETS if secret in json.dumps([later, over])]

    run(gateway, story, tenant="shop")


def test_work_keeps_its_name_when_it_is_announced(gateway: LocalGateway) -> None:
    async def story(streams: Streams) -> None:
        watcher = streams.watch("upcoming", wanted=Wanted(vm="web_1"))
        (planned,) = await watcher.until("ready")
        announce(gateway, "web_1")
        announced = await of(watcher, "web_1", "Announced")
        assert announced["work"] == planned["work"]
        assert announced["operation"]

    run(gateway, story, tenant="shop")


def test_tenants_cannot_compare_the_names_of_their_work(gateway: LocalGateway) -> None:
    names_shown: list[str] = []

    async def story(streams: Streams) -> None:
        names_shown.extend(
            names(await streams.watch("upcoming").until("ready"), "work")
        )

    for tenant in ("shop", "hidden-bank"):
        run(gateway, story, tenant=tenant)
    assert len(set(names_shown)) == 4


def test_work_that_a_viewer_got_during_a_comparison_is_not_over() -> None:
    coming = ComingWork()
    early, late = (
        Change("upcoming", key, {}, About(vms=(key,), scopes=("web",)), key)
        for key in ("a", "b")
    )
    assert list(coming.take([late], "web/b", now=0)) == [late]
    coming.sent([early])
    assert list(coming.take([], "", now=0)) == []
    _, over = coming.take([late], "", now=0)
    assert (over.key, over.is_over, over.body["state"]) == ("a", True, "Over")


def test_slow_comparison_leaves_most_of_the_time_to_others() -> None:
    coming = ComingWork()
    coming.wait(10.0, 11.0)
    assert coming.due == 11.0 + limits.UPCOMING_PAUSE


def test_operator_names_one_tenant_and_no_other_topic() -> None:
    shared = Shared()
    viewer = shared.token("", read_only=True)
    answer = shared.ask(viewer, "GET", "/v1/watch?topics=upcoming")
    assert answer.status_code == 400
    assert answer.json()["error"] == "name the tenant whose coming work to list"
    answer = shared.ask(
        viewer, "GET", "/v1/watch?topics=upcoming,operations&tenant=shop"
    )
    assert answer.status_code == 400
    assert "Open a stream for `upcoming`" in answer.json()["hint"]
    answer = shared.ask(viewer, "GET", "/v1/watch?topics=upcoming&tenant=nope")
    assert answer.status_code == 404
