"""The policies of the stories that would be long ones with the usual policy."""

from forewarn.control.rules.policy import BrakeLimits, Policy
from forewarn.instants import MINUTE, SECOND
from forewarn.settings.amounts import Amount

POLICIES = {
    "hosts that a scheduler chooses: announced, unknown, and reported by hand": Policy(
        driver_chooses=True
    ),
    "a host that answers late, then not at all, and is given up": Policy(
        answers_within=3 * MINUTE
    ),
    "held too long, announced again, and cancelled while it is held": Policy(
        hold_max=30 * SECOND
    ),
    "losses put the brake on, and it ends after a calm": Policy(
        brake=BrakeLimits(hosts=Amount(value=1), calm=20 * MINUTE)
    ),
    "a call without end, that an operator calls failed": Policy(
        driver_timeout=5 * MINUTE
    ),
}
"""The policies, by the name of the story."""
