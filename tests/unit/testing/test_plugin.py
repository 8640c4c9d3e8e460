"""Tests of the pytest plugin in test runs of a developer."""

import re
import sys
from pathlib import Path

import pytest

from forewarn.testing.kit import world as _loaded
from tests.support import processes, programs, recordings
from tests.support.inner_runs import HEAD, run

# A run inside this process unloads its imports; keep these for the next run.
assert all((_loaded, processes, programs, recordings))

GOLDEN = Path(__file__).parents[2] / "golden" / "testing"

# If one of these is set, pytest prints longer comparisons.
ON_CI = ("CI", "BUILD_NUMBER")


def test_five_line_test_passes(pytester: pytest.Pytester) -> None:
    done = run(
        pytester,
        """
def test_it_approves(scheduled_events: ScheduledEvents) -> None:
    vm = scheduled_events.vm("web_0")
    with Program(os.environ["FOREWARN_ENDPOINT"]).running():
        vm.preempt().wait_for_approval()
    assert os.environ["FOREWARN_ENDPOINT"] == vm.url

def test_it_is_another_world(scheduled_events: ScheduledEvents) -> None:
    assert scheduled_events.events == scheduled_events.journal == []

def test_afterwards_nothing_is_left() -> None:
    assert "FOREWARN_ENDPOINT" not in os.environ
""",
    )
    done.assert_outcomes(passed=3)


def test_mark_configures_the_world(pytester: pytest.Pytester) -> None:
    recordings.write(pytester.path / "life.jsonl", recordings.life())
    done = run(
        pytester,
        """
pytestmark = pytest.mark.scheduled_events(vms=5, clock="virtual")

def test_of_the_module(scheduled_events: ScheduledEvents) -> None:
    assert len(scheduled_events.vms) == 5

@pytest.mark.scheduled_events(vms=2, together=True)
def test_of_its_own(scheduled_events: ScheduledEvents) -> None:
    [event] = scheduled_events.maintain("h0", impact="freeze")
    assert event.vms == ("web_0", "web_1")
    scheduled_events.advance("15m")
    event.assert_status("Started")

@pytest.mark.scheduled_events(scenario="user-reboot")
def test_of_a_scenario(scheduled_events: ScheduledEvents) -> None:
    with Program(scheduled_events.vm("web_0").url).running():
        assert scheduled_events.wait_for_scenario().passed

@pytest.mark.scheduled_events(4)
def test_of_so_many(scheduled_events: ScheduledEvents) -> None:
    assert len(scheduled_events.vms) == 4

@pytest.mark.parametrize("scheduled_events", [{"vms": 1}], indirect=True)
@pytest.mark.scheduled_events(vms=2)
def test_of_a_parameter(scheduled_events: ScheduledEvents) -> None:
    assert len(scheduled_events.vms) == 1

@pytest.mark.scheduled_events(replay="life.jsonl", clock="virtual")
def test_of_a_recording(scheduled_events: ScheduledEvents) -> None:
    scheduled_events.advance("10s")
    [event] = scheduled_events.events
    Program(os.environ["FOREWARN_ENDPOINT"]).look()
    event.assert_approved("web_0")

@pytest.mark.scheduled_events(faults="500 x1")
def test_of_faults(scheduled_events: ScheduledEvents) -> None:
    with Program(scheduled_events.vm("web_0").url).running():
        scheduled_events.vm("web_0").wait_for_requests(2)
    assert scheduled_events.journal[0].status == 500
""",
    )
    done.assert_outcomes(passed=7)


@pytest.mark.parametrize(
    "mark", ["vms=0", "'5'", "5, 6", "5, vms=6", "nothing=1", "clock='sun'"]
)
def test_invalid_mark_is_reported(pytester: pytest.Pytester, mark: str) -> None:
    done = run(
        pytester,
        f"""
@pytest.mark.scheduled_events({mark})
def test_it(scheduled_events: ScheduledEvents) -> None:
    pass
""",
    )
    done.assert_outcomes(errors=1)
    wanted = {
        "vms=0": "1 to 10000 VMs",
        "'5'": "vms must be a whole number, not '5'",
        "5, 6": "only vms needs no name",
        "5, vms=6": "only vms needs no name",
        "nothing=1": "the mark scheduled_events has no 'nothing'; it has vms, *",
        "clock='sun'": "clock must be *, not 'sun'",
    }
    done.stdout.fnmatch_lines([f"*{wanted[mark]}*"])


FAILURES = """
pytestmark = pytest.mark.scheduled_events(clock="virtual", seed=0)

def test_it_must_not_approve(scheduled_events: ScheduledEvents) -> None:
    vm = scheduled_events.vm("web_0")
    event = vm.preempt()
    scheduled_events.advance("3s")
    Program(vm.url).look()
    event.assert_not_approved()

def test_it_must_approve(scheduled_events: ScheduledEvents) -> None:
    event = scheduled_events.vm("web_1").freeze()
    event.wait_for_approval(timeout=0.01)

def test_it_must_have_started(scheduled_events: ScheduledEvents) -> None:
    [first] = scheduled_events.maintain("h0", impact="reboot")
    [second] = scheduled_events.maintain("h1", impact="reboot")
    first.start()
    second.wait_until("Started", timeout=0.01)

def test_it_must_ask(scheduled_events: ScheduledEvents) -> None:
    scheduled_events.vm("web_2").assert_asked(at_least=2)

def test_it_fails_by_itself(scheduled_events: ScheduledEvents) -> None:
    vm = scheduled_events.vm("web_0")
    vm.fault("500 x1")
    vm.terminate()
    Program(vm.url)._client.ask("GET", "/metadata/scheduledevents")
    assert vm.requests == []

@pytest.mark.scheduled_events(profile="strict")
def test_it_must_keep_the_protocol(scheduled_events: ScheduledEvents) -> None:
    Program(scheduled_events.vm("web_0").url)._client.ask("GET", "/metadata/x")
"""


def test_failure_message_has_events_and_requests(
    pytester: pytest.Pytester,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ON_CI:
        monkeypatch.delenv(name, raising=False)
    done = run(pytester, FAILURES, "-p", "no:randomly", "-p", "no:xdist")
    done.assert_outcomes(failed=5, passed=1, errors=1)
    message = _told(done.outlines)
    golden = GOLDEN / "failures.txt"
    if request.config.getoption("--rewrite"):
        golden.write_text(message, encoding="utf-8")
    assert message == golden.read_text(encoding="utf-8")


def _told(lines: list[str]) -> str:
    """Return the output of a run without the parts that differ between runs."""
    lines_kept: list[str] = []
    in_section = False
    for line in lines:
        if re.match(r"_{3,} .* _{3,}$", line):
            lines_kept += ["", line.strip("_ ")]
            # Errors outside a test's code have only a message.
            in_section = line.strip("_ ").startswith("ERROR")
        elif re.match(r"-{3,} .* -{3,}$", line):
            in_section = "Scheduled Events" in line
            lines_kept += [line.strip("- ")] if in_section else []
        elif line.startswith(("====", "____")):
            in_section = False
        elif in_section or line.startswith(("E  ", ">")):
            lines_kept.append(line.replace("    ", "  ", 1))
    text = "\n".join(lines_kept).strip() + "\n"
    return re.sub(r"127\.0\.0\.1:\d+|at 0x[0-9a-f]+", "...", text)


BAD_MARKS = """
@pytest.mark.scheduled_events(vsm=5)
def test_a_key(scheduled_events: ScheduledEvents) -> None:
    pass

@pytest.mark.scheduled_events(scenario="spot-premption")
def test_a_name(scheduled_events: ScheduledEvents) -> None:
    pass

@pytest.mark.scheduled_events(fleet=3)
def test_a_form(scheduled_events: ScheduledEvents) -> None:
    pass

@pytest.mark.scheduled_events(settings={"timing.recovery": 60})
def test_a_setting(scheduled_events: ScheduledEvents) -> None:
    pass

@pytest.mark.scheduled_events(fleet=Path("/nowhere/fleet.toml"))
def test_a_file(scheduled_events: ScheduledEvents) -> None:
    pass

@pytest.mark.scheduled_events(vms=5, scenario="spot-preemption")
def test_two_fleets(scheduled_events: ScheduledEvents) -> None:
    pass
"""


def test_wrong_mark_is_reported_without_traceback(pytester: pytest.Pytester) -> None:
    done = run(pytester, BAD_MARKS, "-p", "no:randomly")
    done.assert_outcomes(errors=6)
    done.stdout.fnmatch_lines(
        [
            "the mark * has no 'vsm' (did you mean \"vms\"[?]); it has vms, together, *",
            'scenario "spot-premption" does not exist (did you mean "spot-preemption"?)',
            "hint: *--list*",
            "fleet must be the text of a fleet file, or a Path, not 3",
            "settings must be a dictionary of texts, such as *",
            "cannot read a file of the mark scheduled_events: *No such file*",
            "spot-preemption has its own fleet, so vms has no effect",
            "hint: *",
        ]
    )
    done.stdout.no_fnmatch_line("*testing/plugin.py*")


def test_failed_test_with_a_closed_world_is_reported(pytester: pytest.Pytester) -> None:
    done = run(
        pytester,
        """
def test_it(scheduled_events: ScheduledEvents) -> None:
    event = scheduled_events.vm("web_0").reboot()
    scheduled_events.close()
    with pytest.raises(Exception, match="this world is closed"):
        event.wait_for_approval()
    assert repr(event) == "<Event>"
""",
    )
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*<Event *of a closed world>*"])
    done.stdout.no_fnmatch_line("*INTERNALERROR*")


def test_traceback_shows_only_lines_of_the_test(pytester: pytest.Pytester) -> None:
    done = run(pytester, FAILURES, "-k", "must_approve")
    assert "concurrent" not in done.stdout.str()
    assert "kit/core.py" not in done.stdout.str()


ASYNC = """
import anyio.from_thread
import anyio.to_thread
import asyncio

@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"

@pytest.mark.anyio
async def test_the_loop_stays_free(scheduled_events: ScheduledEvents) -> None:
    vm = scheduled_events.vm("web_0")
    event = vm.freeze()

    async def service() -> None:
        while not await anyio.to_thread.run_sync(Program(vm.url).look):
            await asyncio.sleep(0)

    working = asyncio.create_task(service())
    assert (await event.aio.wait_for_approval()).by == "web_0"
    await event.aio.wait_until("Started")
    await working
    waiting = asyncio.create_task(vm.aio.wait_for_requests())
    await asyncio.sleep(0)
    await anyio.to_thread.run_sync(Program(vm.url).look)
    assert len(await waiting) == 1
    await scheduled_events.vm("web_1").reboot().aio.assert_not_approved()

@pytest.mark.anyio
@pytest.mark.scheduled_events(scenario="user-reboot", clock="virtual")
async def test_scenarios_too(scheduled_events: ScheduledEvents) -> None:
    with Program(scheduled_events.vm("web_0").url).running():
        assert (await scheduled_events.aio.wait_for_scenario()).passed
    aio = scheduled_events.aio
    unjudged = await aio.run_scenario("user-reboot", expect="none")
    assert not (unjudged.passed or unjudged.failures)
    with pytest.raises(AssertionError, match="expected 1"):
        await scheduled_events.aio.wait_for_requests(timeout=0)

def test_without_a_plugin(scheduled_events: ScheduledEvents) -> None:
    async def main() -> None:
        event = scheduled_events.vm("web_0").freeze()
        event.approve()
        await event.aio.wait_for_approval()

    asyncio.run(main())
"""


def test_tests_can_be_asynchronous(pytester: pytest.Pytester) -> None:
    run(pytester, ASYNC).assert_outcomes(passed=3)


def test_unittest_class_can_use_a_world(pytester: pytest.Pytester) -> None:
    done = run(
        pytester,
        """
import unittest

class TestService(unittest.TestCase):
    def setUp(self) -> None:
        self.world = self.enterContext(ScheduledEvents(vms=1))

    def test_it(self) -> None:
        self.world.vm("web_0").reboot().assert_status("Scheduled")

    def test_it_fails(self) -> None:
        self.world.vm("web_0").assert_asked()
""",
    )
    done.assert_outcomes(passed=1, failed=1)


@pytest.mark.slow
def test_tests_can_run_in_parallel(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        HEAD
        + """
@pytest.mark.parametrize("number", range(12))
def test_it(number: int, scheduled_events: ScheduledEvents) -> None:
    vm = scheduled_events.vm("web_0")
    with Program(vm.url).running():
        event = vm.preempt()
        event.wait_for_approval()
    assert [each.id for each in scheduled_events.events] == [event.id]
"""
    )
    root = Path(__file__).parents[3]
    pytester.makeconftest(f"import sys\nsys.path.insert(0, {str(root)!r})\n")
    done = pytester.runpytest_subprocess("-n", "2", "-W", "error", "-q")
    done.assert_outcomes(passed=12)


@pytest.mark.slow
def test_plugin_imports_nothing_if_unused(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
import sys

def test_it():
    ours = {name for name in sys.modules if name.startswith("forewarn.")}
    assert ours <= {"forewarn.testing", "forewarn.testing.plugin"}, ours
    assert not {"uvloop", "httptools", "fastapi"} & set(sys.modules)
"""
    )
    pytester.runpytest_subprocess("-q", "-W", "error").assert_outcomes(passed=1)


def test_the_mark_and_the_fixture_are_documented(pytester: pytest.Pytester) -> None:
    marks = pytester.runpytest_inprocess("--markers")
    marks.stdout.fnmatch_lines(
        ["@pytest.mark.scheduled_events(vms=3, [*], together=False, *"]
    )
    fixtures = pytester.runpytest_inprocess("--fixtures")
    fixtures.stdout.fnmatch_lines(["*Return a world of simulated VMs*"])


def test_missing_extra_is_reported_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    import forewarn.testing  # noqa: PLC0415 - as a developer's own code does

    monkeypatch.setitem(sys.modules, "uvloop", None)
    for name in [name for name in sys.modules if name.startswith("forewarn.testing.k")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "forewarn.service.loops")
    monkeypatch.delitem(sys.modules, "forewarn.sim.loop")
    with pytest.raises(ImportError, match=re.escape("pip install 'forewarn[test]'")):
        _ = forewarn.testing.ScheduledEvents
    with pytest.raises(AttributeError):
        _ = forewarn.testing.Nothing
