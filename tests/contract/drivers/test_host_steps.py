"""The contract of drivers about host steps, tested on each driver."""

from dataclasses import replace
from pathlib import Path

import pytest

from forewarn.drivers.port import (
    Call,
    DriverError,
    OutcomeUnknownError,
    ProbeState,
    Verdict,
)
from forewarn.drivers.records import NOT_NEEDED_STATUS
from forewarn.protocol.host_steps import HostStep, StepKind
from forewarn.protocol.operations import Action
from tests.contract.drivers.worlds import CommandWorld, World


def step_of(kind: StepKind = StepKind.WORK, *, generation: int = 1) -> Call:
    return Call(
        operation_id="vi-1",
        generation=generation,
        action=Action.NONE,
        host="h1",
        vms=(),
        duration_seconds=-1,
        step=HostStep(kind=kind, name="flash", arguments=(("version", "2.19"),)),
        campaign="ro-1",
    )


def test_driver_names_its_host_steps(world: World) -> None:
    rules = world.driver.host_steps()
    assert rules.names == ("flash", "reset")
    rule = rules.find("flash")
    assert rule is not None
    assert rule.arguments == (("version", "[0-9.]+"),)
    assert rules.find("format") is None


@pytest.mark.parametrize("kind", StepKind)
def test_step_is_carried_out_and_reported_once(world: World, kind: StepKind) -> None:
    world.begin(step_of(kind))
    world.begin(step_of(kind))
    [report] = world.pass_until_reported()
    assert (report.operation_id, report.generation) == ("vi-1", 1)
    assert report.verdict is Verdict.DONE
    assert report.results == ()
    assert world.late_reports() == []
    assert world.probe(step_of(kind)) is ProbeState.DONE


def test_failed_step_reports_its_reason(world: World) -> None:
    world.end_steps_with(3, "no such image")
    world.begin(step_of())
    [report] = world.pass_until_reported()
    assert report.verdict is Verdict.FAILED
    assert "no such image" in report.reason
    assert world.probe(step_of()) is ProbeState.FAILED


def test_step_needed_can_end_with_not_needed(world: World) -> None:
    world.end_steps_with(NOT_NEEDED_STATUS, "has 2.19")
    world.begin(step_of(StepKind.NEEDED))
    [report] = world.pass_until_reported()
    assert report.verdict is Verdict.NOT_NEEDED
    assert "has 2.19" in report.reason
    world.reopen()
    assert world.probe(step_of(StepKind.NEEDED)) is ProbeState.DONE


def test_each_generation_of_a_step_is_carried_out(world: World) -> None:
    # The steps of one visit are the same work to the eye; each must still be done.
    world.begin(step_of(StepKind.VERIFY))
    world.pass_until_reported()
    world.end_steps_with(1, "not yet")
    world.begin(step_of(StepKind.VERIFY, generation=2))
    [report] = world.pass_until_reported()
    assert (report.generation, report.verdict) == (2, Verdict.FAILED)


def test_step_goes_on_while_the_service_is_down(world: World) -> None:
    world.begin(step_of())
    world.reopen()
    assert world.probe(step_of()) is ProbeState.RUNNING
    [report] = world.pass_until_reported()
    assert report.verdict is Verdict.DONE


def test_reported_step_is_reported_again_and_not_repeated(world: World) -> None:
    world.begin(step_of())
    reports = world.pass_until_reported()
    world.reopen()
    world.begin(step_of())
    assert world.reports_now() == reports


def test_step_with_other_arguments_under_a_known_name_is_unknown(world: World) -> None:
    world.begin(step_of())
    world.pass_until_reported()
    other = HostStep(kind=StepKind.WORK, name="flash", arguments=(("version", "2.20"),))
    with pytest.raises(OutcomeUnknownError, match="other work under call 1"):
        world.begin(replace(step_of(), step=other))


def test_unstarted_step_is_known_as_such(world: World) -> None:
    assert world.probe(step_of()) is ProbeState.NOT_STARTED
    world.begin(step_of())
    assert world.probe(step_of(generation=2)) is ProbeState.NOT_STARTED


def test_running_step_can_be_stopped(world: World) -> None:
    world.begin(step_of())
    assert world.abort(step_of())
    assert world.late_reports() == []


def test_step_of_the_command_driver_must_be_configured(tmp_path: Path) -> None:
    world = CommandWorld(tmp_path)
    unknown = HostStep(kind=StepKind.WORK, name="format")
    wrong = HostStep(kind=StepKind.WORK, name="flash", arguments=(("version", "x"),))
    with pytest.raises(DriverError, match="no host step format is configured"):
        world.driver.begin(replace(step_of(), step=unknown), now=world.now)
    with pytest.raises(DriverError, match=r"must match '\[0-9\.\]\+', not 'x'"):
        world.driver.begin(replace(step_of(), step=wrong), now=world.now)
    assert world.probe(step_of()) is ProbeState.NOT_STARTED
    world.driver.close()


def test_program_of_a_step_gets_its_arguments(tmp_path: Path) -> None:
    world = CommandWorld(tmp_path)
    world.begin(step_of(StepKind.ENTER))
    world.pass_until_reported()
    world.driver.close()
    assert (tmp_path / "steps").read_text() == "enter h1 2.19\n"
