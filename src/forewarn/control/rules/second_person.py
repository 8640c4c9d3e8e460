"""The second person: who started a campaign does not decide alone. Pure."""

from forewarn.control.rules.policy import Policy
from forewarn.protocol.actors import Actor
from forewarn.protocol.errors import RefusedError


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
