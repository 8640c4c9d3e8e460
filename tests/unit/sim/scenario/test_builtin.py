"""Transcripts of every built-in scenario, compared with golden files.

If one fails, run `pytest tests/unit/sim/scenario --rewrite` and read the difference.
"""

from pathlib import Path

import pytest

from forewarn.sim.scenario import builtin, rehearsal
from forewarn.sim.scenario.model import Scenario
from tests.support.scenarios import tell

GOLDEN = Path(__file__).parents[3] / "golden" / "scenarios"


def scenarios() -> list[object]:
    return [
        pytest.param(scenario, id=scenario.name) for scenario in builtin.scenarios()
    ]


@pytest.mark.clause("9.1", "9.2")
@pytest.mark.parametrize("scenario", scenarios())
def test_scenario_transcript_matches_the_golden_file(
    scenario: Scenario, request: pytest.FixtureRequest
) -> None:
    silent, first = tell(scenario, approve=False)
    approving, second = tell(scenario, approve=True)
    message = (
        f"# {scenario.description}\n\n## Without approvals\n\n{silent}\n\n"
        f"## Each VM approves after two seconds\n\n{approving}\n"
    )

    file = GOLDEN / f"{scenario.name}.txt"
    if request.config.getoption("--rewrite"):
        file.write_text(message, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == message
    must_approve = any(client.approves for client in scenario.clients)
    assert first.passed is not must_approve
    assert second.passed


def test_each_builtin_scenario_has_a_golden_file() -> None:
    assert sorted(file.stem for file in GOLDEN.iterdir()) == builtin.names()


@pytest.mark.parametrize("scenario", scenarios())
def test_scenario_file_is_named_after_its_scenario(scenario: Scenario) -> None:
    assert scenario.file == f"{scenario.name}.toml"
    assert f'name = "{scenario.name}"' in builtin.text(scenario.name)
    assert scenario.description.endswith(".")


MOCK = {
    "Live Migration": (15 * 60, 5 * 60),
    "User Reboot": (15 * 60, 10 * 60),
    "Host Agent Maintenance": (15 * 60, 10 * 60),
    "Redeploy": (15 * 60, 10 * 60),
    "User Redeploy": (15 * 60, 10 * 60),
    "Spot Eviction": (15, 5),
}
"""Seconds for which the scenarios of the mock are Scheduled, and Started."""


@pytest.mark.parametrize("name", MOCK)
def test_mock_scenario_names_have_the_timings_of_the_mock(name: str) -> None:
    scenario = builtin.find(name)
    speed = scenario.speed
    assert speed is not None
    scheduled, started, gone = (moment.at for moment in rehearsal.play(scenario))

    assert scheduled == 0
    assert (started / speed / 1e6, (gone - started) / speed / 1e6) == MOCK[name]


@pytest.mark.parametrize(
    "name", [*sorted(set(MOCK) - {"Spot Eviction"}), "Canceled Maintenance"]
)
def test_dev_timing_runs_the_same_steps_at_speed_60(name: str) -> None:
    usual, quick = builtin.find(name), builtin.find(f"{name} Dev Timing")
    assert (usual.speed, quick.speed) == (1, 60)
    assert usual.steps == quick.steps


def test_cancelled_maintenance_of_the_mock_ends_after_eight_minutes() -> None:
    scheduled, gone = rehearsal.play(builtin.find("Canceled Maintenance"))
    assert (scheduled.at, gone.at) == (0, 8 * 60 * 1_000_000)
    assert gone.what == "Freeze of web_0 is removed before it started"
