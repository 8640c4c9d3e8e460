"""Tests of scenarios in a world: length, speed and judgement."""

import threading
from pathlib import Path
from typing import Any

import pytest

from forewarn.instants import MINUTE, SECOND, Micros
from forewarn.protocol.errors import RefusedError
from forewarn.testing import NotSeenError, ScheduledEvents
from forewarn.testing.client import HttpClient
from forewarn.testing.kit import playing
from forewarn.testing.kit.setup import ExpectName
from tests.support.processes import eventually
from tests.support.programs import Program

EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"


def test_scenario_runs_in_parallel_with_the_test() -> None:
    with (
        ScheduledEvents(scenario="user-reboot", clock="virtual") as world,
        Program(world.vm("web_0").url).running(),
    ):
        assert world.wait_for_scenario().passed
        # The VM was restarted, and may be restarted again.
        assert world.run_scenario("user-reboot").passed


def test_scenario_starts_after_a_client_has_polled() -> None:
    name = "/metadata/instance?api-version=2021-02-01"
    with ScheduledEvents(scenario="user-reboot", enabled=False) as world:
        vm = world.vm("web_0")
        client = HttpClient(vm.url, timeout_seconds=5)
        assert client.ask("GET", name).status == 200
        assert world.events == []
        with Program(vm.url).running():
            [event] = eventually(lambda: world.events, bool)
            # The event has its full notice, and the client approves it.
            event.wait_for_approval()
        world.close(judge=False)


def test_virtual_clock_waits_for_a_slow_client() -> None:
    """A notice of half an hour does not pass at once during a wait."""
    with ScheduledEvents(clock="virtual") as world:
        slow = Program(world.vm("web_0").url).running(pause_seconds=0.2)
        with slow:
            result = world.run_scenario("live-migration", expect="approved")
    assert result.passed


def test_scenario_pauses_until_the_test_advances_time() -> None:
    def told() -> list[tuple[str, str]]:
        with ScheduledEvents(
            scenario="live-migration", clock="virtual", seed=0, expect="asked"
        ) as world:
            vm = world.vm("web_0")
            statuses: list[tuple[str, str]] = []
            for _ in range(8):
                [event] = [*vm.events, None][:1]
                status = "none" if event is None else str(event.status)
                statuses.append((world.now.strftime("%H:%M:%S"), status))
                # Delays of clients do not change the time of the world.
                Program(vm.url).events()
                Program(vm.url).events()
                if len(statuses) > 1:
                    world.advance("4m")
            return statuses

    first = told()
    assert first[:3] == [
        ("00:00:00", "none"),
        ("00:00:00", "Scheduled"),
        ("00:04:00", "Scheduled"),
    ]
    assert {status for _, status in first} >= {"Scheduled", "Started"}
    assert told() == told() == first


STEPS = """
name = "steps"
description = "web_0 is told of two reboots, the second an hour later."
[[step]]
reboot = "web_0"
as = "first"
[[step]]
expect = { event = "first", approved_by = "web_0", within = "1h" }
[[step]]
at = "1h"
reboot = "web_1"
[[step]]
jump = "10m"
[[step]]
after = "1h"
expect = { no_deviation = true }
"""


def test_advancing_time_runs_every_due_step(tmp_path: Path) -> None:
    file = tmp_path / "steps.toml"
    file.write_text(STEPS, encoding="utf-8")
    with ScheduledEvents(scenario=file, clock="virtual") as world:
        world.advance("1d")
        assert world.events == [], "no client has polled yet"
        program = Program(world.vm("web_0").url)
        program.look()
        [event] = world.events
        with pytest.raises(NotSeenError, match=r"Use world\.advance\(\), since"):
            world.judge()
        program.look()
        event.wait_for_approval(timeout=1)
        world.advance("59m")
        assert not world.vm("web_1").events
        # The clock advances to the next timer.
        while not world.vm("web_1").events:
            assert world.step() <= 3600
        world.advance("2h")
        world.judge()
        assert world.wait_for_scenario(timeout=1).passed


def test_waiting_for_a_scenario_continues_from_the_current_time() -> None:
    with ScheduledEvents(scenario="user-reboot", clock="virtual") as world:
        vm = world.vm("web_0")
        Program(vm.url).events()
        world.advance("1m")
        with Program(vm.url).running():
            assert world.wait_for_scenario().passed


def test_scenario_fails_for_a_sleeping_client(monkeypatch: pytest.MonkeyPatch) -> None:
    # A tick of a virtual clock waits for clients that can still act.
    monkeypatch.setattr(playing, "REST_SECONDS", 0.0)
    with ScheduledEvents(clock="virtual") as world:
        program = Program(world.vm("web_0").url)
        asking = threading.Timer(0.05, program.events)
        asking.start()
        with pytest.raises(NotSeenError, match="web_0 did not approve e1 "):
            world.run_scenario("live-migration")
        asking.join()


def test_scenario_without_a_client_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(playing, "CLIENT_SECONDS", 0.05)
    with ScheduledEvents(clock="virtual") as world:
        url = world.vm("web_0").url
        levels: tuple[ExpectName, ...] = ("scenario", "asked", "approved")
        for expect in levels:
            with pytest.raises(NotSeenError, match=rf"no client asked for .*{url}"):
                world.run_scenario("live-migration", expect=expect)
        result = world.run_scenario("live-migration", expect="none")
        assert not result.passed
        assert not result.failures
        wrong: Any = "all"
        with pytest.raises(RefusedError, match=r"expect must be .* not 'all'"):
            world.run_scenario("live-migration", expect=wrong)


def test_failed_scenario_fails_the_test(tmp_path: Path) -> None:
    file = tmp_path / "approve.toml"
    file.write_text(
        'name = "approve"\ndescription = "web_0 approves."\n'
        '[[step]]\nas = "event"\nreboot = "web_0"\n'
        '[[step]]\nexpect = { approved_by = "web_0", within = "10s" }\n',
        encoding="utf-8",
    )
    with ScheduledEvents(clock="virtual") as world:
        with Program(world.vm("web_0").url, vm="nobody").running():
            wanted = r"scenario approve failed:\n.*web_0"
            with pytest.raises(NotSeenError, match=wanted):
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


def test_decided_expectations_count_before_the_end(tmp_path: Path) -> None:
    file = tmp_path / "duty.toml"
    file.write_text(DUTY, encoding="utf-8")
    wanted = r"duty failed before its end:\n  web_0 did not .*duty.toml:7\)\nevents"
    with ScheduledEvents(scenario=file) as world:
        Program(world.vm("web_0").url).events()
        # The second request follows the first expectation.
        eventually(lambda: world.vm("web_1").events, bool)
        with pytest.raises(NotSeenError, match=wanted):
            world.judge()
        world.close(judge=False)


def test_undecided_expectations_are_failures(tmp_path: Path) -> None:
    file = tmp_path / "duty.toml"
    file.write_text(DUTY.replace("100ms", "1h"), encoding="utf-8")
    with ScheduledEvents(scenario=file) as world:
        Program(world.vm("web_0").url).events()
        eventually(lambda: world.vm("web_0").events, bool)
        with pytest.raises(NotSeenError, match="is not finished and still expects"):
            world.judge()
        world.close(judge=False)
    with ScheduledEvents(scenario=file, expect="asked") as world:
        with pytest.raises(NotSeenError, match="still expects:\n  a client asks"):
            world.judge()
        Program(world.vm("web_0").url).events()
        eventually(lambda: world.vm("web_0").events, bool)
        world.judge()


def test_scenario_name_can_set_the_speed() -> None:
    def took(name: str, **more: Any) -> Micros:
        with ScheduledEvents(
            scenario=name, clock="virtual", expect="none", **more
        ) as world:
            return world.wait_for_scenario().took

    assert took("Live Migration") == 20 * MINUTE
    assert took("Live Migration - Dev Timing") == 20 * SECOND
    assert took("Live Migration - Dev Timing", speed=1) == 20 * MINUTE
    assert took("live-migration") == 20 * MINUTE


def test_wait_for_a_scenario_lasts_as_long_as_the_scenario(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(playing, "SCENARIO_SECONDS", 0.0)
    file = tmp_path / "duty.toml"
    # Without approvals, it takes six hours, which are 108 seconds. A client that is
    # blocked for a while has 54 seconds for each approval.
    text = DUTY.replace("100ms", "3h").replace('"1h"', '"3h"')
    text = text.replace("[[step]]", '[settings]\nrecovery = "2m"\n[[step]]', 1)
    file.write_text(text, encoding="utf-8")
    with ScheduledEvents(scenario=file, speed=200) as world:
        programs = [Program(vm.url, vm.name).running() for vm in world.vms]
        with programs[0], programs[1]:
            with pytest.raises(NotSeenError, match=r"duty did not end within 0 s"):
                world.wait_for_scenario(timeout=0)
            assert world.wait_for_scenario().passed
            assert world.run_scenario(file).passed


SOLO = '[[host]]\nname = "box"\n[[vm]]\nname = "solo"\nhost = "box"\n'


@pytest.mark.parametrize(
    ("wanted", "lead"),
    [
        ({"names": "my-host"}, "my-host"),
        ({"names": ["zeus", "alpha"]}, "zeus"),
        ({"names": ["my-host"], "vms": 5}, "my-host"),
        ({"fleet": SOLO}, "solo"),
        ({"fleet": SOLO, "names": ["solo"]}, "solo"),
    ],
)
def test_scenario_uses_the_vms_that_the_test_names(
    wanted: dict[str, Any], lead: str
) -> None:
    with ScheduledEvents(scenario="user-reboot", clock="virtual", **wanted) as world:
        assert world.vms[0].name == lead
        with Program(world.vm(lead).url, lead).running():
            assert world.wait_for_scenario().passed
            # Another scenario finds its VMs by itself.
            assert world.run_scenario("host-agent-maintenance").passed


def test_names_apply_to_worlds_without_a_scenario() -> None:
    with ScheduledEvents(names=["zeus", "alpha"]) as world:
        assert [vm.name for vm in world.vms] == ["zeus", "alpha", "web_2"]
        assert world.vm("zeus").reboot().status == "Scheduled"


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"names": ["a", "a"]}, "the name 'a' is given twice"),
        ({"names": ["a b"]}, "must not contain blanks"),
        ({"names": ["a", "b"], "vms": 1}, "there are 2 names for 1 VMs"),
        ({"names": ["a"], "fleet": SOLO}, "names have no effect with a fleet"),
        (
            {"names": ["a"], "fleet": SOLO, "scenario": "user-reboot"},
            "VM 'a' is not in the fleet",
        ),
        (
            {"fleet": SOLO, "scenario": "spot-preemption"},
            "spot-preemption cannot be played on this fleet",
        ),
    ],
)
def test_invalid_names_are_refused(wanted: dict[str, Any], said: str) -> None:
    with pytest.raises(RefusedError, match=said):
        ScheduledEvents(**wanted)


def test_scenario_timeout_reports_the_pending_expectations() -> None:
    with ScheduledEvents(scenario="user-reboot", speed=1) as world:
        world.vms[0].fault("500 x1")
        HttpClient(world.vms[0].url, timeout_seconds=5).ask("GET", EVENTS)
        HttpClient(world.vms[0].url, timeout_seconds=5).ask("GET", EVENTS)
        eventually(lambda: world.events, bool)
        with pytest.raises(NotSeenError) as unseen:
            world.wait_for_scenario(timeout=0.2)
        message = str(unseen.value)
        assert "user-reboot did not end within 0.2 s; it waited for: " in message
        assert "web_0 approves each event that names it" in message
        assert "reboot of vm web_0 is Announced" in message
        world.close(judge=False)
