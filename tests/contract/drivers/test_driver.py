"""The contract of drivers, tested on each driver."""

import threading
from dataclasses import replace

import pytest

from forewarn.drivers.port import (
    Call,
    CallVm,
    DriverError,
    Observation,
    OutcomeUnknownError,
    ProbeState,
    Report,
    Sighting,
    StopCause,
    Verdict,
    VmVerdict,
)
from forewarn.protocol.operations import HALVES, Action
from tests.contract.drivers.worlds import ACTIONS, World


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
    assert (action in world.driver.actions()) == (action not in world.lacks)
    if action in world.lacks:
        with pytest.raises(DriverError, match="no program is configured for"):
            world.begin(call_of(action))
        return
    world.begin(call_of(action))
    [report] = world.pass_until_reported()
    assert {vm for vm, _ in report.paused} <= {"web_0"}
    assert all(pause >= 0 for _, pause in report.paused)
    # Its text and its measurements are not compared.
    assert report.result_of("web_0").verdict is VmVerdict.DONE
    assert {result.vm for result in report.results} <= {"web_0"}
    report = replace(report, reason="", paused=(), results=())
    assert report == Report(operation_id="op-1", generation=1, verdict=Verdict.DONE)


@pytest.mark.parametrize("action", ACTIONS)
def test_observation_matches_the_completed_action(world: World, action: Action) -> None:
    if action in world.lacks:
        pytest.skip(f"the driver does not support {action.value}")
    world.begin(call_of(action))
    world.pass_until_reported()
    moved = action in {Action.LIVE_MIGRATE, Action.REDEPLOY}
    observation = world.driver.observe(["web_0"])["web_0"]
    assert observation.running in {None, action not in {Action.DELETE, Action.STOP}}
    assert observation.host in {None, "h2" if moved else "h1"}


@pytest.mark.parametrize("whole", HALVES)
@pytest.mark.parametrize("half", [0, 1])
def test_half_can_be_repeated_for_vms_in_the_wanted_state(
    world: World, whole: Action, half: int
) -> None:
    action = HALVES[whole][half]
    for generation in (1, 2):
        world.begin(call_of(action, generation=generation))
        [report] = world.pass_until_reported()
        assert report.verdict is Verdict.DONE
    running = world.driver.observe(["web_0"])["web_0"].running
    assert running in {None, action is not Action.STOP}


@pytest.mark.parametrize("whole", HALVES)
def test_second_half_follows_the_first_and_is_other_work(
    world: World, whole: Action
) -> None:
    down, up = HALVES[whole]
    world.begin(call_of(down))
    world.pass_until_reported()
    with pytest.raises(OutcomeUnknownError, match="other work under call 1"):
        world.begin(call_of(up))
    world.begin(call_of(up, generation=2))
    [report] = world.pass_until_reported()
    assert (report.generation, report.verdict) == (2, Verdict.DONE)
    assert world.driver.observe(["web_0"])["web_0"].running in {None, True}


@pytest.mark.parametrize("action", [half for pair in HALVES.values() for half in pair])
def test_half_fails_for_one_vm_only(world: World, action: Action) -> None:
    both = (CallVm(vm="web_0"), CallVm(vm="web_1"))
    world.fail("web_1", is_down=True)
    world.begin(replace(call_of(action), vms=both))
    [report] = world.pass_until_reported()
    assert report.verdict is Verdict.FAILED
    assert report.result_of("web_0").verdict is VmVerdict.DONE
    failed = report.result_of("web_1")
    assert (failed.verdict, failed.running) == (VmVerdict.FAILED, False)


MOVES = [Action.LIVE_MIGRATE, Action.REDEPLOY]


def choosing(action: Action, *, generation: int = 1) -> Call:
    """Return a call whose driver chooses where the VM moves to."""
    call = call_of(action, generation=generation)
    return replace(call, vms=(CallVm(vm="web_0"),))


def needs_choice(world: World) -> None:
    if not world.can_choose:
        pytest.skip("the driver chooses no host")


@pytest.mark.parametrize("action", MOVES)
def test_driver_reports_the_host_that_it_chose(world: World, action: Action) -> None:
    needs_choice(world)
    world.land("web_0", "h3")
    world.begin(choosing(action))
    [report] = world.pass_until_reported()
    result = report.result_of("web_0")
    assert (result.verdict, result.host) == (VmVerdict.DONE, "h3")
    assert world.driver.observe(["web_0"])["web_0"].host in {None, "h3"}
    world.reopen()
    probe = world.driver.probe(call_of(), now=world.now, memory=world.driver.memory)
    assert probe.report is not None
    assert probe.report.result_of("web_0").host == "h3"


@pytest.mark.parametrize("action", MOVES)
def test_driver_that_does_not_tell_the_host_invents_none(
    world: World, action: Action
) -> None:
    needs_choice(world)
    world.land("web_0", "")
    world.begin(choosing(action))
    [report] = world.pass_until_reported()
    result = report.result_of("web_0")
    assert (result.verdict, result.host) == (VmVerdict.DONE, "")
    assert world.driver.observe(["web_0"])["web_0"].host is None


def test_move_to_a_chosen_host_is_other_work_than_one_to_a_named_host(
    world: World,
) -> None:
    world.land("web_0", "h3")
    world.begin(choosing(Action.LIVE_MIGRATE))
    with pytest.raises(OutcomeUnknownError, match="other work under call 1"):
        world.begin(call_of(Action.LIVE_MIGRATE))
    world.pass_until_reported()


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
    assert [report.operation_id for report in world.pass_until_reported()] == [
        "op-short"
    ]
    assert [report.operation_id for report in world.pass_until_reported()] == [
        "op-long"
    ]
    assert world.driver.next_report_at() is None


def test_a_newer_generation_replaces_an_older_one(world: World) -> None:
    world.begin(call_of(generation=1))
    world.begin(call_of(generation=2))
    assert [report.generation for report in world.pass_until_reported()] == [2]
    assert world.late_reports() == []


def test_late_call_of_an_older_generation_is_not_run(world: World) -> None:
    world.begin(call_of(generation=2))
    with pytest.raises(OutcomeUnknownError, match="call 2 of this operation"):
        world.begin(call_of(generation=1))
    assert [report.generation for report in world.pass_until_reported()] == [2]


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
    probe = world.driver.probe(call_of(), now=world.now, memory="")
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
    reports = world.pass_until_reported()
    world.reopen()
    world.begin(call_of())
    assert world.reports_now() == reports
    assert world.late_reports() == []


# Results per VM


TWO = (CallVm(vm="web_0", to_host="h2"), CallVm(vm="web_1", to_host="h2"))


def test_call_that_fails_for_one_vm_reports_the_result_of_each(world: World) -> None:
    world.fail("web_1", host="h2")
    world.begin(replace(call_of(Action.REDEPLOY), vms=TWO))
    [report] = world.pass_until_reported()
    assert report.verdict is Verdict.FAILED
    assert report.result_of("web_0").verdict is VmVerdict.DONE
    assert report.result_of("web_0").host in {"", "h2"}
    result = report.result_of("web_1")
    assert result.verdict is VmVerdict.FAILED
    assert (result.running, result.host) == (True, "h2")
    assert result.note


def test_report_names_the_vm_that_a_failed_call_left_down(world: World) -> None:
    world.fail("web_1", is_down=True)
    vms = (CallVm(vm="web_0"), CallVm(vm="web_1"))
    world.begin(replace(call_of(Action.REBOOT), vms=vms))
    [report] = world.pass_until_reported()
    assert report.result_of("web_1").running is False
    assert report.result_of("web_0").running is not False


def test_unknown_outcome_of_one_vm_leaves_the_results_of_the_others(
    world: World,
) -> None:
    call = replace(call_of(Action.REDEPLOY), vms=TWO)
    world.lose(call, "web_1")
    probe = world.driver.probe(call, now=world.now, memory=world.driver.memory)
    assert probe.state is ProbeState.UNKNOWN
    assert probe.report is not None
    assert probe.report.result_of("web_0").verdict is VmVerdict.DONE
    assert probe.report.result_of("web_1").verdict is VmVerdict.UNKNOWN


# Sightings


STOPPED = '{"vm": "web_0", "running": false, "host": "h1", "text": "killed"}'
SHUT_DOWN = '{"vm": "web_1", "running": false, "cause": "shut-down"}'


def test_driver_sees_nothing_without_a_change(world: World) -> None:
    world.begin(call_of())
    world.pass_until_reported()
    sightings = world.driver.sightings(now=world.now)
    if world.tells_states:
        # No VM has failed.
        sightings = [
            sighting
            for sighting in sightings
            if not (sighting.running or sighting.cause is StopCause.SHUT_DOWN)
        ]
    assert list(sightings) == []


def test_change_that_nobody_asked_for_is_returned_once(world: World) -> None:
    woken = threading.Event()
    world.driver.on_report(woken.set)
    world.see(STOPPED)
    world.see(SHUT_DOWN)
    assert world.sightings(until="web_1") == [
        Sighting(vm="web_0", running=False, at=0, host="h1", text="killed"),
        Sighting(vm="web_1", running=False, at=0, cause=StopCause.SHUT_DOWN),
    ]
    assert list(world.driver.sightings(now=world.now)) == []
    assert woken.is_set() or world.driver.next_report_at() is None


def test_last_sighting_of_a_vm_is_returned_again_after_a_restart(world: World) -> None:
    world.see(STOPPED)
    world.see('{"vm": "web_0", "running": true, "host": "h2"}')
    world.see(SHUT_DOWN)
    world.sightings(until="web_1")
    world.reopen()
    last = {sighting.vm: sighting for sighting in world.sightings(until="web_1")}
    assert last == {
        "web_0": Sighting(vm="web_0", running=True, at=0, host="h2"),
        "web_1": Sighting(vm="web_1", running=False, at=0, cause=StopCause.SHUT_DOWN),
    }


# A backup was put back: control knows less than its driver


def test_repeating_an_ended_call_reports_its_result_again(
    world: World,
) -> None:
    world.begin(call_of(Action.FREEZE))
    reports = world.pass_until_reported()
    for _ in range(2):
        world.begin(call_of(Action.FREEZE))
        # At once: nothing is done a second time.
        assert world.reports_now() == reports
        assert world.late_reports() == []
    assert world.probe(call_of(Action.FREEZE)) is ProbeState.DONE


def test_ended_older_generation_reports_its_own_result(world: World) -> None:
    first = call_of(Action.LIVE_MIGRATE)
    second = replace(first, generation=2, vms=(CallVm(vm="web_1", to_host="h2"),))
    reports: list[Report] = []
    for call in (first, second):
        world.begin(call)
        reports += world.pass_until_reported()
    world.reopen()
    for call in (first, second):
        assert world.probe(call) is ProbeState.DONE
        world.begin(call)
    assert world.reports_now() == reports
    assert [report.generation for report in reports] == [1, 2]
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
    assert [report.generation for report in world.pass_until_reported()] == [2]


def test_late_stop_of_an_older_generation_keeps_the_newer_call(world: World) -> None:
    """A stop may wait, while the call that takes the place of its call begins."""
    world.begin(call_of(generation=1))
    world.begin(call_of(generation=2))
    world.abort(call_of(generation=1))
    assert [report.generation for report in world.pass_until_reported()] == [2]


def test_stop_survives_a_crash(world: World) -> None:
    world.begin(call_of())
    world.abort(call_of())
    world.reopen()
    assert world.probe(call_of()) is ProbeState.FAILED
    assert world.late_reports() == []


def test_close_may_be_called_twice(world: World) -> None:
    world.driver.close()
    world.driver.close()
