"""A real guest, which asks at the real 169.254.169.254, and what happens to it.

The guest is a Linux under QEMU that approves its events by itself. Each story runs with
a kill of the service during it, and in a long run without one, too.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.clock import SystemClock
from tests.support.guest_world import VM, GuestWorld, world_or_skip
from tests.support.interrupts import Interrupt, slow_kills
from tests.support.processes import eventually

pytestmark = [pytest.mark.system, pytest.mark.slow]

REPORT_SECONDS = 30.0
"""Until a killed guest must be reported on a busy machine; usually it takes two."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[GuestWorld]:
    guest_world = world_or_skip(tmp_path)
    try:
        guest_world.begin()
        yield guest_world
    finally:
        guest_world.end()


@slow_kills
def test_guest_sees_its_event_approves_it_and_is_frozen_for_the_measured_time(
    world: GuestWorld, interrupt: Interrupt
) -> None:
    operation = world.maintain("freeze")
    interrupt(world)
    world.until_done(operation)
    assert 3.0 <= world.downtime() < 30.0
    world.until_empty("h1")
    [seen, *_] = world.said('DOCUMENT .*"EventType":"Freeze"')
    assert '"EventStatus":"Scheduled"' in seen
    assert f'"Resources":["{VM}"]' in seen
    [ended] = world.admin("/v1/events?all=true")["events"]
    assert ended["approved_by"] == VM


@slow_kills
def test_guest_moves_to_another_host_while_it_runs(
    world: GuestWorld, interrupt: Interrupt
) -> None:
    operation = world.maintain("live-migrate")
    interrupt(world)
    world.until_done(operation)
    assert world.host() == "h2"
    # Its QEMU there is another one, but the guest has not booted.
    world.until_empty("h2")
    assert not world.said("BOOT|NETWORK", "h2")
    assert world.ground.pid(VM, "h1") == 0
    assert 0 <= world.downtime() < 3.0


@slow_kills
def test_guest_is_reset_and_asks_again(world: GuestWorld, interrupt: Interrupt) -> None:
    operation = world.maintain("reboot")
    interrupt(world)
    world.until_done(operation)
    world.until_said("BOOT", "h1")
    world.until_empty("h1")
    assert world.host() == "h1"


@pytest.mark.parametrize("moment", ["never", "before", "after"])
def test_killed_guest_is_reported_although_nobody_ordered_it(
    world: GuestWorld, moment: str
) -> None:
    if moment == "before":
        world.kill_service()
    began = world.kill_guest("h1")
    if moment == "after":
        world.kill_service()
    if moment != "never":
        world.start_service()
    [event] = eventually(world.events, bool, what="the failure")
    assert SystemClock().monotonic() - began < REPORT_SECONDS
    assert (event["EventStatus"], event["EventSource"]) == ("Started", "Platform")
    text = json.dumps(world.admin(f"/v1/history?vm={VM}"))
    assert "QEMU was killed or has crashed" in text
    # The service restarts and continues.
    world.start_guest("h1")
    eventually(world.events, lambda events: not events, what="the recovery")
    world.until_empty("h1")


def test_call_is_recognized_by_its_mark_after_kill_and_loss_of_all_records(
    world: GuestWorld,
) -> None:
    operation = world.maintain("freeze")
    eventually(world.is_frozen, bool, what="the freeze")
    world.kill_service()
    world.lose_records()
    # Its program continues without the service.
    eventually(world.mark, lambda mark: mark.endswith(" done"), what="its end")
    world.start_service()
    world.until_done(operation)
    world.until_empty("h1")
    # The freeze was not repeated.
    assert not world.has_program()
