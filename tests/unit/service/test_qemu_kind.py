"""The settings of the driver for QEMU, as the driver gets them."""

import contextlib
from pathlib import Path

import pytest

from forewarn.protocol.operations import Action
from forewarn.service import driver_kinds
from forewarn.service.settings import Settings, SettingsError, load_settings

MONITOR = {
    "driver.kind": "qemu",
    "driver.qemu.monitor": "/run/qemu/{host}/{vm}.qmp",
}
START = {"driver.qemu.start": "true {vm} {host}"}
RECEIVE = {
    "driver.qemu.receive": "true {vm} {host}",
    "driver.qemu.migration": "tcp:{host}:0",
}
USUAL = {Action.FREEZE, Action.REBOOT, Action.DELETE, Action.PAUSE, Action.RESUME}


def settings_of(directory: Path, flags: dict[str, str]) -> Settings:
    url = {"store.url": f"sqlite:///{directory / 'forewarn.db'}"}
    return load_settings(file=None, environ={}, flags={**url, **flags})


@pytest.mark.parametrize(
    ("flags", "more"),
    [
        ({}, set[Action]()),
        (START, {Action.REDEPLOY, Action.STOP, Action.START}),
        (RECEIVE, {Action.LIVE_MIGRATE}),
    ],
)
def test_driver_supports_the_actions_that_its_settings_allow(
    tmp_path: Path, flags: dict[str, str], more: set[Action]
) -> None:
    settings = settings_of(tmp_path, {**MONITOR, **flags})
    kind = driver_kinds.kind_of(settings)
    for check in kind.checks_of(settings):
        check()
    with contextlib.closing(kind.open(settings)) as driver:
        assert driver.actions() == USUAL | more
    assert (tmp_path / "forewarn.db.qemu").is_dir()
    assert kind.memory_of(settings) == tmp_path / "forewarn.db.qemu"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"driver.kind": "qemu"}, "driver.qemu.monitor: is needed by the qemu driver"),
        (
            {**MONITOR, "driver.qemu.receive": "true"},
            "driver.qemu.migration: is needed with driver.qemu.receive",
        ),
        ({**MONITOR, "driver.qemu.start": "no-such-program"}, "no-such-program"),
        (
            {**MONITOR, "driver.qemu.events": "/run/qemu/{host}/{vm}.qmp"},
            "driver-qemu-events: must be another monitor than that for commands",
        ),
    ],
)
def test_setting_that_the_driver_lacks_is_named(
    tmp_path: Path, flags: dict[str, str], message: str
) -> None:
    settings = settings_of(tmp_path, flags)
    kind = driver_kinds.kind_of(settings)
    checks = list(kind.checks_of(settings))
    with pytest.raises(SettingsError) as caught:
        checks[0]()
    assert message in str(caught.value)
    with pytest.raises(SettingsError):
        kind.open(settings)


def test_without_a_file_the_records_are_in_the_working_directory() -> None:
    flags = {**MONITOR, "store.url": "memory://"}
    settings = load_settings(file=None, environ={}, flags=flags)
    kind = driver_kinds.kind_of(settings)
    assert kind.memory_of(settings) == Path("forewarn.qemu")
