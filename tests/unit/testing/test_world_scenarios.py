"""Scenarios that a world begins with or runs: how long, how fast, and judged when."""

from pathlib import Path
from typing import Any

import pytest

from forewarn.instants import MINUTE, SECOND, Micros
from forewarn.protocol.errors import RefusedError
from forewarn.testing import NotSeenError, ScheduledEvents
from forewarn.testing.kit import playing
from tests.support.processes import eventually
from tests.support.programs import Program


def test_a_scenario_runs_beside_the_test() -> None:
    with ScheduledEvents(scenario="user-reboot", clock="virtual") as world:
        assert world.wait_for_scenario().passed
        assert world.run_scenario("user-reboot").passed


def test_a_scenario_that_fails_fails_the_test(tmp_path: Path) -> None:
    file = tmp_path / "approve.toml"
    file.write_text(
        'name = "approve"\ndescription = "web_0 approves."\n'
        '[[step]]\nas = "event"\nreboot = "web_0"\n'
        '[[step]]\nexpect = { approved_by = "web_0", within = "10s" }\n',
        encoding="utf-8",
    )
    with ScheduledEvents(clock="virtual") as world:
        with pytest.raises(NotSeenError, match=r"scenario approve failed:\n.*web_0"):
            world.run_scenario(file)
        with pytest.raises(RefusedError, match="began without a scenario"):
            world.wait_for_scenario()


DUTY = """
name = "duty"
description = "web_0 approves a reboot in time, and web_1 another."
[[step]]
reboot = "web_0"
as = "first"
[[step]]
expect = { event = "first", approved_by = "web_0", within = "100ms" }
[[step]]
reboot = "web_1"
as = "second"
[[step]]
expect = { event = "second", approved_by = "web_1", within = "1h" }
"""


def test_what_a_scenario_has_decided_counts_before_it_is_over(tmp_path: Path) -> None:
    file = tmp_path / "duty.toml"
    file.write_text(DUTY, encoding="utf-8")
    wanted = r"duty failed, and was not over:\n  web_0 did not .*duty.toml:7\)\nevents"
    world = ScheduledEvents(scenario=file)
    with pytest.raises(NotSeenError, match=wanted), world:
        # The second order follows the first expectation.
        eventually(lambda: world.vm("web_1").events, bool)


def test_what_a_scenario_has_yet_to_decide_does_not_count(tmp_path: Path) -> None:
    file = tmp_path / "duty.toml"
    file.write_text(DUTY.replace("100ms", "1h"), encoding="utf-8")
    with ScheduledEvents(scenario=file) as world:
        world.judge()


def test_a_name_of_a_scenario_may_say_how_fast_it_is() -> None:
    def took(name: str, **more: Any) -> Micros:
        with ScheduledEvents(scenario=name, clock="virtual", **more) as world:
            return world.wait_for_scenario().took

    assert took("Live Migration") == 20 * MINUTE
    assert took("Live Migration - Dev Timing") == 20 * SECOND
    assert took("Live Migration - Dev Timing", speed=1) == 20 * MINUTE
    assert took("live-migration") == 20 * MINUTE


def test_a_scenario_is_waited_for_as_long_as_it_takes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(playing, "SCENARIO_SECONDS", 0.0)
    file = tmp_path / "duty.toml"
    # Where nobody approves, it takes two hours.
    file.write_text(DUTY.replace("100ms", "1h"), encoding="utf-8")
    with ScheduledEvents(scenario=file, speed=1_000) as world:
        programs = [Program(vm.url, vm.name).running() for vm in world.vms]
        with pytest.raises(NotSeenError, match=r"duty was not over within 0 s"):
            world.wait_for_scenario(timeout=0)
        with programs[0], programs[1]:
            assert world.wait_for_scenario().passed
            assert world.run_scenario(file).passed
