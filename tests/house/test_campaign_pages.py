"""Each section of the pages about campaigns has tests of the behaviour that it promises."""

import ast
import re

import pytest

from tests.support.pages import OPERATE, ROOT

_U = "tests/unit/control/test_"

PROOFS = {
    "campaign-recipes.md": {
        "Firmware on 400 hosts, at night": (
            f"{_U}campaigns.py::test_hosts_start_only_in_a_window_that_they_fit_into",
            "tests/unit/cli/test_campaigns.py::test_plan_shows_order_constraint_and_end",
        ),
        "A new kernel, zone by zone": (
            f"{_U}campaign_promises.py::test_automatic_order_finishes_a_zone_before_the_next",
            f"{_U}campaigns.py::test_a_stage_can_need_an_approval",
            f"{_U}campaign_checks.py::test_no_host_is_announced_before_the_check_has_passed",
        ),
        "An emergency restart": (
            (
                f"{_U}emergency_campaigns.py::"
                "test_windows_blackouts_and_windows_of_tenants_do_not_stop_an_emergency"
            ),
            (
                f"{_U}emergency_campaigns.py::"
                "test_the_history_names_all_that_an_emergency_does_not_keep_to"
            ),
            f"{_U}overlap_notice.py::test_overlap_saves_the_notice_of_each_domain",
        ),
        "Firmware that may be bad": (
            (
                "tests/system/test_campaign_canary.py::"
                "test_a_bad_canary_costs_one_host_and_no_event"
            ),
            f"{_U}campaigns.py::test_an_aborted_campaign_leaves_out_what_has_not_started",
        ),
        "OS images of scale-set instances": (
            "tests/unit/cli/test_campaign_recipes.py::test_each_command_runs",
        ),
        "It must not select other hosts than I meant": (
            f"{_U}campaign_promises.py::test_digest_of_a_plan_depends_on_file_hosts_order_and_budgets",
            "tests/unit/cli/test_campaigns.py::test_plan_shows_order_constraint_and_end",
        ),
        "I must know what happens when": (
            "tests/unit/cli/test_campaigns.py::test_page_has_each_host_with_its_place",
        ),
        "I must know whether the windows are enough": (
            (
                "tests/unit/service/simulation/test_play.py::"
                "test_night_of_a_clock_change_is_as_long_as_the_others"
            ),
        ),
        "A window must not be the only time without limits": (
            f"{_U}campaign_blackouts.py::test_a_blackout_comes_before_a_window",
        ),
        "Tenants want to choose their own time": (
            (
                f"{_U}windows_apart.py::"
                "test_window_that_is_never_open_in_those_of_the_campaign_is_the_reason"
            ),
            (
                f"{_U}windows_apart.py::"
                "test_plan_names_hosts_whose_windows_never_meet_at_the_size_of_a_fleet"
            ),
            f"{_U}deferrals.py::test_planned_host_waits_and_the_others_go_on",
            f"{_U}deferrals.py::test_expedited_host_comes_next_and_is_approved",
        ),
        "One host with an unusual VM must not stop the others": (
            (
                "tests/unit/service/test_campaign_plans.py::"
                "test_reboot_of_hosts_leaves_out_vms_that_cannot_be_stopped"
            ),
            (
                f"{_U}campaign_deferrals.py::"
                "test_a_host_that_cannot_be_drained_is_opened_and_tried_again_last"
            ),
        ),
        "VMs must not be placed by an old picture of the fleet": (
            f"{_U}reserved_places.py::test_two_hosts_never_count_on_the_same_places",
            f"{_U}reserved_places.py::test_reserved_host_that_fails_is_replaced_at_the_start",
            f"{_U}cordons.py::test_drain_without_destination_waits_and_says_why",
        ),
        "Hosts with the work done must not be touched again": (
            (
                f"{_U}campaign_steps.py::"
                "test_a_host_that_does_not_need_the_work_is_skipped_without_notice"
            ),
        ),
        "All hosts must not restart at once by mistake": (
            "tests/unit/campaigns/test_file.py::test_smallest_file_has_careful_defaults",
            f"{_U}campaigns.py::test_hosts_in_flight_double_up_to_the_budget",
        ),
        "A window must keep its length in the night of the time change": (
            (
                "tests/unit/fleet/test_windows.py::"
                "test_change_of_the_clock_does_not_shorten_a_window"
            ),
        ),
        "One failed host must not end it, and many must": (
            f"{_U}campaign_promises.py::test_third_failure_of_the_last_stage_halts_it_by_default",
            f"{_U}campaigns.py::test_the_last_stage_tolerates_single_failures",
            f"{_U}campaigns.py::test_failures_in_a_row_halt_the_campaign",
            f"{_U}campaigns.py::test_budgets_and_tolerance_can_change_while_it_runs",
        ),
        "It must continue where it stopped": (
            f"{_U}campaign_promises.py::test_a_window_that_closes_ends_nothing",
            (
                "tests/system/test_campaign_canary.py::"
                "test_a_repaired_canary_is_retried_and_the_others_follow"
            ),
        ),
        "The application must be well before the next host": (
            f"{_U}campaigns.py::test_a_stage_begins_when_the_one_before_it_has_soaked",
            (
                f"{_U}campaign_checks.py::"
                "test_a_failed_check_halts_the_campaign_and_withdraws_its_announcements"
            ),
        ),
        "It stands still, and I do not know why": (
            (
                f"{_U}campaign_troubles.py::"
                "test_a_campaign_is_explained_by_what_it_waits_for_and_its_hosts"
            ),
            (
                f"{_U}campaign_troubles.py::"
                "test_a_host_of_a_later_stage_names_its_window_and_its_deferral"
            ),
        ),
        "A check fails, and I know better": (
            (
                "tests/system/test_campaign_resume.py::"
                "test_each_refusal_of_a_resumption_tells_how_to_go_on"
            ),
        ),
        "I want to stop before a certain host, and move its VMs by hand": (
            f"{_U}campaigns.py::test_hosts_that_wait_or_are_announced_can_be_skipped",
            f"{_U}cordons.py::test_drained_host_is_empty_and_cordoned_after_notice",
        ),
        "A drain must be taken back": (
            f"{_U}campaigns.py::test_a_halt_withdraws_announcements_without_impact",
            f"{_U}campaign_steps.py::test_a_halt_during_visits_lets_only_work_that_has_begun_end",
        ),
        "See what a command would do": (
            (
                "tests/unit/cli/test_dry_runs.py::"
                "test_halt_says_what_is_withdrawn_and_what_waits"
            ),
            (
                "tests/unit/cli/test_dry_runs.py::"
                "test_decision_after_that_of_another_is_refused"
            ),
        ),
        "A host cannot be emptied": (
            (
                f"{_U}campaign_deferrals.py::"
                "test_a_host_that_cannot_be_drained_is_opened_and_tried_again_last"
            ),
            f"{_U}campaign_deferrals.py::test_a_host_is_skipped_after_its_last_attempt",
        ),
        "Two people pause it, and one of them resumes": (
            f"{_U}campaigns.py::test_a_campaign_continues_when_the_last_of_two_resumes_it",
        ),
        "A host in work is opened by mistake": (
            (
                f"{_U}campaign_visits.py::"
                "test_refusals_about_a_visited_host_name_its_campaign"
            ),
        ),
        "A host was removed from the fleet": (
            (
                f"{_U}campaign_hosts.py::"
                "test_host_that_is_removed_is_skipped_and_frees_its_place"
            ),
            f"{_U}campaign_added.py::test_only_hosts_that_match_the_selection_are_drift",
        ),
        "A rack fails meanwhile": (
            (
                f"{_U}brake_campaigns.py::"
                "test_losses_halt_a_campaign_and_withdraw_its_announcements"
            ),
        ),
        "A host was left cordoned": (
            f"{_U}campaign_steps.py::test_a_failed_host_can_be_left_out",
            f"{_U}cordons.py::test_owner_does_not_open_the_hosts_of_others_by_mistake",
        ),
        "The outcome of a step is unknown": (
            f"{_U}visits.py::test_verify_with_an_unknown_outcome_does_not_doubt_the_work",
        ),
        "VMs must not be moved again and again": (
            (
                f"{_U}campaign_reports.py::"
                "test_moves_are_counted_per_vm_and_a_waiting_host_has_no_times"
            ),
        ),
        "Others must learn how it went": (
            (
                "tests/unit/cli/test_campaigns.py::"
                "test_report_of_a_running_campaign_in_all_forms"
            ),
            f"{_U}campaign_troubles.py::test_a_halt_is_a_problem_with_its_cause",
        ),
    },
    "run-a-campaign.md": {
        "Start": (
            f"{_U}campaign_promises.py::test_two_open_campaigns_have_different_names",
            f"{_U}campaigns.py::test_a_host_is_in_one_campaign",
            (
                f"{_U}campaign_hosts.py::"
                "test_a_rollout_that_begins_after_the_plan_keeps_its_hosts"
            ),
        ),
        "Follow": (
            (
                "tests/unit/admin/test_campaign_watch.py::"
                "test_a_viewer_gets_open_campaigns_and_their_changes"
            ),
            f"{_U}campaign_racks.py::test_rows_follow_each_host_to_its_end",
            (
                f"{_U}campaign_troubles.py::"
                "test_no_progress_for_a_day_is_a_problem_but_a_pause_and_a_soak_are_not"
            ),
            (
                f"{_U}campaign_troubles.py::"
                "test_a_host_that_fails_again_before_the_resumption_holds_its_stage"
            ),
            (
                f"{_U}campaign_troubles.py::"
                "test_a_stage_that_only_a_window_of_a_tenant_holds_for_days_is_a_problem"
            ),
        ),
        "Stages": (
            f"{_U}campaign_promises.py::test_each_stage_begins_with_one_host_in_flight",
            (
                f"{_U}campaign_approvals.py::"
                "test_an_approval_before_the_result_of_the_stage_is_refused"
            ),
            (
                f"{_U}campaign_approvals.py::"
                "test_a_halt_withdraws_the_approval_of_a_stage_that_has_not_begun"
            ),
            f"{_U}campaign_approvals.py::test_a_pause_keeps_an_approval",
            f"{_U}second_person.py::test_starter_is_refused_and_another_operator_is_not",
            f"{_U}loosened_campaigns.py::test_starter_cannot_allow_more_alone",
        ),
        "Several campaigns at once": (
            f"{_U}campaign_promises.py::test_lower_limit_of_the_service_lets_hosts_in_flight_continue",
            (
                f"{_U}shared_limit.py::"
                "test_two_campaigns_share_two_places_and_the_higher_priority_goes_first"
            ),
            f"{_U}shared_limit.py::test_a_campaign_says_which_one_goes_first",
            f"{_U}shared_limit.py::test_a_closed_window_blocks_no_other_campaign",
        ),
        "An emergency": (
            f"{_U}campaign_promises.py::test_reserve_does_not_stop_the_moves_of_an_emergency",
            f"{_U}emergency_campaigns.py::test_an_emergency_goes_before_any_priority",
            (
                f"{_U}emergency_campaigns.py::"
                "test_emergency_takes_the_hosts_of_a_routine_campaign_over"
            ),
            (
                f"{_U}emergency_campaigns.py::"
                "test_an_emergency_takes_no_blackout_and_no_hosts"
            ),
        ),
        "Work on the hosts": (
            f"{_U}visits.py::test_host_is_checked_emptied_worked_on_verified_and_opened",
            f"{_U}visits.py::test_only_a_failed_verify_can_be_repeated_alone",
        ),
        "When a host fails": (
            f"{_U}campaign_retried.py::test_a_retried_host_goes_on_and_the_others_follow",
            (
                f"{_U}campaign_budgets.py::"
                "test_a_skipped_host_keeps_its_place_and_says_which_command_frees_it"
            ),
            f"{_U}campaign_losses.py::test_a_resumed_campaign_halts_at_the_next_loss_only",
        ),
        "When a host cannot be emptied": (
            (
                f"{_U}campaign_deferrals.py::"
                "test_the_next_host_becomes_the_canary_when_the_canary_cannot_be_drained"
            ),
            (
                f"{_U}campaign_deferrals.py::"
                "test_too_many_hosts_that_cannot_be_drained_halt_the_campaign"
            ),
        ),
        "Checks": (
            f"{_U}campaign_promises.py::test_a_check_that_was_ignored_counts_again_in_the_next_stage",
            (
                f"{_U}campaign_checks.py::"
                "test_an_unknown_check_pauses_the_campaign_until_it_passes"
            ),
        ),
        "Pause and halt": (
            f"{_U}campaign_promises.py::test_all_pauses_end_together_if_that_is_wanted",
            f"{_U}campaigns.py::test_a_campaign_continues_when_the_last_of_two_resumes_it",
        ),
        "Report": (
            f"{_U}campaign_reports.py::test_a_failed_and_retried_host_has_two_attempts",
        ),
        "Change a running campaign": (
            f"{_U}campaign_promises.py::test_smaller_budget_keeps_announced_hosts_and_announces_none",
            f"{_U}campaigns.py::test_an_invalid_change_is_refused",
            (
                f"{_U}overlap_notice.py::"
                "test_after_a_smaller_overlap_the_announced_go_on_and_no_more_follow"
            ),
            (
                f"{_U}campaign_blackouts.py::"
                "test_announced_hosts_that_would_start_in_a_new_blackout_are_withdrawn"
            ),
        ),
        "Hosts that the fleet gains": (
            f"{_U}campaign_added.py::test_what_cannot_be_added_says_why",
            f"{_U}campaign_added.py::test_an_added_host_comes_last_in_the_last_stage",
        ),
        "After a restart": (
            (
                "tests/system/test_campaigns.py::"
                "test_a_killed_service_continues_its_campaign"
            ),
        ),
    },
}
"""The tests of each section, by page: `file::name`."""

_PARTS = {"Examples", "Before the start", "While it runs", "After it"}
"""Headings without text of their own."""


@pytest.mark.parametrize("page", PROOFS)
def test_every_section_has_tests(page: str) -> None:
    text = (OPERATE / page).read_text(encoding="utf-8")
    headings = re.findall(r"^###? (.*)$", text, re.MULTILINE)
    titles = [title for title in headings if title not in _PARTS]
    assert titles == list(PROOFS[page])


_TESTS = sorted(
    {name for page in PROOFS.values() for names in page.values() for name in names}
)


@pytest.mark.parametrize("proof", _TESTS)
def test_the_test_of_a_section_exists(proof: str) -> None:
    file, _, name = proof.partition("::")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    assert name in {
        statement.name for statement in tree.body if isinstance(statement, functions)
    }
