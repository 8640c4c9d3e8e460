"""The contract of drivers, tested on each driver.

A driver is a context here: `world` makes one, `reopen` makes it again as a new
process of the service would, and `pass_until_reported` lets its time pass. The
command driver runs examples/drivers/harmless.py.
"""

import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from forewarn.clock import SystemClock
from forewarn.drivers.command import CommandDriver
from forewarn.drivers.journal import FileJournal, Journal, MemoryJournal
from forewarn.drivers.port import (
    Call,
    CallVm,
    Driver,
    Observation,
    OutcomeUnknownError,
    ProbeState,
    Report,
    Verdict,
    VmVerdict,
)
from forewarn.drivers.programs import Programs
from forewarn.drivers.simulated import IMPACTS, SimulatedDriver
from forewarn.instants import HOUR, SECOND, Micros
from forewarn.protocol.operations import Action
from tests.support.processes import eventually

HARMLESS = Path(__file__).resolve().parents[3] / "examples" / "drivers" / "harmless.py"

SYSTEM, SLOW = pytest.mark.system, pytest.mark.slow

START: Micros = 1_800_000_000 * SECOND


class World:
    """A driver, its memory and its time."""

    driver: Driver

    def __init__(self) -> None:
        self.now = START
        self.driver = self.opened()

    def opened(self) -> Driver:
        """Return the driver as a new process creates it."""
        raise NotImplementedError

    def reopen(self) -> None:
        """Kill the service and start it again."""
        self.driver.close()
        self.driver = self.opened()

    def begin(self, call: Call) -> None:
        self.driver.begin(call, now=self.now)

    def probe(self, call: Call) -> ProbeState:
        return self.probe_for(call, self.driver.memory)

    def probe_for(self, call: Call, memory: str) -> ProbeState:
        """Probe a call that was given to `memory`."""
        return self.driver.probe(
            call.operation_id, call.generation, now=self.now, memory=memory
        ).state

    def lose_memory(self) -> None:
        """Have the driver's memory removed while the service is away, and reopen."""
        raise NotImplementedError

    def abort(self, call: Call) -> bool:
        return self.driver.abort(call.operation_id, call.generation, now=self.now)

    def pass_until_reported(self) -> list[Report]:
        """Let the time of the next report come; return what is reported then."""
        raise NotImplementedError

    def pass_long(self) -> None:
        """Let so much time pass that nothing is under way any more."""
        raise NotImplementedError

    def reports_now(self) -> list[Report]:
        """Return what is reported without any time passing."""
        return list(self.driver.reports(now=self.now))

    def late_reports(self) -> list[Report]:
        self.pass_long()
        return list(self.driver.reports(now=self.now))


class SimulatedWorld(World):
    """All of it is simulated."""

    def __init__(
        self, journal: Callable[[], Journal], forget: Callable[[], None]
    ) -> None:
        self._journal = journal
        self.forget = forget
        super().__init__()

    def opened(self) -> Driver:
        return SimulatedDriver(journal=self._journal())

    def lose_memory(self) -> None:
        self.driver.close()
        self.forget()
        self.driver = self.opened()

    def pass_until_reported(self) -> list[Report]:
        instant = self.driver.next_report_at()
        assert instant is not None, "no report is expected"
        self.now = max(self.now, instant)
        return list(self.driver.reports(now=self.now))

    def pass_long(self) -> None:
        self.now += HOUR


class CommandWorld(World):
    """Real programs that wait for a file, so that the test controls their end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._waiting: list[Call] = []
        super().__init__()

    def opened(self) -> CommandDriver:
        harmless = (sys.executable, "-S", str(HARMLESS), str(self._folder / "vms"))
        wait = ("--wait-for", f"{self._folder}/go-{{operation}}")
        return CommandDriver(
            Programs(
                actions=dict.fromkeys(ACTIONS, (*harmless, "{action}", "{vm}", *wait)),
                abortable=frozenset(ACTIONS),
                timeouts={},
                observe=(*harmless, "observe", "{vm}"),
            ),
            records=self._folder / "records",
            clock=SystemClock(),
        )

    def lose_memory(self) -> None:
        self.driver.close()
        for path in (self._folder / "records").iterdir():
            if path.is_dir():
                shutil.rmtree(path)
        self.driver = self.opened()

    def begin(self, call: Call) -> None:
        super().begin(call)
        self._waiting.append(call)

    def pass_until_reported(self) -> list[Report]:
        self._waiting.sort(key=lambda call: -IMPACTS[call.action])
        self._go(self._waiting.pop())
        return eventually(
            lambda: list(self.driver.reports(now=self.now)), bool, what="a report"
        )

    def pass_long(self) -> None:
        for call in self._waiting:
            self._go(call)
        assert isinstance(self.driver, CommandDriver)
        eventually(self.driver.under_way, lambda count: count == 0)

    def _go(self, call: Call) -> None:
        (self._folder / f"go-{call.operation_id}").touch()


ACTIONS = [action for action in Action if action is not Action.NONE]


@pytest.fixture(
    params=["memory", "file", pytest.param("command", marks=[SYSTEM, SLOW])]
)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    kept = MemoryJournal()
    made: World
    if request.param == "command":
        made = CommandWorld(tmp_path)
    elif request.param == "file":
        file = tmp_path / "journal"
        made = SimulatedWorld(lambda: FileJournal(file), file.unlink)
    else:
        made = SimulatedWorld(lambda: kept, kept.clear)
    yield made
    made.pass_long()
    made.driver.close()


def call_of(
    action: Action = Action.REBOOT, *, operation: str = "op-1", generation: int = 1
) -> Call:
    to_host = "h2" if action in {Action.LIVE_MIGRATE, Action.REDEPLOY} else ""
    return Call(
        operation_id=operation,
        generation=generation,
        action=action,
        host="h1",
        vms=(CallVm(vm="web_0", to_host=to_host),),
        duration_seconds=-1,
    )


@pytest.mark.parametrize("action", ACTIONS)
def test_driver_carries_out_all_of_its_actions(world: World, action: Action) -> None:
    assert action in world.driver.actions()
    world.begin(call_of(action))
    [report] = world.pass_until_reported()
    assert {vm for vm, _ in report.paused} <= {"web_0"}
    assert all(pause >= 0 for _, pause in report.paused)
    # What it said, and whether it has measured anything, is its own business.
    assert report.result_of("web_0").verdict is VmVerdict.DONE
    assert {result.vm for result in report.results} <= {"web_0"}
    report = replace(report, reason="", paused=(), results=())
    assert report == Report(operation_id="op-1", generation=1, verdict=Verdict.DONE)


@pytest.mark.parametrize("action", ACTIONS)
def test_observation_matches_the_completed_action(world: World, action: Action) -> None:
    world.begin(call_of(action))
    world.pass_until_reported()
    moved = action in {Action.LIVE_MIGRATE, Action.REDEPLOY}
    seen = world.driver.observe(["web_0"])["web_0"]
    assert seen.running in {None, action is not Action.DELETE}
    assert seen.host in {None, "h2" if moved else "h1"}


def test_observing_an_unknown_vm_returns_an_empty_observation(world: World) -> None:
    assert world.driver.observe(["other"]) == {"other": Observation()}


def test_repeated_call_runs_once(world: World) -> None:
    world.begin(call_of())
    world.begin(call_of())
    assert len(world.pass_until_reported()) == 1
    assert world.late_reports() == []


def test_report_is_delivered_once(world: World) -> None:
    world.begin(call_of())
    assert len(world.pass_until_reported()) == 1
    assert world.late_reports() == []


def test_reports_are_delivered_when_due(world: World) -> None:
    world.begin(call_of(Action.REBOOT, operation="op-long"))
    world.begin(call_of(Action.FREEZE, operation="op-short"))
    assert world.driver.reports(now=world.now) == []
    assert [each.operation_id for each in world.pass_until_reported()] == ["op-short"]
    assert [each.operation_id for each in world.pass_until_reported()] == ["op-long"]
    assert world.driver.next_report_at() is None


def test_a_newer_generation_replaces_an_older_one(world: World) -> None:
    world.begin(call_of(generation=1))
    world.begin(call_of(generation=2))
    assert [each.generation for each in world.pass_until_reported()] == [2]
    assert world.late_reports() == []


def test_late_call_of_an_older_generation_is_not_run(world: World) -> None:
    world.begin(call_of(generation=2))
    with pytest.raises(OutcomeUnknownError, match="call 2 of this operation"):
        world.begin(call_of(generation=1))
    assert [each.generation for each in world.pass_until_reported()] == [2]


def test_older_generation_is_never_reported_as_not_started(world: World) -> None:
    world.begin(call_of(generation=2))
    assert world.probe(call_of(generation=1)) is ProbeState.UNKNOWN


def test_probe_reports_a_call_that_has_not_started(world: World) -> None:
    assert world.probe(call_of()) is ProbeState.NOT_STARTED
    world.begin(call_of(generation=1))
    assert world.probe(call_of(generation=2)) is ProbeState.NOT_STARTED


def test_memory_keeps_its_identity_across_a_restart(world: World) -> None:
    memory = world.driver.memory
    assert memory
    world.reopen()
    assert world.driver.memory == memory
    world.begin(call_of())
    world.reopen()
    assert world.driver.memory == memory
    assert world.probe(call_of()) is ProbeState.RUNNING


def test_emptied_memory_has_another_identity_and_answers_unknown(world: World) -> None:
    memory = world.driver.memory
    world.begin(call_of())
    world.lose_memory()
    assert world.driver.memory != memory
    assert world.probe_for(call_of(), memory) is ProbeState.UNKNOWN


@pytest.mark.parametrize("memory", ["memory-of-another", ""])
def test_call_of_other_or_unknown_memory_is_never_reported_as_not_started(
    world: World, memory: str
) -> None:
    assert world.probe_for(call_of(), memory) is ProbeState.UNKNOWN
    world.begin(call_of())
    assert world.probe_for(call_of(generation=2), memory) is ProbeState.UNKNOWN
    # A record that is there names its call, whatever the store knows of the memory.
    assert world.probe_for(call_of(), memory) is ProbeState.RUNNING


def test_probe_reports_running_and_done_calls(world: World) -> None:
    world.begin(call_of())
    assert world.probe(call_of()) is ProbeState.RUNNING
    world.pass_until_reported()
    assert world.probe(call_of()) is ProbeState.DONE


def test_report_returned_by_a_probe_is_not_delivered_again(world: World) -> None:
    world.begin(call_of())
    world.pass_long()
    probe = world.driver.probe("op-1", 1, now=world.now, memory="")
    assert probe.report is not None
    assert probe.report.verdict is Verdict.DONE
    assert world.driver.next_report_at() is None
    assert world.late_reports() == []


def test_call_continues_while_the_service_is_down(world: World) -> None:
    world.begin(call_of())
    world.reopen()
    assert world.probe(call_of()) is ProbeState.RUNNING
    assert len(world.pass_until_reported()) == 1


def test_a_call_ends_while_the_service_is_away(world: World) -> None:
    world.begin(call_of(Action.REDEPLOY))
    world.pass_long()
    world.reopen()
    assert world.probe(call_of()) is ProbeState.DONE
    assert world.driver.observe(["web_0"])["web_0"] == Observation(
        running=True, host="h2"
    )


def test_delivered_report_is_still_known_after_a_crash(world: World) -> None:
    world.begin(call_of())
    world.pass_until_reported()
    world.reopen()
    assert world.late_reports() == []
    assert world.probe(call_of()) is ProbeState.DONE


def test_a_call_is_not_done_again_after_a_crash(world: World) -> None:
    world.begin(call_of())
    told = world.pass_until_reported()
    world.reopen()
    world.begin(call_of())
    assert world.reports_now() == told
    assert world.late_reports() == []


# A backup was put back: control knows less than its driver


def test_repeating_an_ended_call_reports_its_result_again(
    world: World,
) -> None:
    world.begin(call_of(Action.FREEZE))
    told = world.pass_until_reported()
    for _ in range(2):
        world.begin(call_of(Action.FREEZE))
        # At once: nothing is done a second time.
        assert world.reports_now() == told
        assert world.late_reports() == []
    assert world.probe(call_of(Action.FREEZE)) is ProbeState.DONE


def test_ended_older_generation_reports_its_own_result(world: World) -> None:
    first = call_of(Action.LIVE_MIGRATE)
    second = replace(first, generation=2, vms=(CallVm(vm="web_1", to_host="h2"),))
    told: list[Report] = []
    for call in (first, second):
        world.begin(call)
        told += world.pass_until_reported()
    world.reopen()
    for call in (first, second):
        assert world.probe(call) is ProbeState.DONE
        world.begin(call)
    assert world.reports_now() == told
    assert [each.generation for each in told] == [1, 2]
    assert world.late_reports() == []


def test_repeating_a_stopped_call_reports_a_failure(world: World) -> None:
    world.begin(call_of())
    assert world.abort(call_of())
    world.begin(call_of())
    [report] = world.reports_now()
    assert report.verdict is Verdict.FAILED


def test_different_call_with_the_same_id_is_refused(
    world: World,
) -> None:
    world.begin(call_of(Action.REDEPLOY))
    world.pass_until_reported()
    other = replace(call_of(Action.REDEPLOY), vms=(CallVm(vm="web_0", to_host="h3"),))
    with pytest.raises(OutcomeUnknownError, match="has recorded other work"):
        world.begin(other)
    assert world.late_reports() == []


def test_stopped_call_never_reports_an_end(world: World) -> None:
    world.begin(call_of())
    assert world.abort(call_of())
    assert world.probe(call_of()) is ProbeState.FAILED
    assert world.late_reports() == []
    assert world.driver.observe(["web_0"])["web_0"].running is not False


def test_ended_or_unknown_call_cannot_be_stopped(world: World) -> None:
    assert not world.abort(call_of())
    world.begin(call_of())
    world.pass_until_reported()
    assert not world.abort(call_of())
    assert world.probe(call_of()) is ProbeState.DONE


def test_stop_of_an_older_generation_does_not_affect_the_newer(world: World) -> None:
    world.begin(call_of(generation=2))
    assert not world.abort(call_of(generation=1))
    assert [each.generation for each in world.pass_until_reported()] == [2]


def test_late_stop_of_an_older_generation_keeps_the_newer_call(world: World) -> None:
    """A stop may wait, while the call that takes the place of its call begins."""
    world.begin(call_of(generation=1))
    world.begin(call_of(generation=2))
    world.abort(call_of(generation=1))
    assert [each.generation for each in world.pass_until_reported()] == [2]


def test_stop_survives_a_crash(world: World) -> None:
    world.begin(call_of())
    world.abort(call_of())
    world.reopen()
    assert world.probe(call_of()) is ProbeState.FAILED
    assert world.late_reports() == []


def test_close_may_be_called_twice(world: World) -> None:
    world.driver.close()
    world.driver.close()
