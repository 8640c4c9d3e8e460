"""Why a tenant's operation waits, without a word about hosts or other tenants.

What concerns the tenant's own scopes and VMs is told as it is, as far as its
sentence names nothing else; everything else becomes one of a few sentences that
tell no names and no numbers. Pure.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import ClassVar

from forewarn.control.blockers import (
    BatchWaits,
    Blocker,
    DriverRetry,
    FaultDomainDown,
    MigrationUnderWay,
    NoRoom,
    NotApproved,
    NotDue,
    OutcomeUnknown,
    StillDown,
    VmBusy,
    VmDown,
)

ELSEWHERE = "another tenant has not approved"
HELD = "the platform holds it back for now"
OWN_DOMAIN = "another fault domain of scope {} is down"
NO_ROOM = "the platform has no place for vm {} at present"
RETRIES = "the platform did not succeed and tries again"
UNKNOWN = "the platform does not know yet whether it was done"
DOWN = "what it runs on is down"

_OF_OTHERS = (ELSEWHERE, HELD, RETRIES, UNKNOWN, DOWN)
"""What names nothing, in the order in which it is told. The order of what it stands
for would tell how the names of others sort."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ByPlatform(Blocker):
    """Something that is not the tenant's business."""

    kind: ClassVar[str] = "platform"
    text: str

    def sentence(self) -> str:
        """Return the reason for a person."""
        return self.text


def for_tenant(
    blockers: Iterable[Blocker], *, scopes: Collection[str], vms: Collection[str]
) -> tuple[Blocker, ...]:
    """Return the reasons as the owner of `scopes` and `vms` may know them."""
    told = [_one(blocker, scopes, vms) for blocker in blockers]
    # Its own first, and each once: how many others there are is nobody's business.
    told.sort(
        key=lambda blocker: _rank(
            blocker.text if isinstance(blocker, ByPlatform) else None
        )
    )
    return tuple(dict.fromkeys(told))


def told(detail: str, subjects: Collection[str]) -> str:
    """Return a trail's line of reasons as the owner of `subjects` may know it.

    These are scopes and VMs as the trail names them, such as `vm:web_0`; the line
    has sentences of what keeps an operation from starting. What is no beginning of
    a sentence here belongs to the one before.
    """
    own: dict[str, None] = {}
    others: dict[str, None] = {}
    for sentence in detail.split(JOINT):
        match = next(filter(None, (each.match(sentence) for each in _SENTENCES)), None)
        if match is None:
            continue
        names = match.groupdict()
        kind = "scope" if "scope" in names else "vm"
        is_own = f"{kind}:{names[kind]}" in subjects
        if "down" in names:
            others[DOWN] = None
        elif not is_own:
            others[HELD] = None
        elif "domain" in names:
            others[OWN_DOMAIN.format(names["scope"])] = None
        elif "room" in names:
            others[NO_ROOM.format(names["vm"])] = None
        else:
            own[sentence] = None
    return JOINT.join((*own, *sorted(others, key=_rank)))


JOINT = "; "
"""Between two sentences of a line of reasons."""

_SENTENCES = tuple(
    re.compile(pattern)
    for pattern in (
        r"scope (?P<scope>\S+) has fault domain (?P<domain>\d+) down because ",
        (
            r"scope (?P<scope>\S+) has a live migration under way \(\S+\), "
            r"and only one at a time is allowed$"
        ),
        r"vm (?P<vm>\S+) is in the hands of operation \S+$",
        r"vm (?P<vm>\S+) (?P<down>is down, and its host with it)$",
        r"(?P<room>there is no place for) (?P<vm>\S+): ",
    )
)
"""How the sentences begin that keep an operation from starting, and whom they name."""


def _rank(text: str | None) -> int:
    """Return where a sentence of the platform stands among all; None: one as it is."""
    if text is None:
        return -1
    return _OF_OTHERS.index(text) + 1 if text in _OF_OTHERS else 0


def _one(blocker: Blocker, scopes: Collection[str], vms: Collection[str]) -> Blocker:
    text = HELD
    match blocker:
        case NotDue():
            return blocker
        case NotApproved() | MigrationUnderWay() if blocker.scope in scopes:
            return blocker
        case BatchWaits() if blocker.scope in scopes and blocker.target in vms:
            return blocker
        case VmBusy() if blocker.vm in vms:
            return blocker
        case NotApproved() | BatchWaits():
            text = ELSEWHERE
        case FaultDomainDown() if blocker.scope in scopes:
            text = OWN_DOMAIN.format(blocker.scope)
        case NoRoom() if blocker.vm in vms:
            text = NO_ROOM.format(blocker.vm)
        case DriverRetry():
            text = RETRIES
        case OutcomeUnknown():
            text = UNKNOWN
        case VmDown() | StillDown():
            text = DOWN
        case _:
            pass
    return ByPlatform(text=text)
