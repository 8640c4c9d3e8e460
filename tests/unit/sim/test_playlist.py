"""Playlists: the rounds of scenarios, and their worlds."""

import re
from pathlib import Path

import pytest

from forewarn.instants import MINUTE
from forewarn.protocol.errors import BadRequestError, RefusedError
from forewarn.sim.playlist import PlayOptions, rounds_of
from forewarn.sim.profiles import Profile
from forewarn.sim.scenario import builtin, rehearsal
from forewarn.sim.scenario.model import Expected, Scenario
from forewarn.sim.scenario.run import Runner
from forewarn.sim.scenario.setup import setup_for, virtual_stage
from forewarn.sim.scenario.time import VirtualTime
from tests.support.loops import in_loop


@pytest.mark.parametrize(
    ("words", "rounds"),
    [
        ("", []),
        ("a", [["a"]]),
        ("a b", [["a"], ["b"]]),
        ("a + b c", [["a", "b"], ["c"]]),
        ("a + b + c", [["a", "b", "c"]]),
    ],
)
def test_plus_joins_adjacent_names(words: str, rounds: list[list[str]]) -> None:
    assert rounds_of(words.split()) == rounds


@pytest.mark.parametrize("words", ["+", "+ a", "a +", "a + + b"])
def test_plus_needs_a_name_on_both_sides(words: str) -> None:
    with pytest.raises(BadRequestError):
        rounds_of(words.split())


def test_world_without_a_scenario_has_the_default_fleet() -> None:
    terms = PlayOptions(vms=5, profile=Profile.STRICT).terms([])
    assert terms.setup.fleet.count("[[vm]]") == 5
    assert terms.setup.speed == 60
    assert terms.profile is Profile.STRICT


def test_speed_of_a_name_applies_unless_another_is_requested() -> None:
    usual, fast = (
        builtin.find("live-migration"),
        builtin.find("Live Migration Dev Timing"),
    )
    assert fast.speed is not None
    assert PlayOptions().terms([usual]).setup.speed == 60
    assert PlayOptions().terms([fast]).setup.speed == fast.speed
    assert PlayOptions(speed=2).terms([fast]).setup.speed == 2


def test_custom_fleet_replaces_the_default_one() -> None:
    text = '[[host]]\nname = "h0"\n[[vm]]\nname = "web_0"\nhost = "h0"\n'
    options = PlayOptions(fleet=text)
    assert options.terms([]).setup.fleet == text
    for name in ("host-agent-maintenance", "user-reboot"):
        cast = options.cast([builtin.find(name)])
        assert options.terms(cast).setup.fleet == text
    own = builtin.find("other-tenant")
    with pytest.raises(RefusedError, match="cannot be played on this fleet"):
        options.cast([own])
    assert PlayOptions().terms([own]).setup.fleet == own.fleet.text


def documented() -> list[str]:
    """Return the scenarios that pages and the help of the command run together."""
    root = Path(__file__).parents[3]
    texts = [path.read_text(encoding="utf-8") for path in (root / "docs").rglob("*.md")]
    commands = re.findall(
        r"forewarn simulate ((?:[a-z-]+ )+\+ [a-z -]+)", "".join(texts)
    )
    return sorted({words.partition(" --")[0].strip() for words in commands})


@pytest.mark.parametrize("words", documented())
@in_loop
async def test_documented_scenario_combinations_are_playable(words: str) -> None:
    for names in rounds_of(words.split()):
        scenarios = [builtin.find(name) for name in names]
        assert PlayOptions().terms(scenarios).setup.fleet
        stage = virtual_stage(setup_for(scenarios))
        runner = Runner(stage, VirtualTime(stage), expected=Expected.NONE)
        for result in await runner.run_together(scenarios):
            assert not result.failures


@pytest.mark.parametrize(
    "scenario", builtin.scenarios(), ids=lambda scenario: scenario.name
)
@in_loop
async def test_every_scenario_ends_within_two_minutes(
    scenario: Scenario,
) -> None:
    setup = PlayOptions().terms([scenario]).setup
    # Without approvals, everything takes the maximum time.
    assert await rehearsal.length(scenario, setup) < 2 * MINUTE
