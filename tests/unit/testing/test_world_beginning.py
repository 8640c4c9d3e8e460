"""Tests of new worlds: wrong values, and machines without free descriptors."""

import contextlib
from collections.abc import Mapping
from typing import Any

import pytest

from forewarn.protocol.errors import ForewarnError
from forewarn.service.listening import StartError
from forewarn.service.settings import SettingsError
from forewarn.service.settings_model import impacts, policy
from forewarn.sim.scenario.setup import Setup
from forewarn.testing import ScheduledEvents
from forewarn.testing.kit.ending import OPEN_FILES, SharedLoop
from forewarn.testing.kit.setup import EFFECTIVE_SETTINGS, check_settings
from tests.support import open_files
from tests.support.programs import Program


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"vms": "3"}, "vms must be a whole number, not '3'"),
        ({"vms": 2.5}, "vms must be a whole number, not 2.5"),
        ({"vms": True}, "vms must be a whole number, not True"),
        ({"together": "yes"}, "together must be True or False, not 'yes'"),
        ({"fleet": 3}, "fleet must be the text of a fleet file, or a Path, not 3"),
        ({"clock": ["sun"]}, 'clock must be "machine" or "virtual", not'),
        ({"speed": "x"}, "speed must be a number above 0, not 'x'"),
        ({"speed": 0, "scenario": "rollout"}, "speed must be a number above 0, not 0"),
        ({"speed": float("nan"), "profile": "real"}, "speed must be a number above 0"),
        ({"settings": ["a"]}, "settings must be a dictionary of texts"),
        ({"settings": {"timing.recovery": 60}}, "settings must be a dictionary"),
        ({"profile": "strikt"}, 'must be "lenient", "real" or "strict", not'),
        ({"profile": "strikt"}, r'not \'strikt\' \(did you mean "strict"\?\)'),
        ({"enabled": "no"}, "enabled must be True or False, not 'no'"),
        ({"seed": "x"}, "seed must be a whole number, not 'x'"),
        ({"faults": ["500"]}, "faults must be a line of faults, or the Path"),
        ({"scenario": ["a", "b"]}, "scenario must be a scenario's name, or the Path"),
    ],
)
def test_arguments_of_wrong_form_are_reported(
    wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(ForewarnError, match=message):
        ScheduledEvents(**wrong)


def test_world_raises_the_limit_of_open_files() -> None:
    shared = SharedLoop()
    few = min(open_files.allowed(), OPEN_FILES) - 1
    with open_files.open_files_up_to(few):
        shared.lease()
        assert open_files.allowed() > few
        shared.give_back()


def test_world_without_free_file_descriptors_reports_it() -> None:
    with ScheduledEvents() as world:
        with open_files.no_more_files(), pytest.raises(StartError) as caught:
            ScheduledEvents()
        assert (
            caught.value.message
            == "cannot open a listener for VM web_0: Too many open files"
        )
        assert "`ulimit -n`" in caught.value.hint
        # The failed world is closed, and the other worlds continue.
        assert Program(world.vm("web_0").url).events() == []
        with open_files.no_more_files(), pytest.raises(StartError):
            world.add_vm("late")
        assert Program(world.add_vm("late").url).events() == []


VALUES = {
    "timing.failure_event": "Redeploy",
    "driver.sightings": "restore",
    "driver.simulated.faults": "reboot fail",
    "driver.simulated.limited": "freeze host=h1",
    "driver.simulated.target_hosts": "h1",
    "driver.targets": "driver",
}
"""Valid values of settings that are neither lengths nor numbers."""

BESIDE = {"driver.targets": {"driver.simulated.target_hosts": "h1"}}
"""Settings without which others are refused."""


@pytest.mark.parametrize("name", EFFECTIVE_SETTINGS)
def test_each_accepted_setting_has_an_effect(name: str) -> None:
    def of(settings: Mapping[str, str]) -> object:
        check_settings(settings)
        loaded = Setup(fleet="", settings=settings).load()
        limit = loaded.metadata.rate_limit
        simulated = loaded.simulated
        lists = simulated.faults, simulated.target_hosts, simulated.limited
        return policy(loaded), impacts(loaded), limit, lists, simulated.host_step

    for value in (VALUES.get(name), "77", "77s"):
        if value is None:
            continue
        with contextlib.suppress(SettingsError):
            beside = BESIDE.get(name, {})
            assert of({**beside, name: value}) != of(beside)
            return
    raise AssertionError(f"{name} takes none of these values")


def test_faults_of_the_driver_are_simulated() -> None:
    settings = {"driver.simulated.faults": "reboot fail", "driver.attempts": "1"}
    with ScheduledEvents(clock="virtual", settings=settings) as world:
        event = world.vm("web_0").reboot()
        event.start()
        # A failed world is not repaired.
        world.advance("5m")
        event.assert_status("Removed")
