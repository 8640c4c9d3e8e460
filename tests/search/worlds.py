"""The small worlds that are searched: three hosts, two tenants."""

from dataclasses import replace

from forewarn.protocol.operations import Action
from tests.search.settings import (
    ScopePlan,
    Setting,
    VmPlan,
    freeze,
    ordered,
    reboot,
    terminate,
)

PAIR = (ScopePlan(name="app", tenant="ash"), ScopePlan(name="bank", tenant="bay"))

SHARED = (
    VmPlan(name="v0", host=0, scope=0, fault_domain=0),
    VmPlan(name="v1", host=1, scope=0, fault_domain=1),
    VmPlan(name="v2", host=2, scope=0, fault_domain=2),
    VmPlan(name="v3", host=0, scope=1, fault_domain=0),
)
"""One tenant in three fault domains, and another on the first host."""

TELLING = (
    ScopePlan(name="app", tenant="ash", terminate=True),
    ScopePlan(name="bank", tenant="bay", terminate=True),
)
"""The same, with terminate notification."""

SPREAD = (
    VmPlan(name="v0", host=0, scope=0, fault_domain=0),
    VmPlan(name="v1", host=1, scope=0, fault_domain=1),
    VmPlan(name="v2", host=0, scope=1, fault_domain=0),
)
"""Two fault domains, another tenant on the first host, and a spare host."""

CRASHES = ordered(
    Setting(
        name="freezes, a reboot that a user requests and a failure, with crashes",
        scopes=PAIR,
        vms=SHARED,
        listening=3,
        attempts=2,
        crashes=True,
        cancels=True,
        driver_fails=True,
        hosts_fail=(1,),
    ),
    freeze(0),
    freeze(1),
    freeze(2),
    reboot(0),
)

FAILURES = ordered(
    Setting(
        name="a driver that leaves VMs down, with crashes",
        scopes=PAIR,
        vms=SHARED,
        listening=3,
        notice=3,
        recovery=2,
        attempts=2,
        crashes=True,
        cancels=True,
        driver_fails=True,
        leaves_down=True,
        hosts_fail=(0,),
    ),
    freeze(0, impact=Action.REBOOT),
    freeze(1, impact=Action.REBOOT),
    freeze(2),
)

LISTENERS = ordered(
    Setting(
        name="scopes that are enabled and disabled, with crashes",
        scopes=PAIR,
        vms=SHARED,
        crashes=True,
        listeners_change=True,
        hosts_fail=(1,),
    ),
    freeze(0),
    freeze(1),
    reboot(0),
    reboot(3),
)

DELETIONS = ordered(
    Setting(
        name="deletions that start together, with crashes",
        scopes=TELLING,
        vms=SHARED,
        listening=3,
        notice=3,
        crashes=True,
        cancels=True,
        driver_fails=True,
        hosts_fail=(0,),
    ),
    terminate(0, 3),
    freeze(0),
    freeze(1),
)

MIGRATIONS = ordered(
    Setting(
        name="moves to a spare host, by a driver that loses its memory",
        scopes=PAIR,
        vms=SPREAD,
        listening=3,
        forgets=True,
        driver_fails=True,
        hosts_fail=(2,),
    ),
    freeze(0, impact=Action.LIVE_MIGRATE),
    freeze(1, impact=Action.LIVE_MIGRATE),
    reboot(0, redeploy=True),
)

HOLDS = ordered(
    Setting(
        name="holds that are announced again, in a steady service",
        scopes=PAIR,
        vms=SHARED,
        listening=3,
        hold=2,
        steady=True,
        cancels=True,
        driver_fails=True,
        hosts_fail=(1,),
    ),
    freeze(0),
    freeze(1),
    freeze(2),
    reboot(0),
)

LATE_HOLDS = ordered(
    replace(HOLDS, name="holds, in any order", steady=False, vms_fail=(3,)),
    freeze(0),
    freeze(1),
    freeze(2),
)

CLOCKS = ordered(
    Setting(
        name="a wall clock that is set forward and back",
        scopes=PAIR,
        vms=SPREAD,
        listening=3,
        attempts=2,
        clock_step=2,
        driver_fails=True,
        hosts_fail=(1,),
    ),
    freeze(0),
    freeze(1),
    reboot(0),
)

PUT_TOGETHER = ordered(
    Setting(
        name="a host where a hypervisor put two fault domains",
        scopes=PAIR,
        vms=(
            VmPlan(name="v0", host=0, scope=0, fault_domain=0),
            VmPlan(name="v1", host=0, scope=0, fault_domain=1),
            VmPlan(name="v2", host=1, scope=1, fault_domain=0),
        ),
        listening=3,
        driver_fails=True,
        needs_operator=True,
        hosts_fail=(1,),
    ),
    freeze(0),
    freeze(0, impact=Action.LIVE_MIGRATE),
    freeze(1),
)
"""Only a live migration may start there. It separates the fault domains."""

WORLDS = (
    CRASHES,
    FAILURES,
    LISTENERS,
    DELETIONS,
    MIGRATIONS,
    HOLDS,
    LATE_HOLDS,
    CLOCKS,
)

SEARCHED = (*WORLDS, PUT_TOGETHER)
"""All worlds whose states are searched. The service refuses the first maintenance of
PUT_TOGETHER, so only WORLDS are compared with the service."""

BIG = ordered(
    replace(
        LISTENERS,
        name="everything at once",
        notice=3,
        recovery=2,
        cancels=True,
        driver_fails=True,
    ),
    freeze(0),
    freeze(1),
    freeze(2),
    reboot(0),
    reboot(3),
)
"""Too large for a complete search; it is searched up to the given limit."""

CROWDED = ordered(
    replace(
        MIGRATIONS,
        name="places that are reserved, given up and taken over",
        hosts=4,
        attempts=2,
        cancels=True,
        hosts_fail=(2, 3),
        vms_fail=(0,),
    ),
    freeze(0, impact=Action.LIVE_MIGRATE),
    freeze(1, impact=Action.REDEPLOY),
    freeze(2),
    freeze(3, impact=Action.REBOOT),
    reboot(0, redeploy=True),
    reboot(2),
)
"""It has too many states to be searched, and is walked only."""
