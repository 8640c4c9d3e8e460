"""Why an operation ended, or what it met: values that a store keeps. Pure.

A note is written with the decision, and rendered for people where it is shown. No code
decides on its text.
"""

from __future__ import annotations

import enum
from typing import Union

from forewarn.instants import Micros
from forewarn.protocol.actors import Actor
from forewarn.protocol.blockers import AnyBlocker, CallEnd
from forewarn.protocol.frozen import Tagged, frozen_dataclass
from forewarn.protocol.verbs import TargetKind


@frozen_dataclass
class Said(Tagged, kind="said"):
    """Text of a person, or of a version that stored sentences."""

    text: str


@frozen_dataclass
class NothingToDo(Tagged, kind="nothing to do"):
    """The driver was not called, since the operation has no VMs."""


@frozen_dataclass
class Cancelled(Tagged, kind="cancelled"):
    """Somebody cancelled the operation by an order."""

    by: Actor
    reason: str = ""
    """Text of the caller."""


@frozen_dataclass
class AnnouncedAgain(Tagged, kind="announced again"):
    """It was held too long, so it was cancelled and announced again."""

    held: Micros
    """How long after NotBefore."""
    reasons: tuple[AnyBlocker, ...]
    successor: str
    """The operation that was announced instead."""


@frozen_dataclass
class RolloutStopped(Tagged, kind="rollout stopped"):
    """Another operation of the rollout failed, or the rollout was stopped."""

    failed: str = ""
    """The operation that failed; empty: it is not named."""


class Change(enum.Enum):
    """What happened to a host or VM."""

    FAILED = "failed"
    RESTORED = "restored"
    """The host that was down is up again."""
    REMOVED = "removed"
    """It was removed from the fleet file."""
    LEFT = "left"
    """The last VM has left the host."""
    RUNS_AGAIN = "runs again"
    DELETED = "deleted"


@frozen_dataclass
class TargetChanged(Tagged, kind="target changed"):
    """What happened to a host or VM has ended the operation."""

    change: Change
    target_kind: TargetKind
    target: str
    host: str = ""
    """The host that a VM has left."""


@frozen_dataclass
class Hindered(Tagged, kind="hindered"):
    """A call cannot be made: a VM has no place."""

    why: AnyBlocker


@frozen_dataclass
class DriverGaveUp(Tagged, kind="driver gave up"):
    """The driver was called as often as it may be, and failed."""

    attempts: int
    end: CallEnd


@frozen_dataclass
class OperatorSaysFailed(Tagged, kind="operator says failed"):
    """An operator says that an operation with an unknown outcome failed."""


AnyNote = Union[
    Said,
    NothingToDo,
    Cancelled,
    AnnouncedAgain,
    RolloutStopped,
    TargetChanged,
    Hindered,
    CallEnd,
    DriverGaveUp,
    OperatorSaysFailed,
]
"""Every class of note: a store writes each with its `kind`."""


def host_changed(change: Change, host: str) -> TargetChanged:
    """Return the note that something happened to a host."""
    return TargetChanged(change=change, target_kind=TargetKind.HOST, target=host)


def vm_changed(change: Change, vm: str, *, host: str = "") -> TargetChanged:
    """Return the note that something happened to a VM."""
    return TargetChanged(change=change, target_kind=TargetKind.VM, target=vm, host=host)
