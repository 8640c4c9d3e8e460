"""The terms of a campaign that can change while it runs: values in, values out.

Hosts, steps, and the hosts of each stage stay as they were reviewed. A new term takes
effect at the next decision, because each decision reads the record.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from forewarn.campaigns.options import (
    BUDGET,
    CAMPAIGN,
    GROUP_BUDGET,
    LABELS_MAX,
    STAGE,
    TOLERANCE,
    WINDOWS_MAX,
)
from forewarn.campaigns.record import BudgetTerms, CampaignRecord, StageTerms
from forewarn.fleet.blackout_fields import (
    BLACKOUTS_MAX,
    blackout_of,
    line_of_blackout,
)
from forewarn.fleet.blackouts import Blackout
from forewarn.fleet.window_fields import line_of, window_of
from forewarn.fleet.windows import Window
from forewarn.instants import format_duration
from forewarn.problems import listed
from forewarn.protocol.errors import BadRequestError, RefusedError
from forewarn.settings import forms
from forewarn.settings.forms import Option

NO_LIMIT = "none"
"""The word that removes a budget."""

HOURS_KEYS = frozenset({"window", "remove_window", "blackout", "remove_blackout"})
"""The terms that an emergency campaign ignores."""

_HINTS = {
    "in_flight": "Give a number of hosts such as 8, or a percentage such as 3%.",
    "unavailable": "Give a number of hosts such as 8, a percentage such as 3%, or none.",
    "tenant_vms": "Give a number of VMs such as 20, or none.",
    "by": "Write it like rack=2, model=10% or rack=none.",
    "overlap_notice": "Give a number of fault domains, such as 1.",
    "failures": "Give a number of hosts, such as 2.",
    "of_last": "Give a number of hosts, such as 50.",
    "in_a_row": "Give a number of hosts, such as 1.",
    "vms_down": "Give a number of VMs, such as 8.",
    "priority": "Give a number, such as 5.",
    "soak": "Write it like 2=30m: the stage, and the time after it.",
    "approval": "Write it like 2=yes or 2=no: the stage, and whether the next one needs it.",
}


def changed(old: CampaignRecord, given: Mapping[str, str]) -> CampaignRecord:
    """Return the campaign with some new terms, each as a caller writes it.

    Raises BadRequestError for a value that is not valid, and RefusedError for one that
    this campaign cannot have.
    """
    if old.is_emergency and given.keys() & HOURS_KEYS:
        raise RefusedError(
            f"campaign {old.name} is an emergency, which no window and no blackout stops",
            hint=f"Run `forewarn campaign pause {old.name} --reason TEXT` to stop it for a "
            "while.",
        )
    tolerance = replace(
        old.tolerance,
        **{
            key: _value(TOLERANCE, given, key, getattr(old.tolerance, key))
            for key in ("failures", "of_last", "in_a_row", "vms_down")
        },
    )
    if tolerance.failures >= tolerance.of_last:
        raise BadRequestError(
            f"{tolerance.failures} failures of the last {tolerance.of_last} hosts would "
            "never halt the campaign",
            hint="Tolerate fewer failures.",
        )
    new = replace(
        old,
        tolerance=tolerance,
        budget=_budget(old.budget, given),
        priority=_value(CAMPAIGN, given, "priority", old.priority),
        stages=_stages(old, given),
        windows=_windows(old, given),
        blackouts=_blackouts(old, given),
        checks=_checks(old, given),
    )
    if "tenant_vms" in given:
        # Those of the start, which were resolved for each tenant, do not count any more.
        new = replace(new, tenant_most=())
    return replace(
        new,
        unknown=tuple(check for check in new.unknown if check[0] in new.checks),
        despite=tuple(check for check in new.despite if check in new.checks),
    )


def terms_of(campaign: CampaignRecord) -> Mapping[str, str]:
    """Return the terms that can change, as the history shows them."""
    budget, tolerance = campaign.budget, campaign.tolerance
    down = tolerance.vms_down
    return {
        "in_flight": budget.in_flight,
        "unavailable": budget.unavailable or NO_LIMIT,
        "tenant_vms": budget.tenant_vms or NO_LIMIT,
        "by": _joined(f"{label}={most}" for label, most in budget.by),
        "overlap_notice": str(budget.overlap_notice),
        "failures": str(tolerance.failures),
        "of_last": str(tolerance.of_last),
        "in_a_row": str(tolerance.in_a_row),
        "vms_down": NO_LIMIT if down is None else str(down),
        "priority": str(campaign.priority),
        "soaks": _joined(format_duration(stage.soak) for stage in campaign.stages),
        "approvals": _joined(
            str(number)
            for number, stage in enumerate(campaign.stages, start=1)
            if stage.approval
        ),
        "windows": _joined(map(line_of, campaign.windows)),
        "blackouts": _joined(map(line_of_blackout, campaign.blackouts)),
        "checks": _joined(campaign.checks),
    }


def _joined(parts: Iterable[str]) -> str:
    return ", ".join(parts) or NO_LIMIT


def _budget(old: BudgetTerms, given: Mapping[str, str]) -> BudgetTerms:
    return replace(
        old,
        in_flight=str(_value(BUDGET, given, "in_flight", old.in_flight)),
        unavailable=_limit(given, "unavailable", old.unavailable),
        tenant_vms=_tenant_vms(given, old.tenant_vms),
        by=_by(old.by, given),
        overlap_notice=_value(BUDGET, given, "overlap_notice", old.overlap_notice),
    )


def _limit(given: Mapping[str, str], key: str, kept: str) -> str:
    """Return a budget that a campaign can have or not."""
    if given.get(key) == NO_LIMIT:
        return ""
    return str(_value(BUDGET, given, key, kept))


def _tenant_vms(given: Mapping[str, str], kept: str) -> str:
    """Return the budget of each tenant; a percentage is resolved only at the start."""
    if given.get("tenant_vms", "").endswith("%"):
        raise BadRequestError(
            f"tenant_vms: must be a number or {NO_LIMIT}, because the VMs of each tenant "
            "are counted at the start of a campaign",
            hint=_HINTS["tenant_vms"],
        )
    return _limit(given, "tenant_vms", kept)


def _by(
    old: tuple[tuple[str, str], ...], given: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """Return the budgets of groups, with one that was set or removed."""
    if "by" not in given:
        return old
    label, _, amount = given["by"].partition("=")
    budgets = dict(old)
    if amount == NO_LIMIT:
        if label not in budgets:
            raise BadRequestError(
                f"the campaign has no budget by {label!r}",
                hint=f"Its budgets have {listed(list(budgets))}."
                if budgets
                else "It has no budget of groups.",
            )
        del budgets[label]
        return tuple(budgets.items())
    name = _read(GROUP_BUDGET["label"], label, "by")
    budgets[name] = str(_read(GROUP_BUDGET["max"], amount, "by"))
    if len(budgets) > LABELS_MAX:
        raise BadRequestError(
            f"a campaign has budgets of at most {LABELS_MAX} labels",
            hint="Remove one with LABEL=none.",
        )
    return tuple(budgets.items())


def _stages(old: CampaignRecord, given: Mapping[str, str]) -> tuple[StageTerms, ...]:
    stages = list(old.stages)
    if "soak" in given:
        number, text = _of_stage(old, given, "soak")
        soak = _read(STAGE["soak"], text, "soak")
        stages[number - 1] = replace(stages[number - 1], soak=soak)
    if "approval" in given:
        number, text = _of_stage(old, given, "approval")
        answers = {"yes": True, "no": False}
        if text not in answers:
            raise BadRequestError(
                f"approval: must be yes or no, not {text!r}", hint=_HINTS["approval"]
            )
        stages[number - 1] = replace(stages[number - 1], approval=answers[text])
    return tuple(stages)


def _of_stage(
    old: CampaignRecord, given: Mapping[str, str], key: str
) -> tuple[int, str]:
    """Return the number of a stage that has another one after it, and its new value."""
    written, _, text = given[key].partition("=")
    count = Option(form=forms.Forms.COUNT, least=1, most=len(old.stages))
    number = _read(count, written, key)
    if number < old.stage:
        raise RefusedError(
            f"stage {number} of campaign {old.name} has ended",
            hint=f"It is in stage {old.stage} of {len(old.stages)}.",
        )
    if number == len(old.stages):
        raise RefusedError(
            f"stage {number} of campaign {old.name} is its last one",
            hint=f"No stage begins after it. {_HINTS[key]}",
        )
    return number, text


def _windows(old: CampaignRecord, given: Mapping[str, str]) -> tuple[Window, ...]:
    """Return the windows after the change: one is removed, and one added."""
    windows = list(old.windows)
    if removed := given.get("remove_window", ""):
        window = _line(window_of, removed, "window")
        if window not in windows:
            raise BadRequestError(
                f"campaign {old.name} has no window {line_of(window)}",
                hint=f"Run `forewarn campaign show {old.name}` to see its windows.",
            )
        windows.remove(window)
    if line := given.get("window", ""):
        window = _line(window_of, line, "window")
        if window not in windows:
            windows.append(window)
        if len(windows) > WINDOWS_MAX:
            raise BadRequestError(
                f"a campaign has at most {WINDOWS_MAX} windows",
                hint=f"Run `forewarn campaign set {old.name} --remove-window WINDOW`.",
            )
    return tuple(windows)


def _blackouts(old: CampaignRecord, given: Mapping[str, str]) -> tuple[Blackout, ...]:
    """Return the blackouts after the change. A new one replaces one with its name."""
    blackouts = {blackout.name: blackout for blackout in old.blackouts}
    if removed := given.get("remove_blackout", ""):
        if removed not in blackouts:
            raise BadRequestError(
                f"campaign {old.name} has no blackout {removed}",
                hint=f"Run `forewarn campaign show {old.name}` to see its blackouts.",
            )
        del blackouts[removed]
    if line := given.get("blackout", ""):
        added = _line(blackout_of, line, "blackout")
        blackouts[added.name] = added
        if len(blackouts) > BLACKOUTS_MAX:
            raise BadRequestError(
                f"a campaign has at most {BLACKOUTS_MAX} blackouts",
                hint=f"Run `forewarn campaign set {old.name} --remove-blackout NAME`.",
            )
    return tuple(blackouts.values())


_LINE_HINTS = {
    "window": "Write it like 'mon,tue 22:00 7h Europe/Berlin'.",
    "blackout": "Write it like 'year-end 2026-12-24T18:00 2027-01-02T06:00 "
    "Europe/Berlin'.",
}


def _line(read: Callable[[str], Any], line: str, kind: str) -> Any:
    """Return the window or blackout of a line."""
    try:
        return read(line)
    except ValueError as error:
        raise BadRequestError(
            f"{line!r} is not a {kind}: {error}", hint=_LINE_HINTS[kind]
        ) from error


def _checks(old: CampaignRecord, given: Mapping[str, str]) -> tuple[str, ...]:
    """Return the checks after the change; whether the service has them is not known."""
    checks = list(old.checks)
    if removed := given.get("remove_check", ""):
        if removed not in checks:
            raise BadRequestError(
                f"campaign {old.name} has no check {removed}",
                hint=f"Its checks are {listed(checks)}."
                if checks
                else "It has no checks.",
            )
        checks.remove(removed)
    if (added := given.get("check", "")) and added not in checks:
        checks.append(added)
        if len(checks) > LABELS_MAX:
            raise BadRequestError(
                f"a campaign has at most {LABELS_MAX} checks",
                hint=f"Run `forewarn campaign set {old.name} --remove-check NAME`.",
            )
    return tuple(checks)


def _value(
    options: Mapping[str, Option], given: Mapping[str, str], key: str, kept: Any
) -> Any:
    """Return the given value, which must be one that a campaign file can have."""
    return _read(options[key], given[key], key) if key in given else kept


def _read(option: Option, text: str, key: str) -> Any:
    try:
        return forms.from_text(option, text)
    except ValueError as error:
        raise BadRequestError(f"{key}: {error}", hint=_HINTS[key]) from None
