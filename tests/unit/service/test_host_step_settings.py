"""[host_step.NAME] in forewarn.toml, and the programs of the command driver."""

from pathlib import Path

import pytest

from forewarn.instants import MINUTE
from forewarn.protocol.host_steps import StepRule
from forewarn.service.checking import check
from forewarn.service.driver_kinds import kind_of
from forewarn.service.settings import (
    Settings,
    SettingsError,
    describe,
    load_settings,
)
from forewarn.service.settings_model import HostStepSettings, step_rules, step_time

FLASH = '[host_step.flash]\nprogram = ["/bin/true", "{host}", "{version}"]\n'
VERSION = 'arguments = { version = "[0-9.]+" }\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "forewarn.toml"


def load(file: Path, text: str) -> Settings:
    file.write_text(text)
    return load_settings(file=file, environ={}, flags={})


def test_steps_are_read_with_their_rules(file: Path) -> None:
    reset_only = '[host_step.reset]\nprogram = ["true"]\n'
    settings = load(file, f'{FLASH}{VERSION}timeout = "45m"\n{reset_only}')
    flash, reset = settings.host_step
    assert flash == HostStepSettings(
        name="flash",
        program=("/bin/true", "{host}", "{version}"),
        arguments=(("version", "[0-9.]+"),),
        timeout=45 * MINUTE,
    )
    rules = step_rules(settings)
    assert rules.names == ("flash", "reset")
    assert rules.find("reset") == StepRule(timeout=reset.timeout)
    assert not rules.takes_any
    rows = {row.key: row for row in describe(settings)}
    assert rows["host_step.flash.arguments"].value == "version=[0-9.]+"
    assert rows["host_step.flash.timeout"].origin == f"{file}:4"
    assert rows["host_step.reset.timeout"].origin == "default"


def test_speed_divides_simulated_steps_and_no_timeout(file: Path) -> None:
    settings = load(file, f"[timing]\nspeed = 60\n{FLASH}{VERSION}")
    assert step_time(settings) * 60 == step_time(Settings())
    flash = step_rules(settings).find("flash")
    assert flash is not None
    assert flash.timeout == 30 * MINUTE


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("host_step = 1\n", ":1: host_step: must contain tables with a name"),
        (
            '[host_step]\nprogram = ["/bin/true"]\n',
            ":1: host_step: must contain tables with a name: [host_step.NAME]",
        ),
        ("[host_step.flash]\n", ":1: host_step.flash.program: is missing"),
        (
            f"{FLASH}{VERSION}tiemout = 1\n",
            ":4: host_step.flash.tiemout: there is no such setting (did you mean",
        ),
        (FLASH, ":2: host_step.flash.program: unknown placeholder {version}"),
        (
            f'{FLASH}arguments = {{ version = "[" }}\n',
            ':3: host_step.flash.arguments: version: "[" is not a regular expression',
        ),
        (
            f"{FLASH}arguments = {{ version = 2 }}\n",
            ":3: host_step.flash.arguments: version must be a regular expression in",
        ),
        (
            f'{FLASH}arguments = {{ version = ".", host = "." }}\n',
            ":3: host_step.flash.arguments.host: is a placeholder with another meaning",
        ),
        (
            f'{FLASH}arguments = {{ version = ".", "a b" = "." }}\n',
            "'a b' is not the name of an argument",
        ),
        (
            '[host_step.Flash]\nprogram = ["true"]\n',
            ":1: host_step.Flash: 'Flash' is not the name of a host step",
        ),
        (
            '[host_step.flash]\nprogram = ["true"]\ntimeout = "2d"\n',
            ":3: host_step.flash.timeout: must be at most 1d",
        ),
        (
            "".join(f'[host_step.s{n}]\nprogram = ["true"]\n' for n in range(101)),
            ":1: host_step: has more than 100 tables",
        ),
    ],
)
def test_mistake_is_reported_with_its_line(file: Path, text: str, problem: str) -> None:
    with pytest.raises(SettingsError) as raised:
        load(file, text)
    assert problem in raised.value.message


def test_program_of_a_step_must_exist(file: Path) -> None:
    text = f'[store]\nurl = "memory://"\n[driver]\nkind = "command"\n{FLASH}{VERSION}'
    settings = load(file, text.replace("/bin/true", "/bin/flash"))
    with pytest.raises(SettingsError) as raised:
        check(settings)
    [problem] = raised.value.problems
    assert problem.key == "host_step.flash.program"
    assert "no executable program '/bin/flash'" in problem.message.replace('"', "'")


def test_command_driver_can_have_host_steps_only(file: Path, tmp_path: Path) -> None:
    records = f'[driver.command]\nrecords = "{tmp_path}/records"\n'
    settings = load(file, f'[driver]\nkind = "command"\n{records}{FLASH}{VERSION}')
    check(settings)
    driver = kind_of(settings).open(settings)
    assert driver.host_steps() == step_rules(settings)
    assert not driver.actions()
    driver.close()


def test_simulated_driver_has_the_steps_of_the_file(file: Path) -> None:
    settings = load(file, f'[store]\nurl = "memory://"\n{FLASH}{VERSION}')
    driver = kind_of(settings).open(settings)
    assert driver.host_steps().names == ("flash",)
    assert driver.host_steps().find("reset") is None
