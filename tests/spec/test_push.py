"""Waiting for a change (docs/reference/extensions.md), black-box against a URL over a whole world.

Time is the world's: it passes when a test says so.
"""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from forewarn.clock import SystemClock
from forewarn.metadata.waiting import Waits
from forewarn.protocol.operations import Action
from forewarn.testing.client import EVENTS_PATH, METADATA, Answer
from tests.spec import support
from tests.spec.support import DB, WEB, ServedWorld, fleet, make_world

pytestmark = pytest.mark.system

VERSION = "api-version=2020-07-01"
PATIENCE_SECONDS = 120.0

FLEET = fleet(
    hosts=["h1", "h2"],
    scopes={"web": WEB, "db": DB},
    vms={
        "web_0": {"host": "h1", "scope": "web", "fault_domain": 0, "spot": True},
        "web_1": {"host": "h2", "scope": "web", "fault_domain": 1},
        "db_0": {"host": "h1", "scope": "db", "fault_domain": 0},
    },
)


@pytest.fixture
def served() -> Iterator[ServedWorld]:
    """Serve a fleet whose VMs may wait for up to a minute."""
    world = make_world(FLEET)
    world.endpoint.waits = Waits(longest_seconds=60)
    for name in ("web_0", "web_1", "db_0"):
        world.vm(name).get()
    with support.served(world) as whole:
        yield whole


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as threads:
        yield threads


def get(served: ServedWorld, vm: str, wait: str = "60", tag: str = "") -> Answer:
    headers = (*METADATA, ("If-None-Match", tag)) if tag else METADATA
    target = f"{EVENTS_PATH}?{VERSION}&wait={wait}"
    return served.client(vm).ask("GET", target, headers=headers)


def waiting(
    served: ServedWorld, pool: ThreadPoolExecutor, vm: str, *, seconds: int = 60
) -> Future[Answer]:
    """Return the answer to come of a VM that has the present document."""
    before = served.do(lambda world: len(world.endpoint.waits))
    tag = get(served, vm).header("ETag") or ""
    response = pool.submit(get, served, vm, str(seconds), tag)
    clock = SystemClock()
    deadline = clock.monotonic() + PATIENCE_SECONDS
    while served.do(lambda world: len(world.endpoint.waits)) == before:
        assert clock.monotonic() < deadline, "it does not wait"
    return response


def pass_time(served: ServedWorld, duration: str) -> None:
    served.do(lambda world: world.advance(duration))
    served.do(lambda _: served._server.wake())


def test_event_wakes_all_waiters_of_its_scope_and_no_others(
    served: ServedWorld, pool: ThreadPoolExecutor
) -> None:
    web = [waiting(served, pool, vm) for vm in ("web_0", "web_1")]
    db = waiting(served, pool, "db_0")
    served.do(lambda world: support.reboot(world, "web_0"))
    for answer in (future.result(PATIENCE_SECONDS) for future in web):
        assert answer.status == 200
        [event] = answer.json["Events"]
        assert (event["EventType"], event["Resources"]) == ("Reboot", ["web_0"])
    assert not db.done()
    pass_time(served, "61s")
    assert db.result(PATIENCE_SECONDS).status == 304


def test_waiting_vm_gets_the_whole_notice_of_a_preempt(
    served: ServedWorld, pool: ThreadPoolExecutor
) -> None:
    served.do(lambda world: world.advance("7s"))
    response = waiting(served, pool, "web_0")
    served.do(lambda world: support.evict(world, "web_0"))
    # No time has passed for the VM between the order and this.
    answer = response.result(PATIENCE_SECONDS)
    assert answer.json["Events"][0]["NotBefore"] == "Tue, 01 Jan 2030 00:00:37 GMT"


def test_waiting_client_gets_each_step_of_an_event(
    served: ServedWorld, pool: ThreadPoolExecutor
) -> None:
    statuses: list[list[str]] = []

    def next_step() -> Answer:
        answer = response.result(PATIENCE_SECONDS)
        statuses.append([event["EventStatus"] for event in answer.json["Events"]])
        return answer

    response = waiting(served, pool, "web_1")
    served.do(lambda world: support.maintain(world, "h1", action=Action.REBOOT))
    event = next_step().json["Events"][0]
    response = waiting(served, pool, "web_1")
    served.do(lambda world: world.vm("web_0").approve(event["EventId"]))
    served.do(lambda world: support.approve_all(world, "db_0"))
    next_step()
    response = waiting(served, pool, "web_1")
    pass_time(served, "30m")
    next_step()
    assert statuses == [["Scheduled"], ["Started"], []]


def test_expired_wait_returns_304_with_the_same_tag(
    served: ServedWorld, pool: ThreadPoolExecutor
) -> None:
    response = waiting(served, pool, "web_0", seconds=20)
    pass_time(served, "19s")
    assert not response.done()
    pass_time(served, "1s")
    answer = response.result(PATIENCE_SECONDS)
    assert (answer.status, answer.body) == (304, b"")
    assert answer.header("ETag") == '"1"'
    assert answer.header("Forewarn-Wait") == "60"


def test_waiting_request_keeps_the_scope_enabled(
    served: ServedWorld, pool: ThreadPoolExecutor
) -> None:
    """A scope is disabled after a day without requests; a waiting request keeps it
    enabled."""
    for _ in range(3):
        response = waiting(served, pool, "web_0")
        pass_time(served, "23h")
        assert response.result(PATIENCE_SECONDS).status == 304


@pytest.mark.parametrize("wait", ["x", "", "1.5", "-1"])
def test_invalid_wait_is_refused(served: ServedWorld, wait: str) -> None:
    answer = get(served, "web_0", wait)
    assert answer.status == 400
    assert "wait" in answer.json["error"]


@pytest.mark.clause("1.3")
@pytest.mark.parametrize("wait", ["60", "x"])
def test_wait_parameter_is_ignored_without_push(wait: str) -> None:
    world = make_world(listening=["web_0"])
    with support.served(world) as served:
        for tag, status in (("", 200), ('"1"', 304)):
            answer = get(served, "web_0", wait, tag)
            assert answer.status == status
            assert answer.header("Forewarn-Wait") is None
