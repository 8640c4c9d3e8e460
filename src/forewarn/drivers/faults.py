"""What can go wrong at a simulated hypervisor, as values that tests inject."""

import enum
from dataclasses import dataclass

from forewarn.drivers.port import Call
from forewarn.protocol.operations import Action


class FaultKind(enum.Enum):
    """The ways of going wrong."""

    FAIL = "fail"
    """The call ends on time and has failed."""
    STALL = "stall"
    """The call never ends."""
    LIE = "lie"
    """Success is reported, but the VMs do not run, or are elsewhere."""
    REFUSE = "refuse"
    """The call is not taken."""
    FORGET = "forget"
    """The call is taken, and nobody knows of it afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that goes wrong with the next calls that it fits."""

    kind: FaultKind
    action: Action | None = None
    """None: any."""
    vm: str = ""
    """Only calls with this VM; empty: all calls."""
    times: int | None = 1
    """How many calls; None: all that follow."""
    reason: str = "a simulated fault"
    leaves_down: bool = False
    """FAIL and LIE: the VMs do not run afterwards; of `vm`, it alone."""
    elsewhere: str = ""
    """LIE: the host where the VMs really are."""
    abortable: bool = True
    """STALL: whether the call can be stopped."""

    def fits(self, call: Call) -> bool:
        """Tell whether it befalls this call."""
        return self.action in {None, call.action} and (
            not self.vm or any(each.vm == self.vm for each in call.vms)
        )
