"""The settings of a simulation, from a scenario and from the environment."""

import pytest

from forewarn.cli import main
from forewarn.instants import MINUTE, SECOND
from forewarn.service.settings import SettingsError
from forewarn.sim.playlist import PlayOptions
from forewarn.sim.scenario.file import read_scenario

SCENARIO = read_scenario(
    """
[settings]
recovery = "4m"
reboot = "20s"
[[step]]
say = "hello"
""",
    file="mine.toml",
)


def test_variable_of_a_setting_overrides_the_scenario() -> None:
    ground = PlayOptions(
        environ={
            "FOREWARN_TIMING_RECOVERY": "2m",
            "FOREWARN_TIMING_SPEED": "3",
            "FOREWARN_STORE_URL": "sqlite:///other.db",
        }
    )
    settings = ground.terms([SCENARIO]).setup.load()
    assert settings.timing.recovery == 2 * MINUTE
    assert settings.origins["timing.recovery"] == "environment FOREWARN_TIMING_RECOVERY"
    # The scenario provides the other values, except the speed and the store.
    assert settings.simulated.reboot == 20 * SECOND
    assert settings.timing.speed == 60
    assert settings.store.url == "sqlite:///forewarn.db"


def test_variable_applies_without_a_scenario() -> None:
    ground = PlayOptions(environ={"FOREWARN_DRIVER_ATTEMPTS": "7"})
    assert ground.terms(()).setup.load().driver.attempts == 7


def test_invalid_variable_is_reported_by_name() -> None:
    ground = PlayOptions(environ={"FOREWARN_TIMING_RECOVERY": "soon"})
    with pytest.raises(SettingsError) as caught:
        ground.terms([SCENARIO]).setup.load()
    assert caught.value.message == (
        "environment FOREWARN_TIMING_RECOVERY: 'soon' is not a duration such as 500ms, "
        "7s, 15m or PT5M"
    )


def test_command_with_an_invalid_variable_does_not_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FOREWARN_TIMING_RECOVERY", "soon")
    assert main(("simulate", "user-reboot", "--listen", "127.0.0.1:0")) == 2
    assert "FOREWARN_TIMING_RECOVERY: 'soon' is not" in capsys.readouterr().err
