"""The VMs of the story, and what happens to them."""

from dataclasses import dataclass
from typing import Final

from forewarn.instants import HOUR, SECOND, Micros


@dataclass(frozen=True, slots=True)
class Vm:
    """One VM: who shares its events, and where it runs."""

    scope: str
    host: str
    fault_domain: int
    sees_own_only: bool = False
    """A GPU VM of a scale set with one fault domain (clause 6.2)."""


FLEET: Final = {
    "web_0": Vm(scope="web", host="h1", fault_domain=0),
    "web_1": Vm(scope="web", host="h1", fault_domain=0),
    "web_2": Vm(scope="web", host="h2", fault_domain=1),
    "web_3": Vm(scope="web", host="h3", fault_domain=0),
    # Of another tenant, on the host of the first two.
    "db_0": Vm(scope="db", host="h1", fault_domain=0),
    "gpu_0": Vm(scope="gpu", host="h4", fault_domain=0, sees_own_only=True),
    "gpu_1": Vm(scope="gpu", host="h5", fault_domain=0, sees_own_only=True),
}

SCOPES: Final = {
    scope: tuple(name for name, vm in FLEET.items() if vm.scope == scope)
    for scope in dict.fromkeys(vm.scope for vm in FLEET.values())
}


LEADING: Final = "web"
"""The scope whose events the story waits for. The others may have no clients."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The events that one scope will see of one operation."""

    key: str
    event_type: str
    resources: tuple[str, ...]
    source: str = "Platform"
    duration: int = -1
    description: str = ""
    scope: str = "web"
    group: str = ""
    """The group of events that start together: those of one host, or of one
    deletion."""
    is_routine: bool = False
    is_failure: bool = False
    """It is Started at once."""
    is_withdrawn: bool = False
    """It is cancelled after a while, unless everybody has approved it."""
    lasts: Micros | None = None
    """Time from Started to the end; None: that of the pace."""

    @property
    def fault_domains(self) -> frozenset[int]:
        """Return those of the named VMs that are in the fleet."""
        return frozenset(
            FLEET[name].fault_domain for name in self.resources if name in FLEET
        )


MAINTAINED = "Host server is undergoing maintenance."
MIGRATED = (
    "Virtual machine is being paused because of a memory-preserving Live Migration"
    " operation."
)
RESTARTED = "Virtual machine is going to be restarted as requested by authorized user."
REDEPLOYED = (
    "Virtual machine is going to be redeployed as requested by authorized user."
)
FAILED = "Virtual machine has encountered a failure."


def _migration() -> Plan:
    return Plan(
        key="migration",
        event_type="Freeze",
        resources=("web_0", "web_1"),
        duration=5,
        description=MIGRATED,
        group="migration",
        is_routine=True,
    )


def _user(key: str, event_type: str, vm: str, description: str) -> Plan:
    return Plan(
        key=key,
        event_type=event_type,
        resources=(vm,),
        source="User",
        description=description,
        group=key,
    )


def _maintenance(
    key: str,
    *resources: str,
    scope: str = "web",
    is_withdrawn: bool = False,
    lasts: Micros | None = None,
) -> Plan:
    return Plan(
        key=f"{key} {scope}",
        event_type="Freeze",
        resources=resources,
        duration=9,
        description=MAINTAINED,
        scope=scope,
        group=key,
        is_routine=True,
        is_withdrawn=is_withdrawn,
        lasts=lasts,
    )


def _failure(*resources: str, scope: str = "web", lasts: Micros | None = None) -> Plan:
    return Plan(
        key=f"failure {scope}",
        event_type="Reboot",
        resources=resources,
        description=FAILED,
        scope=scope,
        group="failure",
        is_failure=True,
        lasts=lasts,
    )


def _deletions(number: int) -> tuple[Plan, ...]:
    """Return a Spot VM's eviction, and two instances that one request deletes."""
    first = 10 + 2 * number
    return (
        Plan(
            key="eviction",
            event_type="Preempt",
            resources=(f"spot_{number}",),
            group="eviction",
        ),
        *(
            Plan(
                key=f"deletion {vm}",
                event_type="Terminate",
                resources=(vm,),
                source="User",
                group="deletion",
            )
            for vm in (f"web_{first}", f"web_{first + 1}")
        ),
    )


GPU_LASTS: Final = SECOND * 4 // 5
"""Other than what ends together with it at any pace."""


def steps(number: int) -> tuple[tuple[Plan, ...], ...]:
    """Return the steps of a round; each begins when the one before has ended."""
    return (
        # Two VMs of one host move; a VM of the GPU scope is named alone, and its
        # event ends when nothing changes for the others.
        (
            _migration(),
            _maintenance("gpu host", "gpu_0", scope="gpu", lasts=GPU_LASTS),
        ),
        # The maintenance of web_2 is held while web_0, of the other domain, is down.
        (
            _user("restart", "Reboot", "web_0", RESTARTED),
            _maintenance("next host", "web_2"),
        ),
        # Two tenants are on this host: it waits for both, and is taken back.
        (
            _maintenance("shared host", "web_0", "web_1", is_withdrawn=True),
            _maintenance("shared host", "db_0", scope="db", is_withdrawn=True),
        ),
        (_failure("web_0", "web_1"), _failure("db_0", scope="db")),
        (*_deletions(number), _user("redeploy", "Redeploy", "web_1", REDEPLOYED)),
    )


def all_at_once() -> tuple[Plan, ...]:
    """Return an event of each type, none of which holds another."""
    return (
        _migration(),
        _maintenance("gpu host", "gpu_0", scope="gpu"),
        _maintenance("db host", "db_0", scope="db"),
        _user("restart", "Reboot", "web_0", RESTARTED),
        _user("redeploy", "Redeploy", "web_1", REDEPLOYED),
        *_deletions(0),
        _failure("web_3", lasts=HOUR),
    )
