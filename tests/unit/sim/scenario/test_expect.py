"""Expectations: met, not met, and the sentence of each."""

import pytest

from tests.support.played import approve, asks, one, run, scenario, sentences


def test_expected_approval_is_reported_with_its_time() -> None:
    assert one('approved = true, within = "30s"', actions={12: approve("web_0")}) == (
        True,
        "web_0 approved e1 after 12 s",
    )
    assert one(
        'approved_by = "web_0", within = "30s"', actions={3: approve("web_0")}
    ) == (
        True,
        "web_0 approved e1 after 3 s",
    )


@pytest.mark.parametrize(
    ("expectation", "told"),
    [
        ('approved = true, within = "30s"', "no client approved e1 within 30 s"),
        (
            'approved_by = "web_0", within = "30s"',
            "web_0 did not approve e1 within 30 s",
        ),
        (
            'approved_by = "web_0", within = "20m"',
            "web_0 had not approved e1 when it started, after 15 m",
        ),
    ],
)
def test_missing_approval_is_a_failure(expectation: str, told: str) -> None:
    assert one(expectation) == (False, told)


def test_approval_by_another_vm_does_not_meet_the_expectation() -> None:
    assert one(
        'approved_by = "web_1", within = "5m"', actions={3: approve("web_0")}
    ) == (
        False,
        "web_0 approved e1 after 3 s; expected web_1",
    )


def test_cancelled_event_can_no_longer_be_approved() -> None:
    assert one(
        'approved = true, within = "5m", event = "e1"',
        more='[[step]]\nafter = "1m"\ncancel = "e1"',
    ) == (False, "no client had approved e1 when it was cancelled, after 1 m")


def test_absence_of_an_approval_can_be_expected() -> None:
    nobody = (True, "no client approved e1")
    assert one('not_approved = true, within = "30s"') == nobody
    assert one('not_approved = true, within = "20m"') == nobody
    assert one(
        'not_approved = "web_1", within = "1m"', actions={3: approve("web_0")}
    ) == (
        True,
        "web_1 did not approve e1",
    )
    assert one('not_approved = true, within = "1m"', actions={3: approve("web_0")}) == (
        False,
        "web_0 approved e1 after 3 s; expected none",
    )
    assert one(
        'not_approved = "web_0", within = "1m"', actions={3: approve("web_0")}
    ) == (
        False,
        "web_0 approved e1 after 3 s; expected that it would not",
    )


def test_approval_by_policy_is_not_a_client_approval() -> None:
    """Without enabled events, a restart is approved by itself (7.4)."""
    assert one(
        'not_approved = true, within = "1m"',
        step='reboot = "db_0"',
        fleet=(
            '[[fleet.tenant]]\nname = "shop"\n[[fleet.host]]\nname = "h0"\n'
            '[[fleet.vm]]\nname = "web_0"\nhost = "h0"\n'
            '[[fleet.vm]]\nname = "db_0"\nhost = "h0"\n'
        ),
    ) == (True, "no client approved e1")


@pytest.mark.parametrize(
    ("step", "scope", "told"),
    [
        (
            'reboot = "db_0"',
            "",
            "not judged: db_0 had not asked for events, so e1 started at once (7.4)",
        ),
        (
            'fail = "h0"',
            "",
            "e1 is a failure, which does not wait for an approval (5.5)",
        ),
        (
            'reboot = "web_0"',
            "approve_user_reboot = true",
            "the policy of scope one approved e1 (5.3)",
        ),
    ],
)
def test_event_that_did_not_wait_is_reported_with_its_reason(
    step: str, scope: str, told: str
) -> None:
    vm = "web_0" if scope else "db_0"
    assert one(
        f'approved_by = "{vm}", within = "1m"',
        step=step,
        fleet=(
            '[[fleet.tenant]]\nname = "shop"\n[[fleet.host]]\nname = "h0"\n'
            f'[[fleet.scope]]\nname = "one"\nkind = "standalone"\ntenant = "shop"\n'
            f"{scope}\n"
            '[[fleet.vm]]\nname = "web_0"\nhost = "h0"\nscope = "one"\n'
            '[[fleet.vm]]\nname = "db_0"\nhost = "h0"\n'
        ),
    ) == (False, f"{told}; expected an approval by {vm}")


@pytest.mark.parametrize(
    ("expectation", "passed", "told"),
    [
        ('status = "Scheduled", within = "1s"', True, "e1 was Scheduled after 0 s"),
        ('status = "Started", within = "16m"', True, "e1 was Started after 15 m"),
        ('status = "Removed", within = "1h"', True, "e1 was Removed after 25 m 7 s"),
        (
            'status = "Started", within = "5m"',
            False,
            "e1 is Scheduled, not Started, within 5 m",
        ),
        (
            'status = "Cancelled", within = "1h"',
            False,
            "e1 started; expected it to be Cancelled",
        ),
        ('recovered = true, within = "1h"', True, "web_0 runs again after 25 m 7 s"),
        (
            'recovered = "web_0", within = "20m"',
            False,
            "web_0 does not run within 20 m",
        ),
        (
            'recovered = "web_0", within = "5m"',
            False,
            "e1 is still shown within 5 m",
        ),
        ('shown_to = ["web_0", "web_2"]', True, "e1 is shown to web_0, web_2"),
        ('hidden_from = "web_1"', False, "e1 is shown to web_1; expected not"),
    ],
)
def test_platform_changes_can_be_expected(
    expectation: str, passed: bool, told: str
) -> None:
    assert one(expectation) == (passed, told)


def test_event_visibility_can_be_expected() -> None:
    fleet = (
        '[[fleet.tenant]]\nname = "shop"\n[[fleet.host]]\nname = "h0"\n'
        '[[fleet.host]]\nname = "h1"\n'
        '[[fleet.vm]]\nname = "web_0"\nhost = "h0"\n'
        '[[fleet.vm]]\nname = "db_0"\nhost = "h1"\n'
    )
    assert one('hidden_from = "db_0", within = "1m"', fleet=fleet) == (
        True,
        "e1 is hidden from db_0",
    )
    assert one('shown_to = "db_0", within = "1m"', fleet=fleet) == (
        False,
        "e1 is not shown to db_0",
    )


def test_event_that_started_at_once_was_not_scheduled() -> None:
    step = 'event = { type = "Freeze", vms = "web_0", notice = "0s" }'
    assert one('status = "Scheduled", within = "1h"', step=step) == (
        False,
        "e1 started; expected it to be Scheduled",
    )


def test_cancelled_event_never_starts() -> None:
    cancelled = '[[step]]\nafter = "1m"\ncancel = "e1"'
    assert one('status = "Started", within = "1h"', more=cancelled) == (
        False,
        "e1 was cancelled; expected it to be Started",
    )
    assert one('status = "Cancelled", within = "1h"', more=cancelled) == (
        True,
        "e1 was Cancelled after 1 m",
    )


def test_deleted_vm_does_not_recover() -> None:
    step = 'event = { type = "Preempt", vms = "web_0", notice = "30s" }'
    assert one('recovered = true, within = "1h"', step=step) == (
        False,
        "web_0 was deleted; expected it to run again",
    )


@pytest.mark.parametrize(
    ("expectation", "seconds", "passed", "told"),
    [
        ('polled_by = "web_0", within = "5s"', [2], True, "web_0 asked after 2 s"),
        ('polled_by = "web_1", within = "5s"', [2], False, "web_1 did not ask within 5 s"),
        ('seen_by = "web_0", within = "5s"', [4], True, "web_0 saw e1 after 4 s"),
        ('seen_by = "web_0", as = "Started", within = "20m"', [901], True, "web_0 saw e1 Started after 1 s"),
        ('seen_by = "web_0", as = "Scheduled", within = "20m"', [901], False, "web_0 did not see e1 Scheduled while it was shown"),
        ('seen_by = "web_1", within = "5s"', [4], False, "web_1 did not see e1 within 5 s"),
        ("no_deviation = true", [1], True, "no deviation from the protocol was seen"),
    ],
)  # fmt: skip
def test_client_requests_are_found_in_the_journal(
    expectation: str, seconds: list[int], passed: bool, told: str
) -> None:
    assert one(expectation, actions=asks(*seconds), asked=()) == (passed, told)


def test_response_with_an_error_does_not_count_as_a_poll() -> None:
    spoilt = asks(1, fault="500 x2")
    assert (
        one('polled_by = "web_0", within = "5s"', actions=spoilt, asked=())[0] is False
    )
    late = asks(1, fault="delay 3s")
    assert one('polled_by = "web_0", within = "5s"', actions=late, asked=())[0] is True


def test_deviations_are_reported() -> None:
    actions = asks(1, deviations=["header"])
    passed, told = one('no_deviation = "web_0", within = "1m"', actions=actions)
    assert not passed
    assert told.startswith("1 deviation from the protocol: web_0: `Metadata: true`")


def test_request_that_starts_a_scenario_counts_for_its_first_step() -> None:
    step = '[[step]]\nexpect = { polled_by = "web_0", within = "20s" }\n'
    [asks_once] = asks(0).values()
    [first] = run(scenario(step), before=[asks_once], asked=())
    assert sentences(first)[0] == (True, "web_0 asked after 0 s")
    # After any other step or wait, a new request is needed.
    for later in ('[[step]]\nsay = "hello"\n' + step, step + 'after = "1s"\n'):
        [result] = run(scenario(later), before=[asks_once], asked=())
        assert sentences(result)[0] == (False, "web_0 did not ask within 20 s")


def test_deviation_in_the_request_that_starts_a_scenario_is_found() -> None:
    step = '[[step]]\nexpect = { no_deviation = true, within = "5s" }\n'
    [spoilt] = asks(0, deviations=["header"]).values()
    [result] = run(scenario(step), before=[spoilt])
    passed, told = sentences(result)[0]
    assert not passed
    assert told.startswith("1 deviation from the protocol: web_0: `Metadata: true`")
