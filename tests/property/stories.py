"""Short stories of a fleet, for killing them wherever they can be killed.

Together they take every arrow of the tables, order every verb, and have everything
done that can be done to a fleet: `test_stories.py` fails for what is in none.
"""

from tests.support.lives import Step

POOL_0, POOL_1, WEB_0, WEB_1, WEB_2 = range(5)
FREEZE, MIGRATE, REBOOT, REDEPLOY = range(4)
FAIL, STALL, LIE, REFUSE, FORGET, UNKNOWN, NOT_NEEDED, LAND, UNTOLD = range(9)
MARK_LOST, MARK_ONLY, MARK_UNREADABLE, UNSEEN = range(9, 13)
EMPTYING, IN_PEACE, IN_PLACE, PAUSING, STOPPING = range(5)
NEEDED, ENTER, WORK, ANSWERS, VERIFY, EXIT = range(6)


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


def _visit(*hosts: int, impact: int, is_checked: bool = False) -> Step:
    return Step(
        "visit", {"hosts": list(hosts), "impact": impact, "is_checked": is_checked}
    )


def _step_fault(kind: int, step: int, *, times: int = 1) -> Step:
    return Step("fault_step", {"kind": kind, "step": step, "times": times})


def _retry(host: int, *, only_verify: bool = False) -> Step:
    return Step(
        "end_visit", {"host": host, "is_repeated": True, "only_verify": only_verify}
    )


def _skip(host: int) -> Step:
    return Step("end_visit", {"host": host, "is_repeated": False})


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
    "deferrals of a VM and of a scope, and then at once": [
        *_everybody(),
        _maintain(0, 1, impact=REBOOT),
        Step("defer", {"vm": WEB_0, "hours": 30, "by_scope": False}),
        _wait(7200),
        Step("defer", {"vm": WEB_2, "hours": 30, "by_scope": True}),
        Step("expedite", {"vm": WEB_0}),
        _wait(7200),
        # The VMs ask, so that none of their scopes is disabled.
        *(step for _ in range(4) for step in (_wait(12 * 3600), *_everybody())),
    ],
    "a window that opens after an approval": [
        *_everybody(),
        Step("set_window", {"scope": 0, "hours": 8}),
        _maintain(0, 1, impact=REBOOT),
        _wait(1200),
        Step("set_window", {"scope": 0, "hours": 23}),
        _wait(12 * 3600),
        # After a crash, the time without requests begins again.
        *_everybody(),
        _wait(12 * 3600),
    ],
    "losses put the brake on, and it ends after a calm": [
        *_everybody(),
        _maintain(0, 1, impact=REBOOT),
        Step("fail_host", {"host": 2}),
        Step("fail_host", {"host": 3}),
        _wait(1300),
        Step("restore_host", {"host": 2}),
        Step("restore_host", {"host": 3}),
        _wait(3600),
    ],
    "announced work withdrawn by hand, and drained hosts": [
        *_everybody(),
        Step("drain", {"hosts": [0], "at_once": 1}),
        Step("put_brake_on", {"withdraw": True}),
        _wait(60),
        Step("take_brake_off"),
        _wait(2400),
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
    "calls of a lost memory, whose marks tell the outcome or do not": [
        _get(POOL_0),
        _fault(UNSEEN),
        _maintain(0, impact=REBOOT),
        _wait(930),
        Step("lose_memory", {}),
        _wait(700),
        *(
            step
            for kind in (MARK_LOST, MARK_ONLY, MARK_UNREADABLE)
            for step in (
                _fault(kind),
                _maintain(0, impact=REBOOT),
                _wait(930),
                Step("lose_memory", {}),
                Step("resolve", {"number": 0, "done": True, "down": []}),
                _wait(700),
            )
        ),
    ],
    "hosts that a scheduler chooses: announced, unknown, and reported by hand": [
        _get(POOL_1),
        _maintain(0, impact=MIGRATE),
        _wait(800),
        _maintain(1, impact=REBOOT),
        Step("fault", {"kind": LAND, "vm": -1, "times": 1, "how": 1}),
        Step("fault", {"kind": UNTOLD, "vm": -1, "times": 1, "how": 0}),
        _wait(400),
        Step("resolve", {"number": 0, "done": True, "down": []}),
        _wait(1600),
    ],
    "a host that is checked, emptied, worked on and verified": [
        _get(WEB_2),
        _visit(1, impact=EMPTYING, is_checked=True),
        _wait(100),
        _approve(WEB_2),
        _wait(3600),
    ],
    "hosts that do not need the work, or cannot say so": [
        _step_fault(NOT_NEEDED, NEEDED),
        _step_fault(FAIL, NEEDED),
        _visit(0, 1, impact=EMPTYING, is_checked=True),
        _wait(300),
    ],
    "work on hosts whose VMs stay, and a cancelled rest": [
        _visit(0, 1, impact=IN_PEACE),
        _wait(100),
        Step("cancel", {"number": 0, "whole": True}),
        _wait(1800),
    ],
    "a host that is verified after a reboot, cancelled before it": [
        _get(WEB_2),
        _visit(1, impact=IN_PLACE),
        _wait(60),
        Step("cancel", {"number": 0, "whole": True}),
        _visit(1, impact=IN_PLACE),
        _wait(3000),
    ],
    "work while VMs are paused": [
        _get(WEB_2),
        _visit(1, impact=PAUSING),
        _wait(1800),
    ],
    "work that fails while VMs are stopped": [
        _get(WEB_2),
        _step_fault(FAIL, WORK),
        _visit(1, impact=STOPPING),
        _wait(1500),
        _skip(1),
    ],
    "work of an unknown outcome while VMs are stopped, repeated and given up": [
        _get(WEB_2),
        _step_fault(UNKNOWN, WORK, times=2),
        _visit(1, impact=STOPPING),
        _wait(6000),
        _retry(1),
        _wait(6000),
        _skip(1),
        _wait(1200),
    ],
    "a host that answers late, then not at all, and is given up": [
        _get(WEB_2),
        _step_fault(FAIL, ANSWERS, times=4),
        _visit(1, impact=STOPPING),
        _wait(1800),
        _retry(1),
        _wait(1800),
        _step_fault(FAIL, ANSWERS, times=4),
        _visit(1, impact=STOPPING),
        _wait(1800),
        _skip(1),
        _wait(1200),
        # No VM is there.
        _visit(2, impact=STOPPING),
        _wait(1200),
    ],
    "VMs that cannot be paused, and VMs that do not run again": [
        *_everybody(),
        _visit(1, impact=PAUSING),
        # The host is being entered.
        _wait(930),
        _fault(FAIL, times=3),
        _wait(1500),
        _visit(0, impact=STOPPING),
        # The work is being done.
        _wait(1020),
        _fault(FAIL, times=3, how=1),
        _wait(1200),
        _skip(0),
    ],
    "steps that fail, and are repeated": [
        *(_step_fault(FAIL, step) for step in (WORK, EXIT)),
        _step_fault(FAIL, VERIFY, times=16),
        _visit(2, impact=EMPTYING),
        _wait(300),
        _retry(2),
        _wait(6000),
        Step("fault_step", {"kind": REFUSE, "step": VERIFY, "times": 1}),
        _retry(2, only_verify=True),
        _wait(1800),
        _retry(2),
        _wait(900),
    ],
    "work that was reported and not done, and is repeated": [
        _step_fault(LIE, WORK),
        _visit(2, impact=EMPTYING),
        _wait(3600),
        _retry(2),
        _wait(1800),
    ],
    "steps with an unknown outcome, and one that is given up": [
        *(_step_fault(FORGET, step) for step in (WORK, EXIT)),
        _step_fault(UNKNOWN, VERIFY),
        _visit(2, impact=EMPTYING),
        _wait(2400),
        _retry(2),
        _wait(3000),
        _retry(2),
        _wait(3000),
        _retry(2),
        _wait(600),
        _step_fault(FORGET, ENTER),
        _visit(3, impact=EMPTYING),
        _wait(2400),
        _skip(3),
    ],
    "a host that cannot be entered, and is given up": [
        _step_fault(FAIL, ENTER),
        _visit(1, impact=EMPTYING),
        _wait(1200),
        _skip(1),
        _wait(60),
    ],
    "VMs that cannot be moved away": [
        Step("fault", {"kind": FAIL, "vm": WEB_2, "times": 3, "how": 0}),
        _visit(1, impact=EMPTYING),
        _wait(3000),
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
