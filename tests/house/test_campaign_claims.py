"""Each claim about campaigns in the comparison with other programs has its test."""

import ast

import pytest

from tests.house.test_migration import COMPARISON, ROOT, cells

TITLE = "## Programs that update many hosts in order\n"
PLATFORMS = "## Maintenance of hypervisors in other platforms\n"

CAMPAIGNS = "tests/unit/control/test_campaigns.py"
BUDGETS = "tests/unit/control/test_campaign_budgets.py"
STEPS = "tests/unit/control/test_campaign_steps.py"
PLANS = "tests/unit/cli/test_campaigns.py"

PROOFS = {
    "unit": (STEPS, "test_every_host_is_visited_and_opened"),
    "concurrency": (BUDGETS, "test_one_host_of_a_rack_is_in_flight"),
    "hosts away for other causes": (
        BUDGETS,
        "test_hosts_that_are_away_for_any_cause_count",
    ),
    "next host begins": (CAMPAIGNS, "test_hosts_in_flight_double_up_to_the_budget"),
    "already up to date": (
        STEPS,
        "test_a_host_that_does_not_need_the_work_is_skipped_without_notice",
    ),
    "canary": (
        "tests/unit/campaigns/test_file.py",
        "test_smallest_file_has_careful_defaults",
    ),
    "windows": (
        "tests/unit/fleet/test_windows.py",
        "test_change_of_the_clock_does_not_shorten_a_window",
    ),
    "checks of other systems": (
        "tests/unit/control/test_campaign_checks.py",
        "test_an_unknown_check_pauses_the_campaign_until_it_passes",
    ),
    "first failed host": (
        CAMPAIGNS,
        "test_a_failed_canary_halts_the_campaign_before_anybody_else_is_told",
    ),
    "more failures": (CAMPAIGNS, "test_failures_in_a_row_halt_the_campaign"),
    "stop": (CAMPAIGNS, "test_a_halt_withdraws_announcements_without_impact"),
    "after a failure": (
        "tests/unit/control/test_campaign_reports.py",
        "test_a_failed_and_retried_host_has_two_attempts",
    ),
    "success means": (
        "tests/unit/control/test_visits.py",
        "test_verify_must_succeed_several_times_in_a_row",
    ),
    "before the start": (PLANS, "test_plan_shows_order_constraint_and_end"),
}
"""The test of each row: its file and its name."""

PLATFORM_PROOFS = {
    "hosts at once": PROOFS["concurrency"],
    "order": PROOFS["before the start"],
    "before the work": PROOFS["before the start"],
    "steps on the host": PROOFS["unit"],
    "host that needs no work": PROOFS["already up to date"],
    "failed host": PROOFS["first failed host"],
    "tenants": (
        "tests/unit/control/test_deferrals.py",
        "test_deferred_scope_holds_each_of_its_hosts",
    ),
    "other functions of the cluster": PROOFS["unit"],
}
"""The same for the table about other platforms."""


@pytest.mark.parametrize(
    ("title", "proofs"), [(TITLE, PROOFS), (PLATFORMS, PLATFORM_PROOFS)]
)
def test_every_claim_about_campaigns_has_a_test(
    title: str, proofs: dict[str, tuple[str, str]]
) -> None:
    page = COMPARISON.read_text(encoding="utf-8")
    text = page.partition(title)[2].partition("\n## ")[0]
    rows = [
        row
        for row, column, _ in cells()
        if column == "forewarn" and f"\n| {row} | [" in text
    ]
    # A row of another table can have the same name.
    assert set(rows) == set(proofs)


@pytest.mark.parametrize(
    ("file", "name"), sorted({*PROOFS.values(), *PLATFORM_PROOFS.values()})
)
def test_the_test_of_a_claim_exists(file: str, name: str) -> None:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    names = {
        statement.name
        for statement in tree.body
        if isinstance(statement, ast.FunctionDef)
    }
    assert name in names
