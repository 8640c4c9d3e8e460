"""Tests of replays in a world: events and expectations about clients."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from forewarn.protocol.errors import ForewarnError, RefusedError
from forewarn.sim.recording import Failed, Failure
from forewarn.testing import NotSeenError, ScheduledEvents
from tests.support import recordings
from tests.support.processes import PATIENCE_SECONDS, http
from tests.support.programs import Program


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return recordings.write(tmp_path / "freeze.jsonl", recordings.life())


@pytest.fixture
def still(file: Path) -> Iterator[ScheduledEvents]:
    with ScheduledEvents(replay=file, clock="virtual", expect="none") as world:
        yield world


def begin(**wanted: Any) -> None:
    ScheduledEvents(**wanted).close()


def test_recording_is_replayed_to_its_end(still: ScheduledEvents) -> None:
    [vm] = still.vms
    program = Program(vm.url)
    assert (vm.name, program.events(), still.events) == ("web_0", [], [])
    still.advance("10s")
    [event] = still.events
    assert (event.id, event.type, event.vms) == (
        recordings.FREEZE,
        "Freeze",
        ("web_0",),
    )
    assert event.not_before == datetime(2030, 1, 1, 0, 15, tzinfo=UTC)
    assert [event_.id for event_ in vm.events] == [event.id]
    assert vm.document()["Events"] == program.events()
    event.assert_status("Scheduled")
    event.assert_not_approved()
    still.advance("3s")
    assert program.look() == [event.id]
    event.assert_approved("web_0", within="3s")
    assert event.wait_for_approval().by == event.approved_by == "web_0"
    # The replay does not change, with or without an approval.
    event.assert_status("Scheduled")
    assert still.step() == 47
    event.assert_status("Started")
    still.advance("30s")
    event.assert_status("Removed")
    event.wait_until("Started")
    still.advance("10s")
    assert [event_.id for event_ in still.wait_for_replay()] == [event.id]
    assert still.step() == 0


def test_missing_actions_of_a_client_are_reported(still: ScheduledEvents) -> None:
    program = Program(still.vm("web_0").url)
    program.events()
    still.advance("20s")
    event = still.wait_for_event("freeze", vm="web_0")
    with pytest.raises(NotSeenError, match=r"Freeze D4713D60 of web.* is not approved"):
        event.assert_approved()
    still.advance("45s")
    # The event has started: an approval gets 200 but is too late.
    assert program.approve(event.id) == 200
    with pytest.raises(NotSeenError, match="is not approved"):
        event.assert_approved()
    still.advance("30s")
    with pytest.raises(NotSeenError, match=r"\(Removed\) ended without an approval"):
        event.wait_for_approval()
    with pytest.raises(
        NotSeenError, match="no Reboot of web_0 was announced within 0 s"
    ):
        still.wait_for_event("Reboot", vm="web_0", timeout=0)
    with pytest.raises(NotSeenError, match="no event was announced within 0 s"):
        still.wait_for_event(timeout=0)


def test_removed_event_that_never_started_is_cancelled(tmp_path: Path) -> None:
    shown = recordings.event(recordings.REBOOT, event_type="Reboot")
    unknown = recordings.event(recordings.FREEZE, event_type="Levitate")
    played = recordings.recording(
        (0, recordings.document(1, shown, unknown)), (5, recordings.document(2))
    )
    file = recordings.write(tmp_path / "cancelled.jsonl", played)
    with ScheduledEvents(replay=str(file), clock="virtual") as world:
        program = Program(world.vm("web_0").url)
        assert len(program.events()) == 2
        # An unknown event has no type but can be approved.
        [event] = world.events
        assert program.approve(recordings.FREEZE) == 200
        world.advance("5s")
        event.assert_status("Cancelled")
        event.wait_until("Cancelled")


def test_faults_change_answers_of_failed_requests(tmp_path: Path) -> None:
    failure = Failed(failure=Failure.RESET)
    file = recordings.write(tmp_path / "f.jsonl", recordings.life(failure=failure))
    with ScheduledEvents(2, replay=file, clock="virtual") as world:
        first, second = world.vms
        assert (first.name, second.name) == ("web_0", "web_1")
        second.fault(503)
        assert http(first.events_url)[0] == 200
        assert http(second.events_url)[0] == 503
        second.clear_faults()
        world.advance("35s")
        with pytest.raises(OSError, match=r"reset|closed"):
            http(first.events_url)
        world.advance("10s")
        assert http(first.events_url)[0] == 200
        first.assert_asked(2)
        assert len(first.requests) == 3
        second.assert_approved_nothing()


@pytest.fixture
def lasting(tmp_path: Path) -> Path:
    """The recording of an event that is never removed, so that no client is too late."""
    shown = recordings.document(2, recordings.event())
    played = recordings.recording((0, recordings.document(1)), (2, shown), seconds=2)
    return recordings.write(tmp_path / "lasting.jsonl", played)


def test_replay_on_the_system_clock_starts_with_the_first_request(
    lasting: Path,
) -> None:
    with ScheduledEvents(replay=lasting, speed=20) as world:
        with pytest.raises(
            NotSeenError, match=r"no client polled within 0.05 s, so the rep"
        ):
            world.wait_for_replay(0.05)
        assert world.events == []
        with Program(world.vm("web_0").url).running():
            event = world.wait_for_event("Freeze", timeout=PATIENCE_SECONDS)
            assert event.wait_for_approval(PATIENCE_SECONDS).by == "web_0"
            assert world.wait_for_replay() == [event]
        event.assert_status("Scheduled")


def test_replay_can_be_paused(lasting: Path) -> None:
    with ScheduledEvents(replay=lasting, speed=1_000) as world:
        world.pause()
        assert Program(world.vm("web_0").url).events() == []
        with pytest.raises(NotSeenError, match="did not end within"):
            world.wait_for_replay(0.05)
        world.pause()
        world.resume()
        world.resume()
        [event] = world.wait_for_replay()
        assert event.status == "Scheduled"


def test_advance_starts_a_replay_and_shortens_the_time_to_not_before(
    file: Path,
) -> None:
    with ScheduledEvents(replay=file, expect="none") as world:
        world.advance("10s")
        [event] = world.events
        before = event.not_before
        world.advance("30s")
        assert 29 <= (before - event.not_before).total_seconds() <= 31
        world.advance("20s")
        event.assert_status("Started")
        with pytest.raises(NotSeenError, match=r"did not end within 0.01 s"):
            world.wait_for_replay(0.01)
        world.advance("1h")
        assert len(world.wait_for_replay()) == 1


def test_waits_of_a_replay_can_be_awaited(lasting: Path) -> None:
    async def main() -> None:
        world = ScheduledEvents(replay=lasting, speed=20)
        with world, Program(world.vm("web_0").url).running():
            event = await world.aio.wait_for_event(vm="web_0")
            await event.aio.wait_for_approval()
            assert len(await world.aio.wait_for_replay()) == 1

    asyncio.run(main())


def test_deviations_in_a_replay_are_reported(file: Path) -> None:
    with ScheduledEvents(2, replay=file, clock="virtual", expect="none") as world:
        other = Program(world.vm("web_1").url)
        other.events()
        world.advance("10s")
        other.approve(recordings.FREEZE)
        [told] = world.deviations
        assert told.startswith("web_1: The VM approved an event that does not name it")
    world = ScheduledEvents(replay=file, profile="strict", expect="none")
    with pytest.raises(NotSeenError, match="The path does not exist"), world:
        assert http(f"{world.vm('web_0').url}/metadata/x")[0] == 404


@pytest.mark.parametrize(
    "order",
    [
        lambda world: world.vm("web_0").reboot(),
        lambda world: world.vm("web_0").host,
        lambda world: world.vm("web_0").state,
        lambda world: world.vm("web_0").withhold(),
        lambda world: world.preempt("web_0"),
        lambda world: world.hosts,
        lambda world: world.add_vm("late"),
        lambda world: world.api_url,
        lambda world: world.run_scenario("rollout"),
        lambda world: world.wait_for_event().approve(),
        lambda world: world.wait_for_event().start(),
        lambda world: world.wait_for_event().waits_for[0],
    ],
)
def test_requests_for_events_are_refused_in_a_replay(
    still: ScheduledEvents, order: Callable[[ScheduledEvents], object]
) -> None:
    still.advance("10s")
    with pytest.raises((RefusedError, IndexError)) as caught:
        order(still)
    if caught.type is RefusedError:
        assert "its events cannot be changed\nhint: " in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"fleet": "[[vm]]"}, "fleet cannot be combined with replay"),
        ({"together": True}, "together cannot be combined with replay"),
        (
            {"settings": {"timing.recovery": "1m"}},
            "settings cannot be combined with replay",
        ),
        ({"scenario": "rollout"}, "scenario cannot be combined with replay"),
        ({"seed": 0}, "seed cannot be combined with replay"),
        ({"profile": "real"}, "the profile real cannot be combined with replay"),
        ({"vms": 0}, "1 to 10000 VMs, not 0"),
        ({"speed": 1e9}, r"speed must be at most 1e\+06"),
        ({"replay": "nowhere.jsonl"}, "nowhere.jsonl cannot be read: No such file"),
        ({"replay": "\0"}, "is not a valid file name"),
        ({"replay": 3}, "replay must be a string, or a Path, not 3"),
    ],
)
def test_options_that_a_replay_cannot_have_are_refused(
    file: Path, wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(ForewarnError, match=message):
        begin(**{"replay": file, **wrong})


def test_wait_for_replay_needs_a_recording() -> None:
    with ScheduledEvents(clock="virtual") as world:
        with pytest.raises(
            RefusedError, match="does not replay a recording\nhint: Beg"
        ):
            world.wait_for_replay()
        world.vm("web_1").freeze()
        assert world.wait_for_event("Freeze").vms == ("web_1",)
        assert world.wait_for_event(vm="web_1").type == "Freeze"


def test_wait_on_a_virtual_clock_is_refused(still: ScheduledEvents) -> None:
    with pytest.raises(RefusedError, match="the clock of this world stands still"):
        still.wait_for_replay()


@pytest.mark.parametrize("expect", ["scenario", "asked", "approved"])
def test_replay_without_a_client_fails_the_test(file: Path, expect: Any) -> None:
    world = ScheduledEvents(replay=file, clock="virtual", expect=expect)
    message = (
        r"did not meet the recording:\n  no client asked for the events of web_0\n"
    )
    with pytest.raises(NotSeenError, match=message), world:
        world.advance("1h")


def test_late_approval_fails_the_test(file: Path) -> None:
    world = ScheduledEvents(replay=file, clock="virtual", expect="approved")
    message = "web_0 did not approve Freeze D4713D60 of web_0 in the 50 s before it was"
    Program(world.vm("web_0").url).events()
    with pytest.raises(NotSeenError, match=message), world:
        world.advance("65s")


def test_approval_in_time_passes(file: Path) -> None:
    with ScheduledEvents(replay=file, clock="virtual", expect="approved") as world:
        program = Program(world.vm("web_0").url)
        program.events()
        world.advance("20s")
        program.look()
        world.advance("1h")
