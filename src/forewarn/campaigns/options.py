"""The keys of a campaign file, with their forms and meanings."""

from collections.abc import Mapping
from typing import cast

from forewarn.campaigns.model import Impact, Order, Phase, Step
from forewarn.fleet.blackout_fields import BLACKOUT, BLACKOUTS_MAX, NAME, name_of
from forewarn.fleet.window_fields import WINDOW
from forewarn.instants import DAY, MINUTE
from forewarn.problems import quoted
from forewarn.protocol.host_steps import ARGUMENT_NAME
from forewarn.settings import forms
from forewarn.settings.amounts import AMOUNT
from forewarn.settings.forms import Form, Forms, Option

HOSTS_MAX = 1_000_000
"""Maximum number of hosts in a campaign file: ten times the largest fleet."""

STAGES_MAX = 20
"""Maximum stages: each has a soak, so more would take weeks."""

WINDOWS_MAX = 50
"""Maximum windows: every opening is merged from all of them."""

ARGUMENTS_MAX = 20
"""Maximum arguments of a step."""

PRIORITY_MAX = 9
"""Maximum priority of a campaign: ten ranks, which one digit writes."""

DESCRIPTION_CHARACTERS_MAX = 500
"""Maximum length of the text for tenants: every event of the campaign has it."""

OVERLAP_MAX = 10
"""Maximum further fault domains under notice: a decision reads so many of each scope, and
few scopes have more."""

LABELS_MAX = 20
"""Maximum labels with a budget or a selection: each is counted for each host."""


def _labels(option: Option, value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    table = cast("dict[str, object]", value)
    if not table:
        raise ValueError("must not be empty")
    if len(table) > LABELS_MAX:
        raise ValueError(f"must have at most {LABELS_MAX} labels")
    return tuple(
        (label, tuple(dict.fromkeys(forms.texts(option, values))))
        for label, values in table.items()
    )


def _step(phase: Phase) -> Form:
    def read(_option: Option, value: object) -> Step:
        table = dict(cast("dict[str, object]", value))
        name = table.pop("step", None)
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise ValueError('needs the name of a step: { step = "NAME" }')
        if len(table) > ARGUMENTS_MAX:
            raise ValueError(f"must have at most {ARGUMENTS_MAX} arguments")
        return Step(
            phase=phase,
            name=name,
            arguments=tuple(_argument(key, table[key]) for key in table),
        )

    return Form(expected="a table", kind=dict, read=read)


def _argument(key: str, value: object) -> tuple[str, str]:
    if not ARGUMENT_NAME.fullmatch(key):
        raise ValueError(f"{quoted(key)} is not the name of an argument")
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"argument {key} must be a string or a whole number")  # noqa: TRY004
    return key, forms.line(Option(form=Forms.LINE), str(value))


def _description(option: Option, value: object) -> str:
    text = forms.line(option, value)
    if len(text) > DESCRIPTION_CHARACTERS_MAX:
        raise ValueError(f"must have at most {DESCRIPTION_CHARACTERS_MAX} characters")
    return text


_DESCRIPTION = Form(expected="a string", read=_description, metavar="TEXT")
_CAMPAIGN_NAME = Form(expected="a name", read=name_of)
_LABELS = Form(
    expected="a table of strings or lists of strings", kind=dict, read=_labels
)

SELECT: Mapping[str, Option] = {
    "host": Option(form=Forms.NAMES, text="Names of hosts."),
    "zone": Option(form=Forms.NAMES, text="All hosts of these zones."),
    "cluster": Option(form=Forms.NAMES, text="All hosts of these clusters."),
    "rack": Option(form=Forms.NAMES, text="All hosts of these racks."),
    "pool": Option(form=Forms.NAMES, text="All hosts of these pools."),
    "labels": Option(
        form=_LABELS,
        text="All hosts with these labels. A value is a text, or a list of which one "
        "must match.",
    ),
    "all": Option(
        form=Forms.SWITCH,
        text="All hosts, if no other key selects hosts. There is no selection by omission.",
    ),
    "except": Option(
        form=Forms.NAMES, text="Names of hosts that are not part of the campaign."
    ),
}

STEPS: Mapping[str, Option] = {
    "needed": Option(
        form=_step(Phase.NEEDED),
        text="Finds out whether the host needs the work, before any notice.",
    ),
    "enter": Option(form=_step(Phase.ENTER), text="Runs before the VMs are affected."),
    "work": Option(form=_step(Phase.WORK), text="The work on the host."),
    "answers": Option(
        form=_step(Phase.ANSWERS),
        text="Finds out after `work` whether the host answers, until it has succeeded.",
    ),
    "verify": Option(
        form=_step(Phase.VERIFY), text="Confirms that the work succeeded."
    ),
    "exit": Option(
        form=_step(Phase.EXIT), text="Runs before the host is opened again."
    ),
}

GROUP_BUDGET: Mapping[str, Option] = {
    "label": Option(
        form=Forms.LINE,
        is_needed=True,
        text="`zone`, `cluster`, `rack`, `pool`, or the name of a label. Hosts without "
        "it have no limit.",
    ),
    "max": Option(
        form=AMOUNT,
        least=1,
        most=HOSTS_MAX,
        is_needed=True,
        text="Maximum hosts in flight with the same value, or a percentage of them. "
        "Failed hosts of any campaign count.",
    ),
}

BUDGET: Mapping[str, Option] = {
    "in_flight": Option(
        form=AMOUNT,
        least=1,
        most=HOSTS_MAX,
        text="Maximum hosts from their notice to the end of their work, or a "
        "percentage of the campaign's hosts. Each stage begins with 1, then 2, 4, …",
    ),
    "unavailable": Option(
        form=AMOUNT,
        least=1,
        most=HOSTS_MAX,
        text="Maximum hosts that are away for any cause, or a percentage of all hosts.",
    ),
    "tenant_vms": Option(
        form=AMOUNT,
        least=1,
        most=HOSTS_MAX,
        text="Maximum VMs of one tenant under notice or in work, or a percentage of its "
        "VMs.",
    ),
    "overlap_notice": Option(
        form=Forms.COUNT,
        least=0,
        most=OVERLAP_MAX,
        text="Further fault domains of a scope that can be announced while one is "
        "announced, in work or down. They are in work one after the other.",
    ),
    "by": Option(
        form=Forms.TABLES, most=LABELS_MAX, keys=GROUP_BUDGET, text="Limits of groups."
    ),
}

STAGE: Mapping[str, Option] = {
    "hosts": Option(
        form=AMOUNT,
        least=1,
        most=HOSTS_MAX,
        is_needed=True,
        text="Hosts up to the end of the stage, counted from the first host of the "
        "campaign, or a percentage of its hosts.",
    ),
    "soak": Option(
        form=Forms.DURATION,
        most=90 * DAY,
        text="Time between the last host of the stage and the next stage.",
    ),
    "approval": Option(
        form=Forms.SWITCH,
        text="Whether an operator must approve the next stage after the soak.",
    ),
}

TOLERANCE: Mapping[str, Option] = {
    "failures": Option(
        form=Forms.COUNT,
        most=HOSTS_MAX,
        text="Failed hosts that are tolerated; one more halts the campaign.",
    ),
    "of_last": Option(
        form=Forms.COUNT,
        least=1,
        most=HOSTS_MAX,
        text="Number of finished hosts that `failures` refers to.",
    ),
    "in_a_row": Option(
        form=Forms.COUNT,
        most=HOSTS_MAX,
        text="Failures in a row that are tolerated; one more halts the campaign.",
    ),
    "vms_down": Option(
        form=Forms.COUNT,
        most=HOSTS_MAX,
        text="VMs that can be down after the work. Default: as many as the largest "
        "host has.",
    ),
}

CHECK: Mapping[str, Option] = {
    "use": Option(
        form=_CAMPAIGN_NAME, is_needed=True, text="Name of a check of the settings."
    ),
}

EXPECT: Mapping[str, Option] = {
    "typical": Option(
        form=Forms.DURATION,
        least=MINUTE,
        most=7 * DAY,
        text="Time that half of the hosts take at most, from the end of the notice to "
        "the end of the work and its host steps, without the recovery of VMs.",
    ),
    "slow": Option(
        form=Forms.DURATION,
        least=MINUTE,
        most=7 * DAY,
        text="Time that nine of ten hosts take at most. A host begins only if this time "
        "is left in the window. Durations of the same step `work` that were measured on 10 "
        "hosts or more replace `typical`, and a longer one replaces `slow`, also one of the "
        "campaign's own hosts while it runs.",
    ),
}

CAMPAIGN: Mapping[str, Option] = {
    "name": Option(form=_CAMPAIGN_NAME, is_needed=True, text="Name of the campaign."),
    "reason": Option(form=Forms.LINE, is_needed=True, text="Why the work is done."),
    "impact": Option(
        form=Forms.WORD,
        words=tuple(impact.value for impact in Impact),
        is_needed=True,
        text="The effect of the work on VMs.",
    ),
    "order": Option(
        form=Forms.WORD,
        words=tuple(order.value for order in Order),
        text="Order of the hosts.",
    ),
    "priority": Option(
        form=Forms.COUNT,
        most=PRIORITY_MAX,
        text="Rank among the campaigns that share `[campaigns] in_flight` of the "
        "service: the higher one gets the next host, then the older campaign.",
    ),
    "emergency": Option(
        form=Forms.SWITCH,
        text="Whether the campaign ignores its windows and blackouts, the windows of "
        "tenants, and deferrals. Its start needs the role `emergency`.",
    ),
    "description": Option(
        form=_DESCRIPTION,
        text="A text for the tenants: the Description of the events, which `upcoming` shows "
        "before. `reason` is only for operators.",
    ),
    "select": Option(
        form=Forms.TABLE, keys=SELECT, is_needed=True, text="The hosts of the campaign."
    ),
    "steps": Option(form=Forms.TABLE, keys=STEPS, text="Programs of the settings."),
    "budget": Option(form=Forms.TABLE, keys=BUDGET, text="Limits of concurrent work."),
    "stage": Option(form=Forms.TABLES, most=STAGES_MAX, keys=STAGE, text="Stages."),
    "window": Option(form=Forms.TABLES, most=WINDOWS_MAX, keys=WINDOW, text="Windows."),
    "blackout": Option(
        form=Forms.TABLES, most=BLACKOUTS_MAX, keys=BLACKOUT, text="Blackouts."
    ),
    "tolerance": Option(form=Forms.TABLE, keys=TOLERANCE, text="Tolerated failures."),
    "check": Option(form=Forms.TABLES, most=LABELS_MAX, keys=CHECK, text="Checks."),
    "expect": Option(form=Forms.TABLE, keys=EXPECT, text="Expected durations."),
}

ROOT: Mapping[str, Option] = {
    "campaign": Option(form=Forms.TABLE, keys=CAMPAIGN, is_needed=True),
}

TABLES: Mapping[str, Mapping[str, Option]] = {
    "[campaign]": CAMPAIGN,
    "[campaign.select]": SELECT,
    "[campaign.steps]": STEPS,
    "[campaign.budget]": BUDGET,
    "[[campaign.budget.by]]": GROUP_BUDGET,
    "[[campaign.stage]]": STAGE,
    "[[campaign.window]]": WINDOW,
    "[[campaign.blackout]]": BLACKOUT,
    "[campaign.tolerance]": TOLERANCE,
    "[[campaign.check]]": CHECK,
    "[campaign.expect]": EXPECT,
}
"""The tables of a file, for its reference page."""
