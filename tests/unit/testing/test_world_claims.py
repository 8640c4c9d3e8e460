"""Tests that assertions of a world cover all requests of its clients."""

import http.client
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import pytest

from forewarn.sim.journal import SEEN_MAX, Journal
from forewarn.testing import NotSeenError, ScheduledEvents, Vm
from forewarn.testing.client import HttpClient
from tests.support import recordings
from tests.support.programs import Program

EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"


def _ask(vm: Vm, path: str) -> int:
    return HttpClient(vm.url, timeout_seconds=5).ask("GET", path).status


def _poll(vm: Vm, count: int) -> None:
    """Send valid requests on one connection."""
    connection = http.client.HTTPConnection(urlsplit(vm.url).netloc, timeout=20)
    for _ in range(count):
        connection.request("GET", EVENTS, headers={"Metadata": "true"})
        connection.getresponse().read()
    connection.close()


def test_old_approvals_are_kept_as_evidence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "forewarn.sim.sim_server.Journal", lambda: Journal(requests_max=SEEN_MAX // 100)
    )
    with ScheduledEvents(vms=1) as world:
        vm = world.vm("web_0")
        event = vm.reboot()
        assert _ask(vm, "/metadata/nothing") == 404
        assert Program(vm.url).look() == [event.id]
        _poll(vm, 2 * SEEN_MAX // 100)
        assert all("nothing" not in seen.target for seen in world.journal)
        with pytest.raises(NotSeenError, match="The path does not exist"):
            world.assert_no_deviations(but="too-often")
        with pytest.raises(NotSeenError, match=f"web_0 approved {event.id[:8]}"):
            vm.assert_approved_nothing()
        world.clear_journal()
        vm.assert_approved_nothing()
        world.assert_no_deviations()


@pytest.mark.parametrize("clock", ["machine", "virtual"])
def test_advanced_time_counts_for_expectations(
    clock: Literal["machine", "virtual"],
) -> None:
    with ScheduledEvents(vms=2, clock=clock) as world:
        world.advance("1h")
        vm = world.vm("web_0")
        event = vm.reboot()
        world.advance("4m")
        world.advance("6m")
        Program(vm.url).look()
        with pytest.raises(NotSeenError, match=r"approved 600.* within 5 s"):
            event.assert_approved(within="5s")
        event.assert_approved(within="11m")
        assert 600 <= event.wait_for_approval().after.total_seconds() < 660
        # Requests after the approval do not count.
        other = world.vm("web_1").reboot()
        other.approve(vm="web_1")
        world.advance("10m")
        other.assert_approved(within="1m")


def test_only_a_successful_request_for_events_counts_as_polling() -> None:
    with ScheduledEvents(vms=1) as world:
        vm = world.vm("web_0")
        assert _ask(vm, "/metadata/scheduledevents?api-version=2099-01-01") == 400
        assert _ask(vm, "/metadata/instance?api-version=2021-02-01") == 200
        vm.fault("500 x1")
        assert _ask(vm, EVENTS) == 500
        with pytest.raises(NotSeenError, match=r"polled 0 times.*\(3 requests were"):
            vm.assert_asked()
        assert len(vm.requests) == 3
        assert _ask(vm, EVENTS) == 200
        vm.assert_asked()
        with pytest.raises(NotSeenError, match="polled 1 times; expected 4"):
            vm.assert_asked(4)


def test_withheld_approval_counts_for_the_client() -> None:
    with ScheduledEvents(vms=1) as world:
        vm = world.vm("web_0")
        vm.withhold()
        event = vm.reboot()
        Program(vm.url).look()
        event.assert_approved(by="web_0")
        assert event.wait_for_approval().by == "web_0"
        assert event.approved_by == ""


@pytest.mark.parametrize("clock", ["machine", "virtual"])
def test_advanced_time_counts_in_a_replay(
    tmp_path: Path, clock: Literal["machine", "virtual"]
) -> None:
    file = recordings.write(tmp_path / "life.jsonl", recordings.life())
    with ScheduledEvents(replay=file, clock=clock) as world:
        world.advance("10s")
        [event] = world.events
        world.advance("20s")
        assert Program(world.vms[0].url).look() == [event.id]
        with pytest.raises(NotSeenError, match="expected it within 15 s"):
            event.assert_approved(within="15s")
        event.assert_approved(within="40s")
