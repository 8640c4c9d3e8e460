"""The contract of drivers about what can be done on hosts and to their VMs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.drivers.journal import MemoryJournal
from forewarn.drivers.limited import Limited
from forewarn.drivers.port import HostVms
from forewarn.protocol.abilities import Ability, Able, answer_about, prevented
from forewarn.protocol.operations import Action
from tests.contract.drivers.worlds import CommandWorld, SimulatedWorld, World

ASKED = (HostVms(host="h1", vms=("web_0", "web_1")), HostVms(host="h2", vms=("db_0",)))


@pytest.fixture(
    params=[
        "simulated",
        pytest.param("command", marks=[pytest.mark.system, pytest.mark.slow]),
    ]
)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    journal = MemoryJournal()
    new_world: World
    if request.param == "command":
        new_world = CommandWorld(tmp_path)
    else:
        new_world = SimulatedWorld(lambda: journal, journal.clear)
    yield new_world
    new_world.driver.close()


def test_answers_differ_by_host_vm_and_action(world: World) -> None:
    world.limit(
        Limited(action=Action.LIVE_MIGRATE, host="h1", reason="no shared storage"),
        Limited(action=Action.LIVE_MIGRATE, vm="db_0", reason="a passthrough device"),
        Limited(action=Action.FREEZE, vm="web_1", reason="real time"),
    )
    assert world.driver.tells_abilities
    abilities = world.driver.abilities(ASKED)
    assert set(abilities) == {"h1", "h2"}
    moving, freezing = (Action.LIVE_MIGRATE,), (Action.FREEZE,)
    assert [
        ability.reason for ability in prevented(abilities["h1"], moving, ["web_0"])
    ] == ["no shared storage"]
    assert list(prevented(abilities["h2"], moving, [])) == []
    assert list(prevented(abilities["h2"], moving, ["db_0"])) == [
        Ability(
            able=Able.NO,
            action=Action.LIVE_MIGRATE,
            vm="db_0",
            reason="a passthrough device",
        )
    ]
    assert [
        ability.vm for ability in prevented(abilities["h1"], freezing, ASKED[0].vms)
    ] == ["web_1"]
    assert answer_about(abilities["h1"], Action.REBOOT, "web_0").able is Able.YES
    assert answer_about(abilities["h1"], Action.REBOOT, "db_0").able is Able.UNKNOWN


def test_unknown_is_an_answer_of_its_own(world: World) -> None:
    world.limit(
        Limited(action=Action.FREEZE, vm="web_0", able=Able.UNKNOWN, reason="no agent")
    )
    abilities = world.driver.abilities(ASKED)["h1"]
    assert answer_about(abilities, Action.FREEZE, "web_0") == Ability(
        able=Able.UNKNOWN, action=Action.FREEZE, vm="web_0", reason="no agent"
    )
    assert answer_about(abilities, Action.FREEZE, "web_1").able is Able.YES
    assert list(prevented(abilities, [Action.FREEZE], ["web_0", "web_1"])) == []


def test_host_without_an_answer_is_missing(world: World) -> None:
    world.keep_silent()
    assert world.driver.abilities(ASKED) == {}


def test_only_hosts_and_vms_of_the_question_are_answered(world: World) -> None:
    world.limit(
        Limited(action=Action.REBOOT, vm="web_1"),
        Limited(action=Action.REBOOT, host="h2"),
    )
    abilities = world.driver.abilities([HostVms(host="h1", vms=("web_0",))])
    assert set(abilities) == {"h1"}
    assert {ability.vm for ability in abilities["h1"]} == {"", "web_0"}
    assert all(ability.able is Able.YES for ability in abilities["h1"])
    assert world.driver.abilities([]) == {}
