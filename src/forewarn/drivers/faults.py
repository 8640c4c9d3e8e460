"""What can go wrong at a simulated hypervisor, as values, and as texts of settings."""

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from forewarn.drivers.port import Call
from forewarn.protocol.operations import Action

T = TypeVar("T")

TIMES_MAX = 1_000_000
"""More calls than a simulation makes; `times=always` is meant."""

_TIMES = re.compile(r"[0-9]{1,7}", re.ASCII)
_FORM = "write ACTION KIND [vm=NAME] [times=N], such as 'reboot fail times=2'"


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
    spares_others: bool = False
    """FAIL of `vm`: for the other VMs of the call it is done."""
    elsewhere: str = ""
    """LIE: the host where the VMs really are."""
    abortable: bool = True
    """STALL: whether the call can be stopped."""

    def fits(self, call: Call) -> bool:
        """Tell whether it befalls this call."""
        return self.action in {None, call.action} and (
            not self.vm or any(each.vm == self.vm for each in call.vms)
        )


def parse_fault(text: str) -> Fault:
    """Return the fault that a setting writes: `ACTION KIND [vm=NAME] [times=N]`.

    Raises ValueError with a sentence.
    """
    words = text.split()
    if len(words) < 2:  # noqa: PLR2004 - the action and the kind
        raise ValueError(f"{text!r} is no fault: {_FORM}")
    kind = _one_of(words[1], {each.value: each for each in FaultKind})
    rest = dict[str, str]()
    for word in words[2:]:
        key, _, value = word.partition("=")
        if key not in {"vm", "times"} or key in rest or not value:
            raise ValueError(f"{word!r} does not belong in a fault: {_FORM}")
        rest[key] = value
    return Fault(
        kind=kind,
        action=_one_of(words[0], _ACTIONS),
        vm=rest.get("vm", ""),
        times=_times(rest.get("times", "1")),
        # A lie about VMs that run where they should would be none.
        leaves_down=kind is FaultKind.LIE,
    )


_ACTIONS: Mapping[str, Action | None] = {
    "any": None,
    **{each.name.lower(): each for each in Action if each is not Action.NONE},
}


def _one_of(word: str, known: Mapping[str, T]) -> T:
    if word not in known:
        raise ValueError(f"{word!r} is none of {', '.join(known)}")
    return known[word]


def _times(text: str) -> int | None:
    if text == "always":
        return None
    if not _TIMES.fullmatch(text) or not 1 <= int(text) <= TIMES_MAX:
        raise ValueError(f"times must be 1 to {TIMES_MAX}, or always, not {text!r}")
    return int(text)
