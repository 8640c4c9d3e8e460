"""The second person: who started a campaign does not decide alone. Pure."""

from forewarn.control.rules.policy import Policy
from forewarn.protocol.actors import Actor
from forewarn.protocol.errors import RefusedError


def check_emergency(policy: Policy) -> None:
    """Raise RefusedError for emergency work that no other operator could release."""
    if policy.second_person:
        raise RefusedError(
            "emergency work needs a second person, and this request has none",
            hint="Start a campaign with emergency = true, which another operator releases "
            "with `forewarn campaign approve NAME 1`: [campaigns] second_person is on.",
        )


def check(policy: Policy, *, starter: Actor, actor: Actor, act: str) -> None:
    """Raise RefusedError if the actor may not do `act`, because it started the campaign.

    `act` names what is requested, such as `approve stage 1 of campaign bios-2.19`.
    """
    if policy.second_person and starter.is_same_as(actor):
        raise RefusedError(
            f"{actor.text} started the campaign and cannot {act}",
            hint="Ask another operator, who needs a token with a name of its own: "
            "[campaigns] second_person is on.",
        )
