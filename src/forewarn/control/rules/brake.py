"""The brake: whether routine work may be announced and started now.

Only planned work is stopped: maintenance, OS upgrades and reimages. Failures, predicted
failures and requests of users continue.
"""

from forewarn.protocol.blockers import BrakeOn
from forewarn.protocol.verbs import PLANNED_VERBS, Verb
from forewarn.store.port import Reader
from forewarn.store.records import BRAKE_KEY, Brake


def in_force(reader: Reader) -> BrakeOn | None:
    """Return the brake as a blocker; None: it is off."""
    brake = reader.get(Brake, BRAKE_KEY)
    if brake is None:
        return None
    return BrakeOn(by=brake.by.text, reason=brake.reason)


def why_braked(reader: Reader, verb: Verb) -> tuple[BrakeOn, ...]:
    """Return the brake if it stops operations of this verb."""
    if verb not in PLANNED_VERBS:
        return ()
    found = in_force(reader)
    return () if found is None else (found,)
