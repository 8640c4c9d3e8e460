"""Each demand on a client: met, missed, and its sentence."""

import pytest

from forewarn.metadata.http import Request
from forewarn.sim.journal import JournalEntry
from forewarn.sim.scenario.model import OTHERS, Outcome
from forewarn.sim.sim_server import SimServer
from forewarn.sim.virtual_client import VirtualClient
from tests.support.played import ClientAction, approve, run, scenario, sentences


def one(
    demand: str,
    *,
    step: str = 'reboot = "web_0"',
    actions: dict[int, ClientAction] | None = None,
    more: str = "",
    asked: tuple[str, ...] = ("web_0",),
) -> tuple[Outcome, str]:
    """Return the verdict on one demand on web_0."""
    text = f'[[client]]\nvm = "web_0"\n{demand}\n{more}\n[[step]]\n{step}\n'
    [result] = run(scenario(text), actions=actions, asked=asked)
    findings = [
        finding for finding in result.findings if "for its events" not in finding.what
    ]
    return findings[-1].outcome, findings[-1].sentence


def asks(vm: str = "web_0") -> ClientAction:
    return lambda stage: VirtualClient(stage, vm).get()


ID = "7C65C1E5-82E2-4662-B728-B4FA42485E3A"
MORNING = "2030-01-01T00:"


def test_approval_in_time_is_reported_with_its_time() -> None:
    assert one("approves = true", actions={7: approve("web_0")}) == (
        Outcome.PASSED,
        "web_0 approved e1 (Reboot of web_0) after 7 s",
    )


def test_missing_approval_is_reported_with_deadline_and_last_request() -> None:
    assert one("approves = true", actions={5: asks()}) == (
        Outcome.FAILED,
        (
            f"web_0 did not approve e1 (Reboot of web_0, EventId {ID}) in time: expected an "
            f"approval before NotBefore, {MORNING}15:00.000Z; it started at "
            f"{MORNING}15:00.000Z; web_0 asked last at {MORNING}00:05.000Z"
        ),
    )


def test_refused_approval_is_reported() -> None:
    def refused(stage: SimServer) -> None:
        VirtualClient(stage, "web_0").approve("00000000-0000-4000-8000-000000000000")

    _, told = one("approves = true", actions={5: refused})
    assert told.endswith(f"and its last approval, at {MORNING}00:05.000Z, got 400")


def test_approval_by_another_vm_of_the_event_is_enough() -> None:
    step = 'event = { type = "Reboot", vms = ["web_0", "web_1"], notice = "15m" }'
    fleet = "[fleet]\ntogether = true\n"
    outcome, told = one(
        "approves = true", step=step, more=fleet, actions={4: approve("web_1")}
    )
    assert outcome is Outcome.PASSED
    assert told == "web_1 approved e1 (Reboot of web_0, web_1) after 4 s"


def test_approval_by_a_vm_that_the_event_omits_does_not_count() -> None:
    outcome, told = one("approves = true", actions={4: approve("web_1")})
    assert outcome is Outcome.FAILED
    assert "approved by web_1, which it does not name; web_0 asked last" in told


def test_operator_approval_does_not_count_for_the_client() -> None:
    more = '[[step]]\nafter = "2s"\napprove = "e1"\n'
    text = (
        f'[[client]]\nvm = "web_0"\napproves = true\n[[step]]\nreboot = "web_0"\n{more}'
    )
    [result] = run(scenario(text))
    [failure] = result.failures
    assert f"it started at {MORNING}00:02.000Z, approved by (scenario)" in (
        failure.sentence
    )


def test_client_that_asks_too_late_could_not_approve() -> None:
    outcome, told = one("approves = true", asked=(), actions={1: asks()})
    assert outcome is Outcome.FAILED
    assert told == (
        f"web_0 could not approve e1 (Reboot of web_0, EventId {ID}): web_0 had not "
        "asked for events, so e1 started at once (7.4)"
    )


def test_approval_of_a_cancelled_event_is_too_late() -> None:
    text = (
        '[[client]]\nvm = "web_0"\napproves = true\n[[step]]\nreboot = "web_0"\n'
        '[[step]]\nafter = "1m"\ncancel = "e1"\n'
    )
    [result] = run(scenario(text))
    [failure] = result.failures
    assert f"it was cancelled at {MORNING}01:00.000Z" in failure.sentence


def test_approval_demand_without_a_waiting_event_fails() -> None:
    assert one("approves = true", step='say = "nothing"') == (
        Outcome.FAILED,
        "no event that names web_0 waited for an approval",
    )


def test_withheld_approval_counts_for_the_client() -> None:
    text = (
        '[[client]]\nvm = "web_0"\napproves = true\n'
        '[[step]]\nwithhold = "web_0"\n[[step]]\nreboot = "web_0"\n'
    )
    [result] = run(scenario(text), actions={3: approve("web_0")})
    assert result.passed


def test_status_seen_by_a_client_is_reported_with_its_time() -> None:
    demand = 'sees = "Started"'
    assert one(demand, actions={903: asks()}) == (
        Outcome.PASSED,
        "web_0 saw e1 (Reboot of web_0) Started after 3 s",
    )
    assert one(demand, actions={899: asks()}) == (
        Outcome.FAILED,
        (
            f"web_0 did not see e1 (Reboot of web_0, EventId {ID}) while it was Started: "
            f"expected that it asks at that time; it asked last at {MORNING}14:59.000Z"
        ),
    )


def test_document_with_a_fault_does_not_count_as_seen() -> None:
    def spoiled(stage: SimServer) -> None:
        stage.journal.add(
            JournalEntry(
                number=stage.journal.last + 1,
                at=stage.engine.now,
                vm="web_0",
                address="127.0.0.1",
                request=Request(method="GET", path="/metadata/scheduledevents"),
                status=200,
                genuine=200,
                fault="truncated",
                deviations=(),
                approved=(),
            )
        )

    demand = 'sees = "Started"'
    assert one(demand, actions={903: spoiled})[0] is Outcome.FAILED


def test_ignoring_unseen_events_of_others_is_not_judged() -> None:
    assert one("ignores_others = true") == (
        Outcome.SKIPPED,
        "web_0 was shown no event of another VM",
    )
    step = 'reboot = "web_1"'
    demand = "ignores_others = true"
    assert one(demand, step=step, actions={5: asks()}) == (
        Outcome.PASSED,
        "web_0 did not approve e1 (Reboot of web_1)",
    )
    actions: dict[int, ClientAction] = {5: asks(), 6: approve("web_0")}
    assert one(demand, step=step, actions=actions) == (
        Outcome.FAILED,
        (
            f"web_0 approved e1 (Reboot of web_1, EventId {ID}) at {MORNING}00:06.000Z; "
            "expected that it would not, since the event does not name it"
        ),
    )


def test_client_must_poll_again_within_its_time() -> None:
    # It is removed after 15 m of notice, 1 m of impact and 10 m of recovery.
    gone = (15 + 1 + 10) * 60
    assert one("comes_back = true", actions={gone + 14: asks()}) == (
        Outcome.PASSED,
        "web_0 asked again after e1 (Reboot of web_0) was removed",
    )
    late = (
        Outcome.FAILED,
        (
            f"web_0 did not ask again after e1 (Reboot of web_0, EventId {ID}) was removed at "
            f"{MORNING}26:00.000Z: expected it within 15 s; it asked last at "
            f"{MORNING}00:00.000Z"
        ),
    )
    assert one("comes_back = true", actions={gone + 16: asks()}) == late
    assert one('comes_back = "20s"', actions={gone + 16: asks()})[0] is Outcome.PASSED


def test_client_of_a_deleted_vm_cannot_poll_again() -> None:
    outcome, told = one("comes_back = true", step='terminate = "web_0"')
    assert outcome is Outcome.FAILED
    assert told.endswith("and was deleted")


def test_polling_does_not_count_as_return_while_an_event_is_shown() -> None:
    outcome, told = one("comes_back = true", step='fail = "h0"')
    assert outcome is Outcome.FAILED
    assert "is still shown to web_0" in told


def test_optional_client_is_judged_from_its_first_request() -> None:
    text = (
        '[[client]]\nvm = "web_0"\n'
        '[[client]]\nvm = "web_1"\noptional = true\napproves = true\n'
        '[[step]]\nreboot = "web_1"\n'
        '[[step]]\nat = "30m"\nreboot = "web_1"\n'
    )
    [absent] = run(scenario(text))
    assert absent.passed
    assert absent.findings[-1].sentence == (
        "no client asked for the events of web_1; it is not judged"
    )
    polls_and_approves: dict[int, ClientAction] = {
        60: asks("web_1"),
        1810: approve("web_1"),
    }
    [approving] = run(scenario(text), actions=polls_and_approves)
    assert approving.passed, sentences(approving)
    [polling_only] = run(scenario(text), actions={60: asks("web_1")})
    [failure] = polling_only.failures
    assert failure.sentence.startswith("web_1 did not approve e2")


@pytest.mark.parametrize(
    "demand", ["approves = true", "comes_back = true", 'sees = "Started"']
)
def test_optional_client_that_polls_after_its_events_is_not_judged(
    demand: str,
) -> None:
    """It may start a moment after the first client, whose request started the scenario."""
    text = (
        '[[client]]\nvm = "web_0"\n'
        f'[[client]]\nvm = "web_1"\noptional = true\n{demand}\n'
        '[[step]]\nreboot = "web_1"\n'
    )
    [late] = run(scenario(text), actions={60: asks("web_1")})
    assert late.passed, sentences(late)
    assert late.findings[-1].outcome is Outcome.SKIPPED
    assert late.findings[-1].sentence == (
        f"web_1 first asked at {MORNING}01:00.000Z, "
        "after e1 (Reboot of web_1) was created"
    )
    [named] = run(
        scenario(text.replace('reboot = "web_1"', 'reboot = "web_0"')),
        actions={60: asks("web_1")},
    )
    assert not named.passed, "no event of the scenario names web_1: its file is wrong"


def test_missing_required_client_fails_although_another_polled() -> None:
    text = (
        '[[client]]\nvm = "web_0"\n[[client]]\nvm = "web_1"\n'
        '[[step]]\nreboot = "web_1"\n'
    )
    [result] = run(scenario(text))
    [failure] = result.failures
    assert failure.outcome is Outcome.ERROR
    assert failure.sentence == "no client asked for the events of web_1"


def test_other_vms_are_judged_if_they_poll() -> None:
    text = (
        f'[[client]]\nvm = "web_0"\n[[client]]\nvm = "{OTHERS}"\nignores_others = true\n'
        '[[step]]\nreboot = "web_0"\n'
    )
    [alone] = run(scenario(text))
    assert [finding.what for finding in alone.findings] == [
        "client web_0 asks for its events"
    ]
    actions: dict[int, ClientAction] = {3: asks("web_2"), 4: approve("web_1")}
    [result] = run(scenario(text), actions=actions, asked=("web_0", "web_1"))
    assert [
        (finding.outcome, finding.what.split()[1]) for finding in result.findings
    ] == [
        (Outcome.PASSED, "web_0"),
        (Outcome.FAILED, "web_1"),
        (Outcome.PASSED, "web_2"),
    ]


def test_refused_client_is_reported_with_its_status() -> None:
    def refused(stage: SimServer) -> None:
        stage.journal.add(
            JournalEntry(
                number=stage.journal.last + 1,
                at=stage.engine.now,
                vm="web_0",
                address="127.0.0.1",
                request=Request(method="GET", path="/metadata/scheduledevents"),
                status=400,
                genuine=400,
                fault="",
                deviations=(),
                approved=(),
            )
        )

    text = '[[client]]\nvm = "web_0"\n[[step]]\nreboot = "web_0"\n'
    [result] = run(scenario(text), asked=(), actions={2: refused})
    [failure] = result.failures
    assert failure.sentence == (
        "no client asked for the events of web_0, so none was tested: its last "
        f"request, GET /metadata/scheduledevents at {MORNING}00:02.000Z, got 400"
    )
