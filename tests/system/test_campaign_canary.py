"""A bad BIOS at the canary costs one host, and no tenant an event.

A real service of several processes, with programs that fail, lie, or never end.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.protocol.visits import Visit, VisitState
from tests.support.profiles import some
from tests.system.racks import NEW, OLD, Racks

pytestmark = [pytest.mark.system, pytest.mark.slow]

HOSTS = 4

CANARY = """
[campaign.budget]
in_flight = 4
[[campaign.stage]]
hosts = 1
soak = "10m"
"""

BAD = {
    "fails": ("work", "fail", "step work failed: exit status 3: flash chip of h0"),
    "lies": ("work", "lie", f"step verify failed: exit status 1: h0 has {OLD}, not"),
    "hangs": ("work", "hang", "step work failed"),
    "hangs, deaf to signals": ("work", "deaf", "step work failed"),
    "enter fails": ("enter", "fail", "step enter failed: exit status 3"),
    "enter hangs": ("enter", "hang", "step enter failed"),
    "verify hangs": ("verify", "hang", "step verify failed"),
    "exit fails": ("exit", "fail", "step exit failed: exit status 3"),
    "exit hangs": ("exit", "hang", "step exit failed"),
}
"""The step, how its program behaves, and what `explain` says about the host."""


Prepare = Callable[..., Racks]


@pytest.fixture
def prepare(tmp_path: Path) -> Iterator[Prepare]:
    racks: list[Racks] = []

    def prepared(**settings: Any) -> Racks:
        racks.append(Racks(tmp_path, HOSTS, **settings))
        return racks[-1]

    yield prepared
    for rack in racks:
        rack.end()


@pytest.mark.parametrize("bad", some(BAD, usual=["fails", "lies", "hangs"]))
def test_a_bad_canary_costs_one_host_and_no_event(prepare: Prepare, bad: str) -> None:
    step, how, said = BAD[bad]
    # Only what never ends needs a short deadline.
    hangs = how in {"hang", "deaf"}
    racks = prepare(
        timeouts={step: "1s"} if hangs else {},
        verify_within="1s" if said.startswith("step verify") else "5m",
    )
    racks.behave(step, how)
    service = racks.begin()
    vms = [f"vm_{number}" for number in range(1, HOSTS)]
    before = [service.document(vm) for vm in vms]
    racks.start(stages=CANARY)
    campaign = racks.wait_for("Halted")
    assert campaign["halted"]["cause"] == "canary"
    assert [failure["host"] for failure in campaign["failed"]] == ["h0"]
    assert (campaign["done"], campaign["in_flight"], campaign["waiting"]) == (
        0,
        0,
        HOSTS - 1,
    )
    assert said in str(service.admin("/v1/explain/h0")), service.admin("/v1/explain/h0")
    problems = {
        problem["kind"]: str(problem)
        for problem in service.admin("/v1/problems")["problems"]
        if "bios" in str(problem)
    }
    assert sorted(problems) == ["campaign-halted", "visit-failed"]
    assert all("h0" in text for text in problems.values()), problems
    # No VM saw an event, and none was moved.
    assert [service.document(vm) for vm in vms] == before
    assert {line.host for line in racks.journal()} == {"h0"}
    racks.order("abort", reason="BIOS 2.19 breaks boards")
    assert racks.campaign()["state"] == "Aborted"
    service.kill()
    rows = racks.stored()
    assert not rows.events, "no tenant had an event"
    assert [vm.host for vm in rows.vms.values()] == [*racks.hosts[1:]]
    assert [name for name, host in rows.hosts.items() if host.cordons] == ["h0"]
    [visit] = rows.table(Visit).values()
    assert (visit.host, visit.state) == ("h0", VisitState.FAILED)


@pytest.mark.parametrize("how", some(["fail", "lie"], usual=["fail"]))
def test_a_repaired_canary_is_retried_and_the_others_follow(
    prepare: Prepare, how: str
) -> None:
    # Only a lie must be found soon; a busy machine is slow to verify.
    racks = prepare(verify_within="15s" if how == "lie" else "5m")
    racks.behave("work", how)
    service = racks.begin()
    racks.start(stages=CANARY)
    racks.wait_for("Halted")
    racks.behave("work", "")
    racks.order("resume", reason="the chips can be written now")
    racks.order("retry", hosts=["h0"])
    campaign = racks.wait_for("Done")
    assert (campaign["done"], campaign["failed"]) == (HOSTS, [])
    assert set(racks.firmware().values()) == {NEW}
    service.kill()
    rows = racks.stored()
    assert len(rows.events) == HOSTS - 1, "each VM had one event"
    assert not [name for name, host in rows.hosts.items() if host.cordons]
