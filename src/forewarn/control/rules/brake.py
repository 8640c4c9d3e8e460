"""The brake: whether planned work may be announced and started now.

Only planned work is stopped: maintenance, OS upgrades and reimages. Failures, predicted
failures and requests of users continue.
"""

from dataclasses import dataclass

from forewarn.control.rules.policy import BrakeLimits
from forewarn.protocol.blockers import BrakeOn
from forewarn.protocol.losses import LossKind
from forewarn.protocol.verbs import PLANNED_VERBS, Verb
from forewarn.store.port import Reader
from forewarn.store.records import BRAKE_KEY, Brake


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """How much was lost within the span of the brake."""

    hosts: int = 0
    vms: int = 0
    in_rack: int = 0
    """Lost hosts of the rack in which a host was just lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """A limit of the brake that was exceeded."""

    what: LossKind
    count: int
    most: int


def exceeded(lost: Lost, limits: BrakeLimits, *, hosts: int) -> Excess | None:
    """Return the first limit that was exceeded, for a fleet of `hosts`."""
    counts = (
        (LossKind.RACK, lost.in_rack, limits.per_rack),
        (LossKind.HOSTS, lost.hosts, limits.hosts.of(hosts)),
        (LossKind.VMS, lost.vms, limits.vms),
    )
    for what, count, most in counts:
        if most and count > most:
            return Excess(what=what, count=count, most=most)
    return None


def blocker_of(brake: Brake) -> BrakeOn:
    """Return the brake as a blocker."""
    return BrakeOn(by=brake.by.text, reason=brake.reason, losses=brake.losses)


def in_force(reader: Reader) -> BrakeOn | None:
    """Return the brake as a blocker; None: it is off."""
    brake = reader.get(Brake, BRAKE_KEY)
    return None if brake is None else blocker_of(brake)


def why_braked(reader: Reader, verb: Verb) -> tuple[BrakeOn, ...]:
    """Return the brake if it stops operations of this verb."""
    if verb not in PLANNED_VERBS:
        return ()
    blocker = in_force(reader)
    return () if blocker is None else (blocker,)
