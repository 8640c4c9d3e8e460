"""The simulated VMs and hosts keep marks, and remove those of old calls."""

from dataclasses import replace

import pytest

from forewarn.drivers import domains
from forewarn.drivers.domains import Domains
from forewarn.drivers.journal import MemoryJournal
from forewarn.drivers.marks import Mark, Reading
from forewarn.drivers.port import ProbeState
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind, task_of
from forewarn.instants import HOUR
from forewarn.protocol.operations import Action
from tests.unit.drivers.test_simulated import NOW, call_of


def test_marks_of_old_calls_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domains, "DEEDS_KEPT", 2)
    journal = MemoryJournal()
    stored_domains = Domains(journal)
    for number in range(5):
        call = call_of(Action.REBOOT, f"web_{number}", operation=f"op-{number}")
        stored_domains.carry_out(task_of(call, None, begun=NOW, impact=HOUR), None)
    assert sorted(journal.notes()) == [
        "deed:op-3.1.reboot",
        "deed:op-4.1.reboot",
        "vm:web_3",
        "vm:web_4",
    ]


def test_mark_of_a_newer_call_stays_when_an_older_one_is_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(domains, "DEEDS_KEPT", 1)
    stored_domains = Domains(MemoryJournal())
    for number in range(2):
        call = call_of(operation=f"op-{number}")
        stored_domains.carry_out(task_of(call, None, begun=NOW, impact=HOUR), None)
    mark = Mark(operation_id="op-1", generation=1, work="reboot")
    assert stored_domains.read(call_of(), now=NOW) == {"web_0": Reading(mark=mark)}


def test_call_that_was_stopped_is_taken_over_as_a_failure() -> None:
    marks = MemoryJournal()
    driver = SimulatedDriver(marks=marks)
    driver.begin(call_of(Action.LIVE_MIGRATE), now=NOW)
    assert driver.abort("op-1", 1, now=NOW + 1)
    other = SimulatedDriver(marks=marks)
    call = call_of(Action.LIVE_MIGRATE)
    probe = other.probe(call, now=NOW + HOUR, memory=driver.memory)
    assert probe.state is ProbeState.FAILED


def test_call_that_was_brought_nearer_ends_as_early_for_another_memory() -> None:
    marks = MemoryJournal()
    driver = SimulatedDriver(marks=marks)
    driver.begin(call_of(), now=NOW)
    driver.bring_nearer(HOUR, now=NOW)
    other = SimulatedDriver(marks=marks)
    probe = other.probe(call_of(), now=NOW, memory=driver.memory)
    assert probe.state is ProbeState.DONE


def test_other_work_under_the_same_mark_is_not_taken_over() -> None:
    marks = MemoryJournal()
    driver = SimulatedDriver(marks=marks)
    driver.begin(call_of(), now=NOW)
    other = SimulatedDriver(marks=marks)
    call = replace(call_of(), host="h7")
    probe = other.probe(call, now=NOW + HOUR, memory=driver.memory)
    assert probe.state is ProbeState.UNKNOWN
    assert "do not tell how it ended" in probe.reason


def test_marks_of_a_call_without_a_record_are_none() -> None:
    marks = MemoryJournal()
    driver = SimulatedDriver(marks=marks)
    driver.inject(Fault(kind=FaultKind.FORGET))
    driver.begin(call_of(), now=NOW)
    assert not marks.notes()
    assert not driver.probe(call_of(), now=NOW, memory="").report


def test_call_of_a_lost_store_and_a_lost_memory_is_reported_again() -> None:
    marks = MemoryJournal()
    SimulatedDriver(marks=marks).begin(call_of(), now=NOW)
    other = SimulatedDriver(marks=marks)
    other.begin(call_of(), now=NOW + HOUR)
    # It ends when it would have ended, and does not begin again.
    ends = other.next_report_at()
    assert ends is not None
    assert ends < NOW + HOUR
    assert len(other.reports(now=NOW + HOUR)) == 1
