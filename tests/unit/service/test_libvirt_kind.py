"""The settings of the driver for libvirt, as the driver gets them."""

import contextlib
from pathlib import Path

import pytest

from forewarn.drivers.libvirt.driver import LibvirtDriver
from forewarn.protocol.operations import Action
from forewarn.service import driver_kinds
from forewarn.service.driver_kinds import ALL_ACTIONS
from forewarn.service.settings import Settings, SettingsError, load_settings
from tests.support.fake_libvirts import fake_python

URI = {
    "driver.kind": "libvirt",
    "driver.libvirt.uri": "qemu+ssh://root@{host}/system",
}


def settings_of(directory: Path, flags: dict[str, str]) -> Settings:
    url = {"store.url": f"sqlite:///{directory / 'forewarn.db'}"}
    python = {"driver.libvirt.python": fake_python(directory)}
    return load_settings(file=None, environ={}, flags={**url, **python, **flags})


def check_all(settings: Settings) -> None:
    for check in driver_kinds.kind_of(settings).checks_of(settings):
        check()


@pytest.mark.parametrize("can_reimage", ["true", "false"])
def test_driver_supports_the_actions_that_its_settings_allow(
    tmp_path: Path, can_reimage: str
) -> None:
    more = {
        "driver.libvirt.reimage": can_reimage,
        "driver.libvirt.uris": "h9=qemu:///s",
    }
    settings = settings_of(tmp_path, {**URI, **more})
    kind = driver_kinds.kind_of(settings)
    check_all(settings)
    expected = ALL_ACTIONS if can_reimage == "true" else ALL_ACTIONS - {Action.REIMAGE}
    with contextlib.closing(kind.open(settings)) as driver:
        assert isinstance(driver, LibvirtDriver)
        assert (driver.kind, driver.actions()) == ("libvirt", expected)
        assert kind.actions_of(settings) == expected
    assert kind.memory_of(settings) == tmp_path / "forewarn.db.libvirt"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"driver.kind": "libvirt"}, "driver.libvirt.uri: is needed by the libvirt"),
        (
            {**URI, "driver.libvirt.python": "/nowhere/python"},
            'there is no executable program "/nowhere/python"',
        ),
        (
            {**URI, "driver.libvirt.python": "/bin/false"},
            "driver-libvirt-python: /bin/false ended with status 1",
        ),
    ],
)
def test_setting_that_the_driver_lacks_is_named(
    tmp_path: Path, flags: dict[str, str], message: str
) -> None:
    settings = settings_of(tmp_path, flags)
    with pytest.raises(SettingsError) as caught:
        check_all(settings)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("uri", "h1", "must be a URI such as qemu+ssh://root@{host}/system"),
        ("uri", "qemu+ssh://{vm}/system", "unknown placeholder {vm}: use {host}"),
        ("uris", "h9", "must be a host and its URI"),
        ("migration", "fast", "pre-copy"),
    ],
)
def test_invalid_setting_is_refused(
    tmp_path: Path, name: str, value: str, message: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        settings_of(tmp_path, {**URI, f"driver.libvirt.{name}": value})
    assert message in str(caught.value)


def test_without_a_file_the_records_are_in_the_working_directory(
    tmp_path: Path,
) -> None:
    settings = settings_of(tmp_path, {**URI, "store.url": "memory://"})
    kind = driver_kinds.kind_of(settings)
    assert kind.memory_of(settings) == Path("forewarn.libvirt")
