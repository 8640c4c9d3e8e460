"""Tests of the end of a test with a world: failures and reports."""

import pytest

from forewarn.testing.kit import world as _loaded
from tests.support import processes, programs
from tests.support.inner_runs import run

# A run inside this process unloads its imports; keep these for the next run.
assert all((_loaded, processes, programs))

STRICT = """
pytestmark = pytest.mark.scheduled_events(profile="strict", clock="virtual")

def hurry(world: ScheduledEvents) -> None:
    for _ in range(7):
        Program(world.vm("web_0").url).events()

def test_that_hurries(scheduled_events: ScheduledEvents) -> None:
    hurry(scheduled_events)

@pytest.mark.scheduled_events(but="too-often")
def test_that_may_hurry(scheduled_events: ScheduledEvents) -> None:
    hurry(scheduled_events)

@pytest.mark.scheduled_events(but=["too-often", "path"])
def test_that_may_not_do_this(scheduled_events: ScheduledEvents) -> None:
    Program(scheduled_events.vm("web_0").url)._client.ask("GET", "/metadata/x/")
    Program(scheduled_events.vm("web_0").url)._client.ask("GET", "/METADATA/instance")

def test_that_has_failed(scheduled_events: ScheduledEvents) -> None:
    hurry(scheduled_events)
    assert not scheduled_events.deviations

@pytest.mark.xfail
def test_that_is_known_to_fail(scheduled_events: ScheduledEvents) -> None:
    hurry(scheduled_events)
    raise ZeroDivisionError

def test_that_is_skipped(scheduled_events: ScheduledEvents) -> None:
    hurry(scheduled_events)
    pytest.skip("not here")

@pytest.mark.scheduled_events(but="often")
def test_of_an_unknown_rule(scheduled_events: ScheduledEvents) -> None:
    pass
"""


def test_strict_world_fails_only_passed_tests(pytester: pytest.Pytester) -> None:
    done = run(pytester, STRICT, "-p", "no:randomly", "-rA")
    done.assert_outcomes(passed=3, failed=1, xfailed=1, skipped=1, errors=3)
    done.stdout.fnmatch_lines(
        [
            "*ERROR at teardown of test_that_hurries*",
            "clients deviated from the protocol:",
            "  web_0: More than 5 requests within a second (1.9)",
            "*ERROR at teardown of test_that_may_not_do_this*",
            "  web_0: api-version is missing, repeated or unknown (1.3)",
            "*ERROR at setup of test_of_an_unknown_rule*",
            'there is no rule "often" (did you mean "too-often"[?]); known: http, *',
        ]
    )


def test_report_contains_the_hint(pytester: pytest.Pytester) -> None:
    done = run(
        pytester,
        """
def test_it(scheduled_events: ScheduledEvents) -> None:
    scheduled_events.close()
    scheduled_events.vm("web_0").reboot()

def test_a_file(scheduled_events: ScheduledEvents) -> None:
    scheduled_events.faults.load("faults.toml")
""",
    )
    done.assert_outcomes(failed=2)
    done.stdout.fnmatch_lines(
        [
            "E *RefusedError: this world is closed",
            "E *hint: Use the world before its `with` block or its test ends.",
            "E *FileNotFoundError: * No such file or directory: 'faults.toml'",
            "E *hint: 'faults.toml' is relative to *",
        ]
    )


def test_a_test_that_closes_its_world_is_judged(pytester: pytest.Pytester) -> None:
    done = run(
        pytester,
        """
@pytest.mark.scheduled_events(scenario="spot-preemption", expect="approved")
def test_it(scheduled_events: ScheduledEvents) -> None:
    scheduled_events.close()

@pytest.mark.scheduled_events(scenario="spot-preemption")
def test_of_something_else(scheduled_events: ScheduledEvents) -> None:
    scheduled_events.close(judge=False)
""",
    )
    done.assert_outcomes(failed=1, passed=1)
    done.stdout.fnmatch_lines(["E *a client asks for its events*"])


def test_a_mark_without_the_fixture_fails(pytester: pytest.Pytester) -> None:
    done = run(
        pytester,
        """
@pytest.mark.scheduled_events(scenario="spot-preemption", expect="approved")
def test_that_forgot() -> None:
    pass

@pytest.mark.scheduled_events(vms=1)
def test_that_asks_as_it_runs(request: pytest.FixtureRequest) -> None:
    assert len(request.getfixturevalue("scheduled_events").vms) == 1

@pytest.mark.scheduled_events(scenaro="spot-preemption")
def test_that_is_misspelt() -> None:
    pass

@pytest.mark.scheduled_events(vms=2)
class TestOfARule:
    def test_without(self) -> None:
        pass

    def test_with(self, scheduled_events: ScheduledEvents) -> None:
        assert len(scheduled_events.vms) == 2

@pytest.mark.scheduled_events(vsm=2)
class TestOfARuleThatCannotBe:
    def test_without(self) -> None:
        pass
""",
    )
    done.assert_outcomes(failed=1, errors=2, passed=3)
    done.stdout.fnmatch_lines_random(
        [
            "*the mark scheduled_events has no effect without the fixture scheduled_events*",
            "hint: def test_that_forgot(scheduled_events)",
            "*the mark scheduled_events has no 'scenaro'*",
            "*the mark scheduled_events has no 'vsm'*",
        ]
    )


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        ("expect='approved'", "expect has no effect without a scenario or a replay"),
        ("expect='scenario'", "expect has no effect without a scenario or a replay"),
        ("scenario=''", "scenario is empty, so nothing would be judged"),
        ("replay='', expect='asked'", "replay is empty, so nothing would be judged"),
    ],
)
def test_mark_without_anything_to_judge_is_refused(
    pytester: pytest.Pytester, mark: str, said: str
) -> None:
    done = run(
        pytester,
        f"""
@pytest.mark.scheduled_events({mark})
def test_it(scheduled_events: ScheduledEvents) -> None:
    pass
""",
    )
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines([f"*{said}*"])
