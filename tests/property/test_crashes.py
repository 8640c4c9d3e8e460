"""Every short story, killed at every checkpoint that it passes, ends the same.

The service dies at each place where a crash would leave something undone, once
for each time the story comes there; it starts again on its file, and the story
goes on. What was promised is kept (S8, S11), and the end is the end of the story
that nobody interrupted.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.instants import SECOND
from forewarn.sim.world import CrashError
from tests.support.fleets import FleetPlan, HostPlan, ScopePlan, VmPlan
from tests.support.lives import Life, Step

PLACES = ("committed", "published", "called")

FLEET = FleetPlan(
    hosts=tuple(HostPlan(name=f"h{number}") for number in range(4)),
    scopes=(
        ScopePlan(name="web", tenant="ash", kind="availability-set", terminate="5m"),
        ScopePlan(name="pool", tenant="bay", kind="scale-set", os_image="15m"),
    ),
    vms=(
        VmPlan(name="pool_0", host="h0", scope="pool"),
        VmPlan(name="pool_1", host="h1", scope="pool", domain=1, spot=True),
        VmPlan(name="web_0", host="h0", scope="web"),
        VmPlan(name="web_1", host="h0", scope="web"),
        VmPlan(name="web_2", host="h1", scope="web", domain=1),
    ),
)
POOL_0, POOL_1, WEB_0, WEB_1, WEB_2 = range(5)
FREEZE, MIGRATE, REBOOT, REDEPLOY = range(4)
FAIL, STALL, LIE, REFUSE, FORGET = range(5)


def _get(vm: int, tag: int = 0) -> Step:
    return Step("get", {"vm": vm, "version": 6, "tag": tag})


def _everybody(*, tag: int = 0) -> list[Step]:
    return [_get(vm, tag) for vm in range(5)]


def _approve(vm: int) -> Step:
    return Step("approve", {"vm": vm, "events": [0, 8], "version": 6})


def _wait(seconds: float) -> Step:
    return Step("advance", {"seconds": seconds})


def _maintain(*hosts: int, impact: int) -> Step:
    return Step("maintain", {"hosts": list(hosts), "impact": impact})


def _fault(kind: int, *, times: int = 1, how: int = 0) -> Step:
    return Step("fault", {"kind": kind, "vm": -1, "times": times, "how": how})


STORIES: dict[str, list[Step]] = {
    "freeze, approved by both": [
        *_everybody(),
        _maintain(0, impact=FREEZE),
        _approve(WEB_1),
        *_everybody(),
        _approve(POOL_0),
        *_everybody(),
        _wait(1200),
    ],
    "rollout of reboots, in silence": [
        *_everybody(),
        _maintain(0, 1, impact=REBOOT),
        _wait(900),
        *_everybody(),
        _wait(1800),
    ],
    "live migration": [
        _get(WEB_0),
        _maintain(0, impact=MIGRATE),
        _approve(WEB_0),
        _wait(903),
        *_everybody(),
        _wait(1800),
    ],
    "redeploy of a host": [
        *_everybody(),
        _maintain(0, impact=REDEPLOY),
        _wait(2400),
    ],
    "user reboot and redeploy": [
        _get(WEB_0),
        Step("restart", {"vms": [WEB_0, POOL_0], "redeploy": False}),
        Step("restart", {"vms": [WEB_2], "redeploy": True}),
        _approve(WEB_0),
        _wait(1800),
    ],
    "deletions": [
        *_everybody(),
        Step("terminate", {"vms": [WEB_0, WEB_2]}),
        Step("evict", {"vms": [POOL_1]}),
        _wait(20),
        _approve(WEB_0),
        _wait(400),
    ],
    "images": [
        *_everybody(),
        Step("renew_image", {"vms": [POOL_0, POOL_1], "reimage": False}),
        _approve(POOL_0),
        _wait(3600),
    ],
    "failure of a host": [
        *_everybody(),
        _maintain(0, impact=FREEZE),
        Step("fail_host", {"host": 0}),
        _get(WEB_0, tag=1),
        Step("restart", {"vms": [WEB_1], "redeploy": True}),
        _wait(700),
        Step("restore_host", {"host": 0}),
        *_everybody(),
        _wait(60),
    ],
    "failure of a VM under a call": [
        *_everybody(),
        Step("restart", {"vms": [WEB_2], "redeploy": False}),
        _wait(901),
        Step("fail_vm", {"vm": WEB_2}),
        _wait(10),
        Step("restore_vm", {"vm": WEB_2}),
    ],
    "predicted failure": [
        *_everybody(),
        Step("predict_failure", {"host": 0, "hours": 6}),
        _approve(WEB_1),
        _wait(3600),
        _wait(22_000),
    ],
    "cancelled": [
        *_everybody(),
        _maintain(0, 1, impact=REBOOT),
        _approve(WEB_0),
        Step("cancel", {"number": 0, "whole": True}),
        *_everybody(),
    ],
    "failing calls": [
        *_everybody(),
        _fault(FAIL, times=3),
        _maintain(0, impact=FREEZE),
        _wait(2400),
    ],
    "a call that is refused once": [
        *_everybody(),
        # Killed before it was noted, the refusal is not counted as an attempt.
        _fault(REFUSE),
        _maintain(1, impact=FREEZE),
        _wait(2400),
    ],
    "a call that leaves VMs down": [
        *_everybody(),
        _fault(LIE, times=3, how=1),
        _maintain(1, impact=REBOOT),
        _wait(2400),
        Step("restore_vm", {"vm": WEB_2}),
        Step("restore_vm", {"vm": POOL_1}),
    ],
    "a call that nobody knows of": [
        _get(POOL_0),
        _fault(FORGET),
        _maintain(1, impact=REBOOT),
        _wait(5400),
        Step("resolve", {"number": 0, "done": True, "down": []}),
        _wait(600),
    ],
    "another fleet": [
        *_everybody(),
        _maintain(0, impact=FREEZE),
        Step("change_fleet", {"what": "move vm", "one": WEB_0, "two": 2, "three": 0}),
        Step("change_fleet", {"what": "add vm", "one": 0, "two": 3, "three": 2}),
        Step("change_fleet", {"what": "remove vm", "one": 0, "two": 0, "three": 0}),
        _wait(1800),
    ],
    "silence for a day": [
        *_everybody(),
        # The time in which nobody could ask is no silence, so wait for two days.
        _wait(180_000),
        _get(WEB_0, tag=1),
        _wait(10),
    ],
}


def _live(life: Life, story: list[Step], crash: tuple[str, int] | None) -> bool:
    """Live a story, killed at one checkpoint; tell whether it was reached."""
    reached = False
    if crash:
        place, at = crash
        at += life.world.passed[place]
        life.world.crash_at = lambda where, count: (where, count) == (place, at)
    for step in story:
        until = life.world.now + round(step.args.get("seconds", 0) * SECOND)
        commits = life.mirror.commits
        try:
            life.do(step)
        except CrashError:
            reached = True
            life.restart_service()
            if step.name == "advance":
                life.world.advance_to(until)
            elif step.name in {"get", "approve"}:
                # A client without an answer asks again.
                life.do(step)
            else:
                assert life.mirror.commits > commits, "an order is durable or not given"
        life.check()
    return reached


def _end(life: Life) -> dict[str, Any]:
    """Return how a story ended, without names that chance gave."""
    mirror = life.mirror
    targets = {op.operation_id: op.target for op in mirror.operations.values()}
    return {
        "operations": sorted(
            (op.verb.value, op.target, op.state.value, op.not_before, op.moves)
            for op in mirror.operations.values()
        ),
        "events": sorted(
            (
                event.event_type.value,
                targets[event.operation],
                event.scope,
                event.status.value,
                str(event.outcome),
                event.not_before,
                event.approved_by,
                str(event.resources),
            )
            for event in mirror.events.values()
        ),
        "vms": {
            name: (vm.host, vm.state, vm.moving_to, len(vm.started), vm.view)
            for name, vm in mirror.vms.items()
        },
        "hosts": {name: host.state for name, host in mirror.hosts.items()},
        "requests": sorted(
            (each.verb.value, each.state.value) for each in mirror.requests.values()
        ),
        "views": {
            name: (view.epoch, view.incarnation, view.is_enabled)
            for name, view in mirror.views.items()
        },
        "now": life.world.now,
    }


def _checkpoints(story: list[Step], file: Path) -> tuple[dict[str, int], Any]:
    """Return how often an uncrashed story passes each place, and its end."""
    life = Life(FLEET, file=file)
    before = dict(life.world.passed)
    _live(life, story, None)
    passed = {
        place: life.world.passed[place] - before.get(place, 0) for place in PLACES
    }
    end = _end(life)
    life.close()
    return passed, end


def _crashes(passed: dict[str, int]) -> Iterator[tuple[str, int]]:
    for place, count in passed.items():
        for number in range(1, count + 1):
            yield place, number


@pytest.mark.slow
@pytest.mark.clause("2.10", "3.2", "4.2")
@pytest.mark.parametrize("name", STORIES)
def test_a_story_ends_the_same_wherever_it_is_killed(name: str, tmp_path: Path) -> None:
    story = STORIES[name]
    passed, end = _checkpoints(story, tmp_path / "whole.db")
    assert passed["committed"] > 0

    for place, number in _crashes(passed):
        life = Life(FLEET, file=tmp_path / f"{place}-{number}.db")
        reached = _live(life, story, (place, number))
        found = _end(life)
        life.close()

        assert reached, (place, number)
        for what, expected in end.items():
            assert found[what] == expected, (place, number, what)
