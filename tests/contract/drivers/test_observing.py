"""The contract of drivers about observations of many VMs."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from forewarn.drivers.journal import FileJournal, MemoryJournal
from forewarn.drivers.port import CallVm, Observation
from forewarn.protocol.operations import Action
from tests.contract.drivers.libvirt_world import LibvirtWorld
from tests.contract.drivers.test_driver import TWO, call_of
from tests.contract.drivers.worlds import CommandWorld, SimulatedWorld, World

MARKS = [pytest.mark.system, pytest.mark.slow]

HOST_VMS = 200
"""The VMs of a host of the users."""


@pytest.fixture(
    params=[
        "memory",
        "file",
        pytest.param("observe", marks=MARKS),
        pytest.param("observe_many", marks=MARKS),
        pytest.param("libvirt", marks=MARKS),
    ]
)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    journal = MemoryJournal()
    new_world: World
    if request.param.startswith("observe"):
        new_world = CommandWorld(
            tmp_path, observes_many=request.param == "observe_many"
        )
    elif request.param == "libvirt":
        new_world = LibvirtWorld(tmp_path)
    elif request.param == "file":
        file = tmp_path / "journal"
        new_world = SimulatedWorld(lambda: FileJournal(file), file.unlink)
    else:
        new_world = SimulatedWorld(lambda: journal, journal.clear)
    yield new_world
    new_world.driver.close()


def test_each_vm_of_a_question_has_an_observation_of_its_own(world: World) -> None:
    world.begin(replace(call_of(Action.REDEPLOY), vms=TWO))
    world.pass_until_reported()
    delete = call_of(Action.DELETE, operation="op-2")
    world.begin(replace(delete, host=TWO[1].to_host, vms=TWO[1:]))
    world.pass_until_reported()
    assert world.driver.observe(["web_1", "other", "web_0"]) == {
        "web_0": Observation(running=True, host=TWO[0].to_host),
        "web_1": world.driver.observe(["web_1"])["web_1"],
        "other": Observation(),
    }
    known = False if world.remembers_deleted else None
    assert world.driver.observe(["web_1"])["web_1"].running is known


def test_vm_that_cannot_be_observed_leaves_the_others_observed(world: World) -> None:
    world.hide("web_0")
    world.begin(replace(call_of(Action.REDEPLOY), vms=TWO))
    world.pass_until_reported()
    assert world.driver.observe(["web_0", "web_1"]) == {
        "web_0": Observation(),
        "web_1": Observation(running=True, host=TWO[1].to_host),
    }
    # After a restart of the service too.
    world.reopen()
    assert world.driver.observe(["web_0"]) == {"web_0": Observation()}


def test_question_about_no_vm_has_no_observation(world: World) -> None:
    assert world.driver.observe([]) == {}


@pytest.mark.system
@pytest.mark.slow
def test_one_program_observes_all_vms_of_a_host(tmp_path: Path) -> None:
    world = CommandWorld(tmp_path, observes_many=True)
    vms = tuple(CallVm(vm=f"vm_{number}") for number in range(HOST_VMS))
    (tmp_path / "vms").mkdir()
    for vm in vms:
        (tmp_path / "vms" / f"vm.{vm.vm}").write_text("h1")
    before = world.programs_asked()
    observations = world.driver.observe([vm.vm for vm in vms])
    assert set(observations.values()) == {Observation(running=True, host="h1")}
    assert len(observations) == HOST_VMS
    assert world.programs_asked() == before + 1
    world.driver.close()
