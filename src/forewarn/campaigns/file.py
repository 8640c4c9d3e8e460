"""The reader of campaign files: TOML text in, a campaign out.

All problems are reported together, with line and key. Whether the fleet has the selected
hosts is checked when the campaign is planned.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from forewarn.campaigns import options
from forewarn.campaigns.model import (
    DEFAULT_STAGES,
    Budget,
    Campaign,
    Check,
    Expectation,
    GroupBudget,
    Impact,
    Order,
    Selection,
    Stage,
    Tolerance,
)
from forewarn.campaigns.text import CampaignFileError
from forewarn.fleet import blackout_fields
from forewarn.fleet.window_fields import ALL_DAYS, line_of
from forewarn.fleet.windows import Window
from forewarn.settings.tables import Tables


def read_campaign(text: str, *, name: str) -> Campaign:
    """Return the campaign that a file's text describes; `name` is for messages.

    Raises CampaignFileError with all problems.
    """
    tables = Tables(name)
    parsed = tables.parse(text)
    values: dict[str, Any] = {}
    if parsed is not None:
        values = tables.take("", parsed, options.ROOT).get("campaign", {})
        _check(tables, values, parsed.get("campaign", {}))
    if tables.problems:
        raise CampaignFileError(tables.problems)
    return _campaign(values)


def _campaign(values: Mapping[str, Any]) -> Campaign:
    """Return the campaign of valid values."""
    select = dict(values["select"])
    select["exclude"] = select.pop("except", ())
    budget = dict(values.get("budget", {}))
    budget["by"] = tuple(
        GroupBudget(label=limit["label"], most=limit["max"])
        for limit in budget.get("by", ())
    )
    expect = values.get("expect", {})
    windows = tuple(
        Window(days=window.pop("days", ALL_DAYS), **window)
        for window in values.get("window", ())
    )
    blackouts = tuple(
        map(blackout_fields.blackout_of_values, values.get("blackout", ()))
    )
    ignored: tuple[str, ...] = ()
    is_emergency = values.get("emergency", False)
    if is_emergency:
        ignored = (
            *(f"window {line_of(window)}" for window in windows),
            *(f"blackout {blackout.name}" for blackout in blackouts),
        )
        windows, blackouts = (), ()
    return Campaign(
        name=values["name"],
        reason=values["reason"],
        impact=Impact(values["impact"]),
        description=values.get("description", ""),
        order=Order(values.get("order", Order.AUTO.value)),
        priority=values.get("priority", 0),
        select=Selection(**select),
        steps=tuple(values.get("steps", {}).values()),
        budget=Budget(**budget),
        stages=tuple(Stage(**stage) for stage in values.get("stage", ()))
        or DEFAULT_STAGES,
        is_emergency=is_emergency,
        ignored=ignored,
        windows=windows,
        blackouts=blackouts,
        tolerance=Tolerance(**values.get("tolerance", {})),
        checks=tuple(Check(use=check["use"]) for check in values.get("check", ())),
        expect=Expectation(
            **_durations(expect), is_given=bool(expect), slow_min=expect.get("slow", 0)
        ),
    )


def _durations(expect: Mapping[str, Any]) -> dict[str, Any]:
    """Return both durations; a missing one is the other, or its default."""
    durations = dict(expect)
    usual = Expectation()
    if "slow" in durations:
        durations.setdefault("typical", min(usual.typical, durations["slow"]))
    elif "typical" in durations:
        durations["slow"] = max(usual.slow, durations["typical"])
    return durations


def _check(
    tables: Tables, values: Mapping[str, Any], written: Mapping[str, Any]
) -> None:
    """Report problems between values; `written` has the invalid ones, too."""
    select = cast("dict[str, Any] | None", values.get("select"))
    if select is not None and select.keys() == written["select"].keys():
        _check_selection(tables, select)
    if values.get("order") == Order.LISTED.value and not (select or {}).get("host"):
        tables.blame("campaign.order", "listed needs the hosts in select.host")
    _check_budgets(tables, values.get("budget", {}).get("by", ()))
    _check_stages(tables, values.get("stage", ()))
    _check_tolerance(tables, values.get("tolerance", {}))
    expect = values.get("expect", {})
    if expect.keys() >= {"typical", "slow"} and expect["slow"] < expect["typical"]:
        tables.blame("campaign.expect.slow", "must be at least as long as typical")
    if values.get("impact") == Impact.NONE.value and not written.get("steps"):
        tables.blame("campaign.impact", "none needs a table campaign.steps")
    _check_repeated(tables, values.get("check", ()), "use", "check")
    _check_repeated(tables, values.get("blackout", ()), "name", "blackout")
    _check_blackouts(tables, values.get("blackout", ()), written)


def _check_blackouts(
    tables: Tables, blackouts: Sequence[Mapping[str, Any]], written: Mapping[str, Any]
) -> None:
    for number, blackout in enumerate(blackouts, start=1):
        # A key with a problem of its own is not missing.
        if blackout.keys() == written["blackout"][number - 1].keys():
            for key, message in blackout_fields.wrong(blackout):
                tables.blame(f"campaign.blackout.{number}.{key}", message)


def _check_selection(tables: Tables, select: Mapping[str, Any]) -> None:
    others = select.keys() - {"all", "except"}
    if select.get("all") and others:
        tables.blame(
            "campaign.select.all",
            f"cannot be combined with {', '.join(sorted(others))}",
        )
    elif not others and not select.get("all"):
        tables.blame(
            "campaign.select",
            "selects no host: name hosts, zones, clusters, racks, pools or labels, "
            "or set all = true",
        )
    for name in select.get("except", ()):
        if name in select.get("host", ()):
            tables.blame("campaign.select.except", f"{name} is also in select.host")


def _check_budgets(tables: Tables, budgets: Sequence[Mapping[str, Any]]) -> None:
    _check_repeated(tables, budgets, "label", "budget.by")


def _check_repeated(
    tables: Tables, entries: Sequence[Mapping[str, Any]], key: str, array: str
) -> None:
    earlier: set[str] = set()
    for number, entry in enumerate(entries, start=1):
        value = entry.get(key)
        if value in earlier:
            tables.blame(f"campaign.{array}.{number}.{key}", f"{value} is repeated")
        elif value is not None:
            earlier.add(value)


def _check_stages(tables: Tables, stages: Sequence[Mapping[str, Any]]) -> None:
    last: dict[bool, float] = {}
    for number, stage in enumerate(stages, start=1):
        hosts = stage.get("hosts")
        if hosts is None:
            continue
        before = last.get(hosts.is_percent)
        if before is not None and hosts.value <= before:
            tables.blame(
                f"campaign.stage.{number}.hosts",
                f"must be more than in an earlier stage: {hosts} counts from the first "
                "host of the campaign",
            )
        last[hosts.is_percent] = hosts.value


def _check_tolerance(tables: Tables, tolerance: Mapping[str, Any]) -> None:
    usual = Tolerance()
    failures = tolerance.get("failures", usual.failures)
    of_last = tolerance.get("of_last", usual.of_last)
    if failures >= of_last:
        key = "failures" if "failures" in tolerance else "of_last"
        tables.blame(
            f"campaign.tolerance.{key}",
            f"{failures} failures of the last {of_last} hosts would never halt the "
            "campaign",
        )
