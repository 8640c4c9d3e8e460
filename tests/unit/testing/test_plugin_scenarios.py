"""Tests of scenarios in the mark of the pytest plugin."""

import pytest

from forewarn.testing.kit import world as _loaded
from tests.support import processes, programs

# A run inside this process unloads its imports; keep these for the next run.
assert all((_loaded, processes, programs))

HEAD = """
import pytest
from forewarn.testing import ScheduledEvents
from tests.support.processes import eventually
from tests.support.programs import Program
"""


def run(pytester: pytest.Pytester, text: str, *words: str) -> pytest.RunResult:
    pytester.makepyfile(HEAD + text)
    return pytester.runpytest_inprocess(
        "-p", "no:cacheprovider", "-W", "error", "--strict-markers", *words
    )


def test_failed_scenario_fails_the_test(
    pytester: pytest.Pytester,
) -> None:
    pytester.makefile(
        ".toml",
        duty="""
name = "duty"
description = "web_0 approves a reboot at once."
[[step]]
reboot = "web_0"
[[step]]
expect = { approved_by = "web_0", within = "100ms" }
[[step]]
reboot = "web_1"
""",
    )
    done = run(
        pytester,
        """
@pytest.mark.scheduled_events(scenario="duty.toml")
def test_it(scheduled_events: ScheduledEvents) -> None:
    Program(scheduled_events.vm("web_0").url).events()
    # The last step follows the expectation.
    eventually(lambda: scheduled_events.vm("web_1").events, bool)
""",
    )
    done.assert_outcomes(passed=1, errors=1)
    done.stdout.fnmatch_lines(
        [
            "scenario duty failed before its end:",
            "  web_0 did not approve * within 0.1 s (duty.toml:5)",
        ]
    )


UNTESTED = """
@pytest.mark.scheduled_events(scenario="user-reboot", clock="virtual")
def test_without_a_client(scheduled_events: ScheduledEvents) -> None:
    pass

@pytest.mark.scheduled_events(scenario="user-reboot")
def test_that_ends_too_early(scheduled_events: ScheduledEvents) -> None:
    program = Program(scheduled_events.vm("web_0").url)
    eventually(program.events, bool)

@pytest.mark.scheduled_events(scenario="user-reboot", expect="approved")
def test_that_does_not_approve(scheduled_events: ScheduledEvents) -> None:
    program = Program(scheduled_events.vm("web_0").url)
    eventually(program.events, bool)

@pytest.mark.scheduled_events(scenario="user-reboot", expect="asked")
def test_that_asks(scheduled_events: ScheduledEvents) -> None:
    program = Program(scheduled_events.vm("web_0").url)
    eventually(program.events, bool)

@pytest.mark.scheduled_events(scenario="user-reboot", expect="approved")
def test_that_approves(scheduled_events: ScheduledEvents) -> None:
    program = Program(scheduled_events.vm("web_0").url)
    eventually(program.look, bool)

@pytest.mark.scheduled_events(scenario="user-reboot", expect="none")
def test_of_nothing(scheduled_events: ScheduledEvents) -> None:
    pass
"""


def test_scenario_passes_only_if_expectations_were_met(
    pytester: pytest.Pytester,
) -> None:
    done = run(pytester, UNTESTED, "-p", "no:randomly")
    done.assert_outcomes(passed=6, errors=3)
    done.stdout.fnmatch_lines(
        [
            "scenario user-reboot is not finished and still expects:",
            "  a client asks for its events",
            "hint: Give the client its VM's address or use expect='none'.",
            "scenario user-reboot is not finished and still expects:",
            "  client web_0 approves each event that names it before NotBefore",
            "  client web_0 asks again after its events",
            "hint: *wait_for_scenario*",
            "scenario user-reboot is not finished and still expects:",
            "  client web_0 approves each event that names it before NotBefore",
        ]
    )
