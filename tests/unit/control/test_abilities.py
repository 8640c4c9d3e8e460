"""Work that a driver cannot do is refused, and said so."""

import pytest

from forewarn.campaigns.file import read_campaign
from forewarn.control.rules.abilities import Abilities, check_campaign
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.host_steps import NO_STEPS, StepRule, StepRules
from forewarn.protocol.operations import Action

RULES = StepRules(rules=(("flash", StepRule(arguments=(("version", "[0-9.]+"),))),))


def campaign(impact: str, work: str = "") -> str:
    steps = f"[campaign.steps]\nwork = {{ {work} }}\n" if work else ""
    return (
        f'[campaign]\nname = "c"\nreason = "r"\nimpact = "{impact}"\n'
        f"select = {{ all = true }}\n{steps}"
    )


FLASH = 'step = "flash", version = "2.19"'


def check(text: str, *actions: Action, steps: StepRules = RULES) -> None:
    abilities = Abilities(actions=frozenset(actions), host_steps=steps)
    check_campaign(abilities, read_campaign(text, name="c.toml"))


@pytest.mark.parametrize(
    ("text", "actions"),
    [
        (campaign("freeze"), (Action.FREEZE,)),
        (campaign("live-migrate", FLASH), (Action.LIVE_MIGRATE,)),
        # The VMs stand still during the work, so no freeze is called for.
        (campaign("freeze", FLASH), (Action.PAUSE, Action.RESUME)),
        (campaign("none", FLASH), ()),
    ],
)
def test_campaign_needs_only_the_actions_of_its_calls(
    text: str, actions: tuple[Action, ...]
) -> None:
    check(text, *actions)


@pytest.mark.parametrize(
    ("text", "actions", "why"),
    [
        (campaign("reboot"), (Action.FREEZE,), "does not support reboot"),
        (campaign("freeze", FLASH), (Action.FREEZE,), "cannot pause and resume VMs"),
        (
            campaign("none", 'step = "flahs"'),
            (),
            "there is no host step flahs",
        ),
        (
            campaign("none", 'step = "flash", version = "new"'),
            (),
            "version",
        ),
    ],
)
def test_campaign_that_the_driver_cannot_carry_out_is_refused(
    text: str, actions: tuple[Action, ...], why: str
) -> None:
    with pytest.raises(RefusedError, match=why) as refused:
        check(text, *actions)
    assert refused.value.hint


def test_hint_for_a_missing_step_names_the_table_of_the_file() -> None:
    text = campaign("reboot", FLASH).replace("work =", "answers =")
    with pytest.raises(RefusedError, match="which it follows") as refused:
        check(text, Action.REBOOT)
    assert refused.value.hint == (
        "Add a step work to [campaign.steps], or leave the step answers out."
    )


def test_service_without_host_steps_refuses_all() -> None:
    with pytest.raises(RefusedError, match="this service has no host steps"):
        check(campaign("none", FLASH), steps=NO_STEPS)
