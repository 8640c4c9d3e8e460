"""Short stories of a fleet, for killing them wherever they can be killed.

Together they take every arrow of the tables, order every verb, and have everything
done that can be done to a fleet: `test_stories.py` fails for what is in none.
"""

from forewarn.control.rules.policy import Policy
from forewarn.instants import MINUTE, SECOND
from tests.support.fleets import FleetPlan, HostPlan, ScopePlan, VmPlan
from tests.support.lives import Step

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
FAIL, STALL, LIE, REFUSE, FORGET, UNKNOWN = range(6)


def _get(vm: int, tag: int = 0) -> Step:
    return Step("get", {"vm": vm, "version": 6, "tag": tag})


def _everybody(*, tag: int = 0) -> list[Step]:
    return [_get(vm, tag) for vm in range(5)]


def _approve(vm: int) -> Step:
    return Step("approve", {"vm": vm, "events": [0, 8], "version": 6})


def _wait(seconds: float) -> Step:
    return Step("advance", {"seconds": seconds})


def _approve_what_is_over(vm: int) -> Step:
    """Approve an event that the VM has seen, and does not see any more."""
    return Step("approve", {"vm": vm, "events": [4], "version": 6})


def _maintain(*hosts: int, impact: int, emergency: bool = False) -> Step:
    return Step(
        "maintain", {"hosts": list(hosts), "impact": impact, "emergency": emergency}
    )


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
    "destinations that fail, and no place until one is restored": [
        *_everybody(),
        _fault(FAIL),
        _maintain(0, impact=REDEPLOY),
        _wait(601),
        Step("fail_host", {"host": 2}),
        Step("fail_host", {"host": 3}),
        *_everybody(),
        _wait(72),
        Step("restore_host", {"host": 3}),
        _wait(1200),
    ],
    "the brake, on and off": [
        *_everybody(),
        _maintain(0, 1, impact=REBOOT),
        Step("put_brake_on"),
        _wait(1200),
        Step("take_brake_off"),
        _wait(3600),
    ],
    "cordoned destinations, until one is open": [
        *_everybody(),
        *(Step("cordon", {"host": host, "owner": 0}) for host in (1, 2, 3)),
        Step("cordon", {"host": 3, "owner": 1}),
        _maintain(0, impact=REDEPLOY),
        Step("restart", {"vms": [WEB_0], "redeploy": True}),
        _wait(700),
        Step("open_host", {"host": 3, "owner": 0, "by_all": False}),
        _wait(60),
        Step("open_host", {"host": 3, "owner": 0, "by_all": True}),
        _wait(1800),
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
    "a call that is done for all VMs but one, whose outcome is unknown": [
        _get(POOL_0),
        Step("fault", {"kind": UNKNOWN, "vm": WEB_2, "times": 1, "how": 8}),
        _maintain(1, impact=REBOOT),
        _wait(1000),
        Step("resolve", {"number": 0, "done": True, "down": []}),
        _wait(600),
    ],
    "a VM that stops, and runs again elsewhere": [
        _get(WEB_0),
        Step("see", {"vm": WEB_0, "how": 0, "host": 0}),
        _wait(60),
        Step("see", {"vm": WEB_0, "how": 3, "host": 2}),
        _wait(60),
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
    "a reimage": [
        _get(POOL_0),
        Step("renew_image", {"vms": [POOL_0], "reimage": True}),
        _approve(POOL_0),
        _wait(1500),
    ],
    "held too long, announced again, and cancelled while it is held": [
        _get(WEB_0),
        Step("fail_vm", {"vm": WEB_2}),
        _maintain(0, impact=FREEZE, emergency=True),
        _wait(940),
        _wait(910),
        Step("cancel", {"number": 1, "whole": False}),
        Step("restore_vm", {"vm": WEB_2}),
    ],
    "a host that fails while two VMs of one order recover": [
        _get(WEB_0),
        Step("restart", {"vms": [WEB_0, WEB_1], "redeploy": False}),
        _wait(1200),
        Step("fail_host", {"host": 0}),
        Step("restore_host", {"host": 0}),
    ],
    "a rollout that is cancelled halfway, and then fails": [
        _get(WEB_0),
        _maintain(0, 1, impact=REBOOT),
        _wait(901),
        Step("cancel", {"number": 0, "whole": True}),
        Step("fail_host", {"host": 0}),
        Step("restore_host", {"host": 0}),
    ],
    "an operator approves, and VMs do too late": [
        _get(WEB_0),
        _get(POOL_0),
        _maintain(0, impact=FREEZE),
        _get(WEB_0),
        Step("approve_for", {"number": 0, "as_vm": -1}),
        Step("approve_for", {"number": 1, "as_vm": -1}),
        _approve(WEB_0),
        _wait(700),
        _approve_what_is_over(WEB_0),
        Step("restart", {"vms": [WEB_2], "redeploy": True}),
        Step("approve_for", {"number": 0, "as_vm": WEB_0}),
        _wait(1),
    ],
    "a call without end, that an operator calls failed": [
        _get(WEB_0),
        _fault(STALL),
        Step("restart", {"vms": [WEB_2], "redeploy": False}),
        # NotBefore after 900 s, and twice the time of a call: it begins again after a
        # crash while the driver is asked.
        _wait(1600),
        Step("resolve", {"number": 0, "done": False, "down": [0]}),
        Step("restore_vm", {"vm": WEB_2}),
    ],
}

POLICIES = {
    "held too long, announced again, and cancelled while it is held": Policy(
        hold_max=30 * SECOND
    ),
    "a call without end, that an operator calls failed": Policy(
        driver_timeout=5 * MINUTE
    ),
}
"""Of the stories that would be long ones with the usual policy."""
