"""The table of the kinds of drivers."""

import contextlib
from pathlib import Path

import pytest

from forewarn.service import driver_kinds
from forewarn.service.driver_kinds import KINDS, DriverKind
from forewarn.service.inquirer import ThreadedInquirer
from forewarn.service.option_table import OPTIONS
from forewarn.service.settings import load_settings


def test_each_kind_that_a_setting_can_name_is_in_the_table() -> None:
    assert tuple(KINDS) == OPTIONS["driver.kind"].words


def test_drivers_have_the_names_of_the_table(tmp_path: Path) -> None:
    for name, kind in KINDS.items():
        url = f"sqlite:///{tmp_path / name}.db"
        flags = {
            "store.url": url,
            "driver.kind": name,
            "driver.command.reboot": "true",
            "driver.libvirt.uri": "test:///{host}",
            "driver.qemu.monitor": "/run/{host}/{vm}.qmp",
        }
        settings = load_settings(file=None, environ={}, flags=flags)
        with contextlib.closing(kind.open(settings)) as driver:
            assert driver.kind == name


@pytest.mark.parametrize("can_block", [False, True])
def test_only_a_driver_that_can_block_is_asked_in_threads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, can_block: bool
) -> None:
    url = f"sqlite:///{tmp_path / 'forewarn.db'}"
    settings = load_settings(file=None, environ={}, flags={"store.url": url})
    usual = driver_kinds.kind_of(settings)
    kind = DriverKind(
        open=usual.open,
        memory_of=usual.memory_of,
        has_calls=usual.has_calls,
        actions_of=usual.actions_of,
        can_block=can_block,
    )
    monkeypatch.setattr(driver_kinds, "KINDS", {"simulated": kind})
    with contextlib.closing(kind.open(settings)) as driver:
        inquirer = driver_kinds.inquirer_of(settings, driver)
    assert isinstance(inquirer, ThreadedInquirer) == can_block


def test_marks_of_simulated_vms_are_kept_next_to_the_store(tmp_path: Path) -> None:
    url, file = (
        f"sqlite:///{tmp_path / 'forewarn.db'}",
        tmp_path / "forewarn.db.domains",
    )
    for marks in ("true", "false"):
        flags = {"store.url": url, "driver.simulated.marks": marks}
        settings = load_settings(file=None, environ={}, flags=flags)
        driver_kinds.kind_of(settings).open(settings).close()
        # Old marks would tell that the calls without marks were not made.
        assert file.exists() == (marks == "true")


@pytest.mark.parametrize(
    "flags",
    [
        {"driver.kind": "simulated"},
        {"driver.kind": "command", "driver.command.freeze": "true"},
        {
            "driver.kind": "command",
            **{
                f"driver.command.{name}": "true"
                for name in ("reboot", "redeploy", "pause", "resume")
            },
        },
        {
            "driver.kind": "libvirt",
            "driver.libvirt.uri": "test:///default",
            "driver.libvirt.python": "/bin/true",
        },
        {"driver.kind": "qemu", "driver.qemu.monitor": "/run/qemu/{host}/{vm}.qmp"},
        {
            "driver.kind": "qemu",
            "driver.qemu.monitor": "/run/qemu/{host}/{vm}.qmp",
            "driver.qemu.start": "true",
            "driver.qemu.receive": "true",
            "driver.qemu.migration": "tcp:{host}:0",
        },
    ],
)
def test_abilities_are_those_of_the_driver_that_is_opened(
    tmp_path: Path, flags: dict[str, str]
) -> None:
    flags = {"store.url": f"sqlite:///{tmp_path / 'forewarn.db'}", **flags}
    settings = load_settings(file=None, environ={}, flags=flags)
    abilities = driver_kinds.abilities_of(settings)
    with contextlib.closing(driver_kinds.kind_of(settings).open(settings)) as driver:
        assert driver.actions() == abilities.actions
        assert driver.host_steps() == abilities.host_steps


def test_new_kind_is_asked_in_threads_unless_it_says_otherwise() -> None:
    assert DriverKind.__dataclass_fields__["can_block"].default is True
