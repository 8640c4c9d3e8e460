"""Faults of a simulated hypervisor, as values and in the notation of the settings."""

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from forewarn.drivers.port import Call
from forewarn.protocol.operations import Action

T = TypeVar("T")

TIMES_MAX = 1_000_000
"""Maximum of `times`: more calls than a simulation makes; use `times=always`."""

_TIMES = re.compile(r"[0-9]{1,7}", re.ASCII)
_FORM = "write ACTION KIND [vm=NAME] [times=N], such as 'reboot fail times=2'"


class FaultKind(enum.Enum):
    """The kinds of faults."""

    FAIL = "fail"
    """The call ends on time and fails."""
    STALL = "stall"
    """The call never ends."""
    LIE = "lie"
    """The driver reports success, but the VMs do not run, or are on another host."""
    REFUSE = "refuse"
    """The driver refuses the call."""
    FORGET = "forget"
    """The driver accepts the call and loses all record of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault of the next calls that it matches."""

    kind: FaultKind
    action: Action | None = None
    """Action of the calls; None: any action."""
    vm: str = ""
    """The fault matches only calls with this VM; empty: all calls."""
    times: int | None = 1
    """Number of calls; None: all further calls."""
    reason: str = "a simulated fault"
    leaves_down: bool = False
    """With FAIL or LIE: whether the VMs of the call do not run afterward. If `vm` is
    set, this applies only to that VM."""
    spares_others: bool = False
    """FAIL with `vm`: the call succeeds for the other VMs."""
    elsewhere: str = ""
    """LIE: the actual host of the VMs."""
    abortable: bool = True
    """STALL: whether the call can be stopped."""

    def fits(self, call: Call) -> bool:
        """Tell whether the fault matches this call."""
        return self.action in {None, call.action} and (
            not self.vm or any(each.vm == self.vm for each in call.vms)
        )


def parse_fault(text: str) -> Fault:
    """Return the fault of a setting in the form `ACTION KIND [vm=NAME] [times=N]`.

    Raises ValueError with a message for the operator.
    """
    words = text.split()
    if len(words) < 2:  # noqa: PLR2004 - the action and the kind
        raise ValueError(f"{text!r} is not a fault: {_FORM}")
    kind = _one_of(words[1], {each.value: each for each in FaultKind})
    rest = dict[str, str]()
    for word in words[2:]:
        key, _, value = word.partition("=")
        if key not in {"vm", "times"} or key in rest or not value:
            raise ValueError(f"{word!r} is not part of a fault: {_FORM}")
        rest[key] = value
    return Fault(
        kind=kind,
        action=_one_of(words[0], _ACTIONS),
        vm=rest.get("vm", ""),
        times=_times(rest.get("times", "1")),
        # A report of success would be true if the VMs ran on the right host, so it
        # would not be a LIE.
        leaves_down=kind is FaultKind.LIE,
    )


_ACTIONS: Mapping[str, Action | None] = {
    "any": None,
    **{each.name.lower(): each for each in Action if each is not Action.NONE},
}


def _one_of(word: str, known: Mapping[str, T]) -> T:
    if word not in known:
        raise ValueError(f"{word!r} is not one of {', '.join(known)}")
    return known[word]


def _times(text: str) -> int | None:
    if text == "always":
        return None
    if not _TIMES.fullmatch(text) or not 1 <= int(text) <= TIMES_MAX:
        raise ValueError(f"times must be 1 to {TIMES_MAX}, or always, not {text!r}")
    return int(text)
