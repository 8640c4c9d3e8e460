"""The contract of drivers about marks: the memory is lost, and the VMs still know."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from forewarn.drivers.journal import FileJournal, MemoryJournal
from forewarn.drivers.port import (
    Call,
    CallVm,
    DriverError,
    Probe,
    ProbeState,
    Verdict,
    VmVerdict,
)
from forewarn.protocol.host_steps import StepKind
from forewarn.protocol.operations import Action
from tests.contract.drivers.libvirt_world import LibvirtWorld
from tests.contract.drivers.test_driver import TWO, call_of
from tests.contract.drivers.test_host_steps import step_of
from tests.contract.drivers.worlds import CommandWorld, SimulatedWorld, World

SYSTEM, SLOW = pytest.mark.system, pytest.mark.slow


@pytest.fixture(
    params=[
        "memory",
        "file",
        pytest.param("command", marks=[SYSTEM, SLOW]),
        pytest.param("libvirt", marks=[SYSTEM, SLOW]),
    ]
)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    kept, marks = MemoryJournal(), MemoryJournal()
    new_world: World
    if request.param == "command":
        new_world = CommandWorld(tmp_path, has_marks=True)
    elif request.param == "libvirt":
        new_world = LibvirtWorld(tmp_path)
    elif request.param == "file":
        file, domains = tmp_path / "journal", tmp_path / "domains"
        new_world = SimulatedWorld(
            lambda: FileJournal(file), file.unlink, lambda: FileJournal(domains)
        )
    else:
        new_world = SimulatedWorld(lambda: kept, kept.clear, lambda: marks)
    yield new_world
    new_world.driver.close()
    new_world.end()


def lost(world: World) -> str:
    """Lose the driver's memory; return the identity of the lost one."""
    memory = world.driver.memory
    world.lose_memory()
    assert world.driver.memory != memory
    return memory


def test_call_that_ended_is_known_by_another_memory(world: World) -> None:
    call = replace(call_of(Action.REDEPLOY), vms=TWO)
    world.begin(call)
    world.pass_until_reported()
    for memory in (lost(world), ""):
        probe = world.driver.probe(call, now=world.now, memory=memory)
        assert probe.state is ProbeState.DONE
        assert probe.report is not None
        verdicts = {probe.report.result_of(vm.vm).verdict for vm in TWO}
        assert verdicts == {VmVerdict.DONE}
    # From now on, this memory has a record of the call.
    world.reopen()
    assert world.probe(call) is ProbeState.DONE
    assert world.late_reports() == []


def test_call_that_was_taken_over_is_not_made_again(world: World) -> None:
    world.begin(call_of())
    reports = world.pass_until_reported()
    assert world.probe_for(call_of(), lost(world)) is ProbeState.DONE
    world.begin(call_of())
    [again] = world.reports_now()
    assert again.result_of("web_0").verdict is reports[0].result_of("web_0").verdict
    assert world.late_reports() == []


def test_running_call_is_never_taken_for_one_that_did_not_start(world: World) -> None:
    world.begin(call_of())
    if isinstance(world, CommandWorld):
        world.wait_for_mark("web_0")
    memory = lost(world)
    state = world.probe_for(call_of(), memory)
    assert state in {ProbeState.RUNNING, ProbeState.UNKNOWN}
    if state is ProbeState.RUNNING:
        [report] = world.pass_until_reported()
        assert report.result_of("web_0").verdict is VmVerdict.DONE


def test_next_call_follows_one_that_was_taken_over(world: World) -> None:
    world.begin(call_of())
    world.pass_until_reported()
    assert world.probe_for(call_of(), lost(world)) is ProbeState.DONE
    world.begin(call_of(generation=2))
    [report] = world.pass_until_reported()
    assert report.generation == 2


@pytest.mark.parametrize("is_lost", [True, False])
def test_lost_or_unreadable_mark_leaves_the_outcome_unknown(
    world: World, *, is_lost: bool
) -> None:
    (world.lose_mark if is_lost else world.spoil_mark)("web_0")
    world.begin(call_of())
    world.pass_until_reported()
    probe = probe_of_lost(world)
    assert probe.state is ProbeState.UNKNOWN
    expected = "no mark tells that it was begun" if is_lost else "cannot be read"
    assert expected in probe.reason


def probe_of_lost(world: World, call: Call | None = None) -> Probe:
    memory = lost(world)
    return world.driver.probe(call or call_of(), now=world.now, memory=memory)


def test_vm_whose_mark_was_lost_is_the_only_one_with_unknown_outcome(
    world: World,
) -> None:
    call = replace(call_of(Action.REDEPLOY), vms=TWO)
    world.lose_mark("web_1")
    world.begin(call)
    world.pass_until_reported()
    probe = probe_of_lost(world, call)
    assert probe.state is ProbeState.UNKNOWN
    assert probe.report is not None
    assert probe.report.result_of("web_0").verdict is VmVerdict.DONE
    assert probe.report.result_of("web_1").verdict is VmVerdict.UNKNOWN


def test_mark_without_its_work_is_no_success(world: World) -> None:
    world.only_mark(call_of())
    probe = probe_of_lost(world)
    assert probe.state is ProbeState.UNKNOWN


def test_mark_of_an_earlier_call_tells_that_the_later_was_not_started(
    world: World,
) -> None:
    world.begin(call_of())
    world.pass_until_reported()
    memory = lost(world)
    assert world.probe_for(call_of(generation=2), memory) is ProbeState.NOT_STARTED
    assert world.probe_for(call_of(operation="op-2"), memory) is ProbeState.UNKNOWN


def test_mark_of_a_later_call_or_other_work_proves_nothing(world: World) -> None:
    world.begin(call_of(generation=2))
    world.pass_until_reported()
    memory = lost(world)
    assert world.probe_for(call_of(), memory) is ProbeState.UNKNOWN
    other = call_of(Action.FREEZE, generation=2)
    assert world.probe_for(other, memory) is ProbeState.UNKNOWN


def test_no_mark_at_one_of_the_vms_is_not_taken_for_a_start(world: World) -> None:
    world.begin(call_of())
    world.pass_until_reported()
    memory = lost(world)
    two = replace(call_of(generation=2), vms=(CallVm(vm="web_0"), CallVm(vm="web_9")))
    assert world.probe_for(two, memory) is ProbeState.UNKNOWN


@pytest.mark.parametrize("kind", [StepKind.WORK, StepKind.VERIFY])
def test_host_step_is_known_by_the_mark_of_its_host(
    world: World, kind: StepKind
) -> None:
    if not world.marks_hosts:
        return
    world.begin(step_of(kind))
    world.pass_until_reported()
    memory = lost(world)
    assert world.probe_for(step_of(kind), memory) is ProbeState.DONE
    later = step_of(StepKind.EXIT, generation=2)
    assert world.probe_for(later, memory) is ProbeState.NOT_STARTED


def test_host_step_whose_mark_was_lost_is_unknown(world: World) -> None:
    world.lose_mark()
    world.begin(step_of())
    world.pass_until_reported()
    assert world.probe_for(step_of(), lost(world)) is ProbeState.UNKNOWN


# The marks of a leader that was paused just before its call


def in_term(call: Call, term: int, store: str = "a1") -> Call:
    return replace(call, term=term, store=store)


def late_reports_of(world: World, call: Call) -> list[Verdict]:
    """Return the results of a call that a former leader makes, by a driver of its own."""
    lost(world)
    with suppress(DriverError):
        world.begin(call)
        return [report.verdict for report in world.pass_until_reported()]
    return [Verdict.FAILED]


def test_call_of_an_earlier_term_neither_acts_nor_replaces_the_mark(
    world: World,
) -> None:
    """An operator resolved `op-1`, and the next leader has made `op-2`.

    Then the process of the former leader continues, and makes the first call of `op-1`.
    """
    newer = in_term(call_of(operation="op-2"), 8)
    world.begin(newer)
    world.pass_until_reported()
    late = in_term(call_of(Action.REDEPLOY), 7)
    assert late_reports_of(world, late) == [Verdict.FAILED]
    probe = probe_of_lost(world, newer)
    assert probe.state is ProbeState.DONE
    assert probe.report is not None
    assert probe.report.result_of("web_0").host in {"", "h1"}


def test_call_of_another_store_or_a_later_term_replaces_the_mark(world: World) -> None:
    world.begin(in_term(call_of(operation="op-2"), 8))
    world.pass_until_reported()
    # A new store begins at term 1.
    other = in_term(call_of(operation="op-3"), 1, "b2")
    assert late_reports_of(world, other) == [Verdict.DONE]
    assert probe_of_lost(world, other).state is ProbeState.DONE
    later = in_term(call_of(operation="op-4"), 9)
    assert late_reports_of(world, later) == [Verdict.DONE]
    # A service without replicas has no terms.
    alone = call_of(operation="op-5")
    assert late_reports_of(world, alone) == [Verdict.DONE]
    assert probe_of_lost(world, alone).state is ProbeState.DONE
