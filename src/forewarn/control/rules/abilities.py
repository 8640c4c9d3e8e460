"""The abilities of a service's driver, and the refusals of work that it cannot do.

A request is checked with the driver that is open, and the plan of a campaign, in another
process, with the settings of the driver.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from forewarn.campaigns.model import Campaign, Phase, Step
from forewarn.campaigns.text import about_key
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.host_steps import (
    HostStep,
    StepKind,
    StepRules,
    arguments_problem,
)
from forewarn.protocol.operations import HALVES, Action, is_in_halves

STEPS = "campaign.steps"
"""The table of a campaign file with the steps."""

_ADD_TO_FILE, _ADD_FLAG = "Add a step work to [campaign.steps]", "Add --work STEP"


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """The abilities of a driver."""

    actions: frozenset[Action]
    """The actions that it supports."""
    host_steps: StepRules
    """The host steps that it supports."""


def check_actions(abilities: Abilities, actions: Iterable[Action]) -> None:
    """Refuse actions that the driver does not support."""
    for action in dict.fromkeys(actions):
        if action not in {Action.NONE, *abilities.actions}:
            raise RefusedError(
                f"the driver of this service does not support {action.value}",
                hint="Use another impact, or configure the driver for it.",
            )


def actions_of(action: Action, steps: Sequence[HostStep]) -> tuple[Action, ...]:
    """Return the actions of the calls for maintenance with these steps."""
    return HALVES[action] if is_in_halves(action, steps) else (action,)


def steps_of(
    rules: StepRules, steps: Sequence[Step], action: Action
) -> tuple[HostStep, ...]:
    """Return the host steps of a campaign, in the order of their kinds."""
    all_steps = tuple(
        HostStep(
            kind=StepKind(step.phase.value), name=step.name, arguments=step.arguments
        )
        for step in steps
    )
    return with_usual_steps(rules, all_steps, action)


def with_all_steps(rules: StepRules, campaign: Campaign) -> Campaign:
    """Return a campaign with the steps that its start adds, such as a reboot of the host."""
    steps = steps_of(rules, campaign.steps, Action(campaign.impact.value))
    return replace(
        campaign,
        steps=tuple(
            Step(phase=Phase(step.kind.value), name=step.name, arguments=step.arguments)
            for step in steps
        ),
    )


def with_usual_steps(
    rules: StepRules, steps: tuple[HostStep, ...], action: Action
) -> tuple[HostStep, ...]:
    """Return the steps of maintenance, in order; a reboot without `work` reboots the host.

    After the work of a reboot, the visit waits until the host answers. If the driver has
    no such steps, the VMs are restarted one by one, as without steps.
    """
    usual: tuple[HostStep, ...] = ()
    if action is Action.REBOOT:
        step_kinds = frozenset(step.kind for step in steps)
        usual = rules.usual_steps(step_kinds)
    order = list(StepKind)
    return tuple(
        sorted(
            (*steps, *usual), key=lambda step_ability: order.index(step_ability.kind)
        )
    )


def check_campaign(abilities: Abilities, campaign: Campaign) -> None:
    """Refuse a campaign that the driver cannot carry out.

    Raises FileRefusedError for problems of its steps.
    """
    action = Action(campaign.impact.value)
    steps = steps_of(abilities.host_steps, campaign.steps, action)
    for step in steps:
        with about_key(f"{STEPS}.{step.kind.value}"):
            _check_step(abilities.host_steps, step)
    with about_key(STEPS):
        _check_fit(abilities, steps, action, add=_ADD_TO_FILE)
    check_actions(abilities, actions_of(action, steps))


def check_steps(
    abilities: Abilities, steps: Sequence[HostStep], action: Action
) -> None:
    """Refuse steps of flags that the driver cannot run, or that do not fit the impact."""
    for step in steps:
        _check_step(abilities.host_steps, step)
    _check_fit(abilities, steps, action, add=_ADD_FLAG)


def _check_fit(
    abilities: Abilities, steps: Sequence[HostStep], action: Action, *, add: str
) -> None:
    """Refuse steps that do not fit the impact; `add`: how to add a step work."""
    has_work = any(step.kind is StepKind.WORK for step in steps)
    if action is Action.NONE and not has_work:
        raise RefusedError(
            "maintenance without impact needs a step work",
            hint=f"{add}, or use another impact.",
        )
    if not has_work and any(step.kind is StepKind.ANSWERS for step in steps):
        raise RefusedError(
            "a step answers needs a step work, which it follows",
            hint=f"{add}, or leave the step answers out.",
        )
    if is_in_halves(action, steps) and not abilities.actions.issuperset(HALVES[action]):
        down, up = HALVES[action]
        raise RefusedError(
            f"the driver of this service cannot {down.value} and {up.value} VMs, which a "
            f"step work needs with the impact {action.value}",
            hint="Use live-migrate or redeploy, which move the VMs away first, or none. "
            f"Or add programs for {down.value} and {up.value} to [driver.command].",
        )


def _check_step(rules: StepRules, step: HostStep) -> None:
    """Refuse a step that the driver cannot run."""
    if not rules.rules and not rules.takes_any:
        raise RefusedError(
            "this service has no host steps",
            hint="Add a table [host_step.NAME] with its program to forewarn.toml.",
        )
    rule = rules.find(step.name)
    if rule is None:
        raise RefusedError(
            f"there is no host step {step.name}",
            hint=f"Use one of {', '.join(rules.names)}, or add "
            f"[host_step.{step.name}] to forewarn.toml.",
        )
    problem = arguments_problem(step, rule, takes_any=rules.takes_any)
    if problem:
        raise RefusedError(
            problem,
            hint=f"See [host_step.{step.name}] in forewarn.toml for its arguments.",
        )
