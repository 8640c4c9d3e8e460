"""The second person: who started a campaign does not decide alone. Pure."""

from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """The actor of a request, under the rule of the service."""

    actor: Actor
    second_person: bool
    """Whether another operator than its starter must approve a campaign."""


def why_not(asker: Asker, *, starter: Actor, act: str) -> RefusedError | None:
    """Return why the actor may not do `act`: it started the campaign; None: it may."""
    if not (asker.second_person and starter.is_same_as(asker.actor)):
        return None
    return RefusedError(
        f"{asker.actor.text} started the campaign and cannot {act}",
        hint="Ask another operator, who needs a token with a name of its own: "
        "[campaigns] second_person is on.",
    )


def check(policy: Policy, *, starter: Actor, actor: Actor, act: str) -> None:
    """Raise RefusedError if the actor may not do `act`, because it started the campaign.

    `act` names what is requested, such as `approve stage 1 of campaign bios-2.19`.
    """
    asker = Asker(actor=actor, second_person=policy.second_person)
    if refused := why_not(asker, starter=starter, act=act):
        raise refused
