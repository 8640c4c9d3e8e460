"""The small campaigns whose visits are searched, and what can happen in their worlds.

Each host, from h0 on, has one VM, alone in its scope. At most two hosts are away at a time,
so with three hosts, one of them waits. A fourth host repeats what the third one does, and
multiplies the states by two to five. The world of deferred hosts has one, because they are
tried again after all others.
"""

from dataclasses import dataclass

from forewarn.protocol.host_steps import StepKind

ALL_STEPS = (StepKind.ENTER, StepKind.WORK, StepKind.VERIFY, StepKind.EXIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A campaign with visits, and what may happen in its world."""

    name: str
    impact: str
    hosts: int = 3
    places: int = 2
    """Places for VMs on each host. A failed host stays cordoned, so the others need more."""
    steps: tuple[StepKind, ...] = ALL_STEPS
    in_flight: int = 2
    canaries: int = 0
    """Hosts of a first stage; 0: there is one stage."""
    rack_most: int = 0
    """Hosts of one rack that may be in flight: h0 and h1 are in r0, the others in r1."""
    unavailable: int = 0
    """Hosts of the fleet that may be away; 0: no budget."""
    fails: tuple[int, ...] = ()
    """Hosts whose steps can fail."""
    drains_fail: tuple[int, ...] = ()
    """Hosts whose VMs the driver can fail to move, pause or stop."""
    needless: tuple[int, ...] = ()
    """Hosts that can turn out not to need the work."""
    halts: bool = False
    brakes: bool = False


STEPS = Setting(
    name="visits with steps that fail, and retries",
    impact="live-migrate",
    places=3,
    canaries=1,
    fails=(1,),
)
DEFERRALS = Setting(
    name="moves that fail, and deferred hosts",
    impact="live-migrate",
    hosts=4,
    steps=(StepKind.WORK,),
    drains_fail=(0, 1),
)
IN_PLACE = Setting(
    name="reboots in place, the budget of a rack, and work that is not needed",
    impact="reboot",
    steps=(StepKind.NEEDED, StepKind.WORK, StepKind.VERIFY),
    rack_most=1,
    needless=(0,),
    fails=(1,),
)
STEERED = Setting(
    name="visits of a campaign that is halted and braked",
    impact="live-migrate",
    steps=(StepKind.WORK,),
    halts=True,
    brakes=True,
)
BUDGETS = Setting(
    name="visits within the budget of the fleet, and retries",
    impact="live-migrate",
    places=3,
    steps=(StepKind.WORK,),
    in_flight=3,
    unavailable=2,
    fails=(1,),
)
WORLDS = (STEPS, DEFERRALS, IN_PLACE, STEERED, BUDGETS)
