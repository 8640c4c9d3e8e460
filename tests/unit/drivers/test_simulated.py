"""The simulated driver: durations, faults, and a memory that survives a crash."""

from pathlib import Path

import pytest

from forewarn.clock import VirtualClock
from forewarn.drivers import simulated
from forewarn.drivers.journal import FileJournal, MemoryJournal
from forewarn.drivers.port import (
    Call,
    CallVm,
    DriverError,
    Observation,
    ProbeState,
    Verdict,
)
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.instants import HOUR, SECOND, Micros
from forewarn.protocol.operations import Action

NOW: Micros = 1_800_000_000 * SECOND


def call_of(
    action: Action = Action.REBOOT,
    *vms: str,
    operation: str = "op-1",
    generation: int = 1,
    seconds: int = -1,
) -> Call:
    to_host = "h2" if action in {Action.LIVE_MIGRATE, Action.REDEPLOY} else ""
    return Call(
        operation_id=operation,
        generation=generation,
        action=action,
        host="h1",
        vms=tuple(CallVm(vm=vm, to_host=to_host) for vm in vms or ("web_0",)),
        duration_seconds=seconds,
    )


@pytest.mark.parametrize(
    ("action", "seconds", "expected"),
    [
        (Action.FREEZE, -1, 7 * SECOND),
        (Action.FREEZE, 9, 7 * SECOND),
        (Action.FREEZE, 5, 5 * SECOND),
        (Action.LIVE_MIGRATE, 5, 5 * SECOND),
        (Action.REBOOT, 5, 60 * SECOND),
        (Action.DELETE, -1, 5 * SECOND),
    ],
)
def test_impact_duration_depends_on_the_action_and_the_event_duration(
    action: Action, seconds: int, expected: Micros
) -> None:
    driver = SimulatedDriver()
    driver.begin(call_of(action, seconds=seconds), now=NOW)
    assert driver.next_report_at() == NOW + expected


def test_setting_overrides_the_default_impact_duration() -> None:
    driver = SimulatedDriver(impacts={Action.REBOOT: SECOND})
    driver.begin(call_of(), now=NOW)
    assert driver.next_report_at() == NOW + SECOND


def test_a_failing_call_ends_on_time_with_its_reason() -> None:
    driver = SimulatedDriver()
    fault = Fault(kind=FaultKind.FAIL, reason="no power", leaves_down=True)
    driver.inject(fault)
    driver.begin(call_of(Action.REBOOT, "web_0", "web_1"), now=NOW)
    [report] = driver.reports(now=NOW + HOUR)
    assert report.verdict is Verdict.FAILED
    assert report.reason == "no power"
    assert report.down == ("web_0", "web_1")
    assert driver.observe(["web_1"])["web_1"].running is False


def test_a_failure_of_one_vm_leaves_the_others_running() -> None:
    driver = SimulatedDriver()
    driver.inject(Fault(kind=FaultKind.FAIL, vm="web_1", leaves_down=True))
    driver.begin(call_of(Action.REBOOT, "web_0", "web_1"), now=NOW)
    [report] = driver.reports(now=NOW + HOUR)
    assert report.down == ("web_1",)


def test_deletion_that_fails_for_one_vm_is_done_for_the_others() -> None:
    driver = SimulatedDriver()
    driver.inject(Fault(kind=FaultKind.FAIL, vm="web_1", spares_others=True))
    driver.begin(call_of(Action.DELETE, "web_0", "web_1"), now=NOW)
    [report] = driver.reports(now=NOW + HOUR)
    observations = driver.observe(["web_0", "web_1"])
    for vm, running in (("web_0", False), ("web_1", True)):
        assert report.result_of(vm).running is running
        assert observations[vm].running is running


def test_a_failed_move_leaves_the_vm_where_it_was() -> None:
    driver = SimulatedDriver()
    driver.inject(Fault(kind=FaultKind.FAIL))
    driver.begin(call_of(Action.REDEPLOY), now=NOW)
    driver.reports(now=NOW + HOUR)
    assert driver.observe(["web_0"])["web_0"] == Observation(running=True, host="h1")


@pytest.mark.parametrize("abortable", [True, False])
def test_a_stalled_call_never_reports(*, abortable: bool) -> None:
    driver = SimulatedDriver()
    driver.inject(Fault(kind=FaultKind.STALL, abortable=abortable))
    driver.begin(call_of(), now=NOW)
    assert driver.next_report_at() is None
    assert driver.reports(now=NOW + HOUR) == []
    assert (
        driver.probe(call_of(), now=NOW + HOUR, memory=driver.memory).state
        is ProbeState.RUNNING
    )
    assert driver.abort("op-1", 1, now=NOW + HOUR) is abortable


def test_false_report_is_detected_by_observation() -> None:
    driver = SimulatedDriver()
    driver.inject(Fault(kind=FaultKind.LIE, elsewhere="h3"))
    driver.inject(Fault(kind=FaultKind.LIE, leaves_down=True))
    driver.begin(call_of(Action.REDEPLOY, "a", operation="op-1"), now=NOW)
    driver.begin(call_of(Action.REDEPLOY, "b", operation="op-2"), now=NOW)
    verdicts = {report.verdict for report in driver.reports(now=NOW + HOUR)}
    assert verdicts == {Verdict.DONE}
    assert driver.observe(["a", "b"]) == {
        "a": Observation(running=True, host="h3"),
        "b": Observation(running=False, host="h2"),
    }


def test_false_report_of_a_deletion_leaves_the_vm_unchanged() -> None:
    driver = SimulatedDriver()
    driver.inject(Fault(kind=FaultKind.LIE, elsewhere="h1"))
    driver.begin(call_of(Action.DELETE), now=NOW)
    [report] = driver.reports(now=NOW + HOUR)
    assert report.verdict is Verdict.DONE
    assert driver.observe(["web_0"])["web_0"] == Observation(running=True, host="h1")


def test_refused_call_is_probed_as_not_started() -> None:
    driver = SimulatedDriver()
    driver.inject(Fault(kind=FaultKind.REFUSE, reason="busy"))
    with pytest.raises(DriverError, match="busy"):
        driver.begin(call_of(), now=NOW)
    assert (
        driver.probe(call_of(), now=NOW, memory=driver.memory).state
        is ProbeState.NOT_STARTED
    )
    driver.begin(call_of(), now=NOW)
    assert (
        driver.probe(call_of(), now=NOW, memory=driver.memory).state
        is ProbeState.RUNNING
    )


def test_forgotten_call_never_reports_and_is_unknown() -> None:
    driver = SimulatedDriver()
    driver.inject(Fault(kind=FaultKind.FORGET))
    driver.begin(call_of(), now=NOW)
    assert driver.next_report_at() is None
    assert (
        driver.probe(call_of(), now=NOW + HOUR, memory=driver.memory).state
        is ProbeState.UNKNOWN
    )
    assert not driver.abort("op-1", 1, now=NOW)


def test_fault_applies_to_matching_calls_the_given_number_of_times() -> None:
    driver = SimulatedDriver()
    driver.inject(
        Fault(kind=FaultKind.REFUSE, action=Action.REBOOT, vm="web_1", times=2)
    )
    for generation in (1, 2):
        with pytest.raises(DriverError):
            driver.begin(call_of(Action.REBOOT, "web_1"), now=NOW)
        driver.begin(
            call_of(Action.REBOOT, "web_0", operation="a", generation=generation),
            now=NOW,
        )
        driver.begin(
            call_of(Action.FREEZE, "web_1", operation="b", generation=generation),
            now=NOW,
        )
    driver.begin(call_of(Action.REBOOT, "web_1"), now=NOW)


def test_permanent_fault_lasts_until_it_is_cleared() -> None:
    driver = SimulatedDriver()
    driver.inject(Fault(kind=FaultKind.REFUSE, times=None))
    for _ in range(5):
        with pytest.raises(DriverError):
            driver.begin(call_of(), now=NOW)
    driver.clear()
    driver.begin(call_of(), now=NOW)


def test_call_cannot_be_aborted_after_the_abort_share() -> None:
    driver = SimulatedDriver(abort_share=0.5)
    driver.begin(call_of(), now=NOW)
    assert not driver.abort("op-1", 1, now=NOW + 30 * SECOND)
    assert driver.abort("op-1", 1, now=NOW + 29 * SECOND)


def test_only_the_latest_ended_calls_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(simulated, "ENDED_KEPT", 3)
    journal = MemoryJournal()
    driver = SimulatedDriver(journal=journal)
    for number in range(10):
        driver.begin(call_of(operation=f"op-{number}"), now=NOW)
        driver.reports(now=NOW + HOUR)
    calls = [key for key in journal.notes() if key.startswith("call:")]
    assert calls == ["call:op-7", "call:op-8", "call:op-9"]


def test_truncated_last_journal_line_is_ignored(tmp_path: Path) -> None:
    file = tmp_path / "journal"
    journal = FileJournal(file)
    journal.write("a", {"n": 1})
    journal.write("b", {"n": 2})
    journal.close()
    whole = file.read_bytes()
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        reopened = FileJournal(file)
        assert len(reopened.notes()) == whole[:length].count(b"\n")
        reopened.close()


def test_file_that_is_not_a_journal_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "journal"
    file.write_text("[]\nhello\n")
    with pytest.raises(DriverError, match="journal:1 is not a line"):
        FileJournal(file)
    with pytest.raises(DriverError, match="cannot be used"):
        FileJournal(tmp_path / "missing" / "journal")


def test_the_journal_keeps_only_the_last_notes_when_it_is_opened(
    tmp_path: Path,
) -> None:
    file = tmp_path / "journal"
    journal = FileJournal(file)
    for number in range(100):
        journal.write("a", {"n": number})
    journal.write("b", {})
    journal.forget("b")
    journal.forget("never")
    journal.close()
    reopened = FileJournal(file)
    assert reopened.notes() == {"a": {"n": 99}}
    reopened.close()
    assert file.read_bytes() == b'["a",{"n":99}]\n'


@pytest.mark.parametrize("step", [-HOUR, HOUR])
def test_a_call_that_begins_after_a_step_within_a_turn_takes_its_time(
    step: Micros,
) -> None:
    clock = VirtualClock(NOW)
    driver = SimulatedDriver(clock=clock)
    turn = clock.now()
    clock.step(step)
    driver.begin(call_of(Action.REBOOT), now=turn)
    assert driver.next_report_at() == clock.now() + 60 * SECOND
    assert driver.reports(now=clock.now()) == []


def test_a_turn_that_lasts_a_second_is_no_step_of_the_wall_clock() -> None:
    clock = VirtualClock(NOW)
    driver = SimulatedDriver(clock=clock)
    driver.begin(call_of(Action.REBOOT), now=NOW)
    clock.advance_to(NOW + SECOND)
    # The turn began a second ago, and has this time to its end.
    assert driver.reports(now=NOW) == []
    assert driver.next_report_at() == NOW + 60 * SECOND
    assert driver.reports(now=clock.now()) == []
    assert driver.next_report_at() == NOW + 60 * SECOND


@pytest.mark.parametrize("step", [-HOUR, HOUR])
def test_a_step_of_the_wall_clock_does_not_change_how_long_a_call_takes(
    step: Micros,
) -> None:
    clock = VirtualClock(NOW)
    driver = SimulatedDriver(clock=clock)
    driver.begin(call_of(Action.REBOOT), now=clock.now())
    clock.advance_to(NOW + 20 * SECOND)
    clock.step(step)
    assert driver.reports(now=clock.now()) == []
    assert driver.next_report_at() == clock.now() + 40 * SECOND
    clock.advance_to(clock.now() + 39 * SECOND)
    assert (
        driver.probe(call_of(), now=clock.now(), memory="").state is ProbeState.RUNNING
    )
    clock.advance_to(clock.now() + SECOND)
    # It has ended, and the clock is set before anybody asks.
    clock.step(-HOUR)
    assert len(driver.reports(now=clock.now())) == 1
