"""Steps of stories in few words."""

from tests.support.lives import Step

POOL_0, POOL_1, WEB_0, WEB_1, WEB_2 = range(5)
FREEZE, MIGRATE, REBOOT, REDEPLOY = range(4)
FAIL, STALL, LIE, REFUSE, FORGET, UNKNOWN, NOT_NEEDED, LAND, UNTOLD = range(9)
MARK_LOST, MARK_ONLY, MARK_UNREADABLE, UNSEEN = range(9, 13)
EMPTYING, IN_PEACE, IN_PLACE, PAUSING, STOPPING = range(5)
NEEDED, ENTER, WORK, ANSWERS, VERIFY, EXIT = range(6)


def get(vm: int, tag: int = 0) -> Step:
    return Step("get", {"vm": vm, "version": 6, "tag": tag})


def everybody(*, tag: int = 0) -> list[Step]:
    return [get(vm, tag) for vm in range(5)]


def approve(vm: int) -> Step:
    return Step("approve", {"vm": vm, "events": [0, 8], "version": 6})


def wait(seconds: float) -> Step:
    return Step("advance", {"seconds": seconds})


def approve_what_is_over(vm: int) -> Step:
    """Approve an event that the VM has seen, and does not see any more."""
    return Step("approve", {"vm": vm, "events": [4], "version": 6})


def maintain(*hosts: int, impact: int, emergency: bool = False) -> Step:
    return Step(
        "maintain", {"hosts": list(hosts), "impact": impact, "emergency": emergency}
    )


def fault(kind: int, *, times: int = 1, how: int = 0) -> Step:
    return Step("fault", {"kind": kind, "vm": -1, "times": times, "how": how})


def visit(*hosts: int, impact: int, is_checked: bool = False) -> Step:
    return Step(
        "visit", {"hosts": list(hosts), "impact": impact, "is_checked": is_checked}
    )


def step_fault(kind: int, step: int, *, times: int = 1) -> Step:
    return Step("fault_step", {"kind": kind, "step": step, "times": times})


def retry(host: int, *, only_verify: bool = False) -> Step:
    return Step(
        "end_visit", {"host": host, "is_repeated": True, "only_verify": only_verify}
    )


def skip(host: int) -> Step:
    return Step("end_visit", {"host": host, "is_repeated": False})


def blackout(which: int, *, begins: int, hours: int, host: int, by_day: bool) -> Step:
    place = {"host": host, "by_day": by_day}
    return Step(
        "set_blackout", {"which": which, "begins": begins, "hours": hours} | place
    )
