"""Tests of a world: verbs, waits, assertions, faults, scenarios, ends."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from forewarn.control.requests import fleet_changes
from forewarn.fleet.file import read_fleet
from forewarn.protocol.errors import ForewarnError, RefusedError
from forewarn.testing import Event, NotSeenError, ScheduledEvents, Vm
from forewarn.testing.kit.core import live
from tests.support.processes import http
from tests.support.programs import Program

FLEET = """
[[tenant]]
name = "a"
[[tenant]]
name = "b"
[[host]]
name = "h1"
[[vm]]
name = "of_a"
host = "h1"
tenant = "a"
[[vm]]
name = "of_b"
host = "h1"
tenant = "b"
"""


@pytest.fixture
def world() -> Iterator[ScheduledEvents]:
    with ScheduledEvents() as world:
        yield world


@pytest.fixture
def still() -> Iterator[ScheduledEvents]:
    """A world with a virtual clock."""
    with ScheduledEvents(clock="virtual", seed=0) as world:
        yield world


# Events


def test_three_vms_each_have_an_address(world: ScheduledEvents) -> None:
    assert [vm.name for vm in world.vms] == ["web_0", "web_1", "web_2"]
    assert len({vm.url for vm in world.vms}) == 3
    assert world.hosts == ("h0", "h1", "h2", "spare")
    vm = world.vm("web_1")
    assert vm.environment() == {"FOREWARN_ENDPOINT": vm.url}
    assert vm.events_url.startswith(f"{vm.url}/metadata/scheduledevents?api-version=")
    assert http(vm.events_url) == (200, {"DocumentIncarnation": 1, "Events": []})
    assert (vm.host, vm.state) == ("h1", "running")


@pytest.mark.parametrize(
    ("order", "event_type", "source", "status"),
    [
        (lambda vm: vm.reboot(), "Reboot", "User", "Scheduled"),
        (lambda vm: vm.redeploy(), "Redeploy", "User", "Scheduled"),
        (lambda vm: vm.preempt(), "Preempt", "Platform", "Scheduled"),
        (lambda vm: vm.evict(), "Preempt", "Platform", "Scheduled"),
        (lambda vm: vm.terminate(), "Terminate", "User", "Scheduled"),
        (lambda vm: vm.freeze(), "Freeze", "Platform", "Scheduled"),
        (lambda vm: vm.live_migrate(), "Freeze", "Platform", "Scheduled"),
        (
            lambda vm: vm.maintain("redeploy"),
            "Redeploy",
            "Platform",
            "Scheduled",
        ),
        (lambda vm: vm.predict_failure(), "Redeploy", "Platform", "Scheduled"),
        (lambda vm: vm.fail(), "Reboot", "Platform", "Started"),
        (lambda vm: vm.event("freeze"), "Freeze", "Platform", "Started"),
        (
            lambda vm: vm.event(type="Reboot", source="user", notice="2s"),
            "Reboot",
            "User",
            "Scheduled",
        ),
    ],
)
def test_vm_sees_the_events_of_its_requests(
    still: ScheduledEvents,
    order: Callable[[Vm], Event],
    event_type: str,
    source: str,
    status: str,
) -> None:
    vm = still.vm("web_0")

    event = order(vm)

    [shown] = Program(vm.url).events()
    assert shown["EventId"] == event.id
    assert (shown["EventType"], shown["EventSource"]) == (event_type, source)
    assert (shown["EventStatus"], shown["Resources"]) == (status, ["web_0"])
    assert (event.type, event.status, event.vms) == (event_type, status, ("web_0",))
    assert vm.document()["Events"] == [shown]


def test_custom_notice_is_used(still: ScheduledEvents) -> None:
    event = still.vm("web_0").reboot(
        notice=timedelta(seconds=2), duration=9, description="Now."
    )
    assert event.not_before == datetime(2030, 1, 1, 0, 0, 2, tzinfo=UTC)
    assert event.json["DurationInSeconds"] == 9
    assert event.json["Description"] == "Now."
    still.advance(2)
    event.assert_status("Started")


def test_vms_on_one_host_share_an_event() -> None:
    with ScheduledEvents(vms=2, together=True) as world:
        [event] = world.maintain("h0", impact="freeze")
        assert event.vms == ("web_0", "web_1")
        assert world.vm("web_0").events[0].id == event.id


def test_several_vms_are_deleted_together(still: ScheduledEvents) -> None:
    events = still.terminate("web_0", "web_1")
    assert [event.type for event in events] == ["Terminate", "Terminate"]
    events[0].approve("web_0")
    events[0].assert_status("Scheduled")
    assert "has not approved the deletion of VM web_1" in events[0].waits_for[0]
    events[1].approve("web_1")
    events[0].assert_status("Started")
    assert still.event(events[0].id.lower()).id == events[0].id


def test_hosts_fail_and_are_restored(still: ScheduledEvents) -> None:
    [event] = still.fail("h1")
    assert event.vms == ("web_1",)
    assert still.vm("web_1").state == "down"
    still.restore("h1")
    event.assert_status("Removed")
    still.vm("web_2").fail()
    still.vm("web_2").restore()
    assert still.events == []


def test_first_request_enables_a_disabled_world() -> None:
    with ScheduledEvents(enabled=False, clock="virtual") as world:
        vm = world.vm("web_0")
        with pytest.raises(RefusedError, match="no document yet"):
            vm.document()
        assert Program(vm.url).events() == []
        assert vm.document()["Events"] == []


# Next steps


def test_approval_can_be_awaited(world: ScheduledEvents) -> None:
    vm = world.vm("web_0")
    with Program(vm.url).running():
        event = vm.preempt()
        approved = event.wait_for_approval()
        event.wait_until("Started")
    assert approved.by == event.approved_by == "web_0"
    assert timedelta() <= approved.after < timedelta(seconds=10)
    event.assert_approved(by="web_0", within="10s")
    event.finish()
    event.assert_status("Removed")
    assert vm.state == "deleted"


def test_time_advances_only_on_request(still: ScheduledEvents) -> None:
    event = still.vm("web_0").freeze()
    still.advance("14m59s")
    event.assert_status("Scheduled")
    still.advance(1.0)
    event.assert_status("Started")
    assert still.now == datetime(2030, 1, 1, 0, 15, tzinfo=UTC)
    assert still.step() > 0
    still.advance("1h")
    event.assert_status("Removed")
    event.wait_until("Started")


def test_advance_on_the_system_clock_shortens_the_time_to_not_before(
    world: ScheduledEvents,
) -> None:
    event = world.vm("web_0").freeze()
    before = event.not_before
    assert world.now < before
    world.advance("10m")
    assert timedelta(minutes=9) < before - event.not_before < timedelta(minutes=11)
    world.pause()
    world.resume()
    world.advance("6m")
    event.assert_status("Started")


def test_event_can_be_advanced_manually(still: ScheduledEvents) -> None:
    event = still.vm("web_0").reboot()
    event.start()
    event.assert_status("Started")
    event.recover()
    event.assert_status("Started")
    event.finish()
    event.assert_status("Removed")
    with pytest.raises(RefusedError):
        event.start()
    again = still.vm("web_0").reboot()
    again.cancel()
    again.wait_until("Cancelled")


def test_reasons_of_the_guard_are_reported(still: ScheduledEvents) -> None:
    (first,) = still.maintain("h0", impact="reboot")
    (second,) = still.maintain("h1", impact="reboot")
    first.start()
    with pytest.raises(RefusedError, match="cannot be Started yet: "):
        second.start()


def test_approval_can_be_withheld(still: ScheduledEvents) -> None:
    vm = still.vm("web_0")
    event = vm.freeze()
    still.withhold("web_0")
    assert Program(vm.url).look() == [event.id]
    assert event.wait_for_approval().by == "web_0"
    event.assert_approved(by="web_0")
    assert event.approved_by == ""
    event.assert_status("Scheduled")
    still.release("web_0")
    event.assert_status("Started")


def test_tenants_of_one_host_wait_for_each_other() -> None:
    with ScheduledEvents(fleet=FLEET, clock="virtual") as world:
        event = world.vm("of_a").freeze()
        assert world.vm("of_b").events[0].id != event.id
        event.approve("of_a")
        event.assert_status("Scheduled")
        world.vm("of_b").events[0].approve("of_b")
        event.assert_status("Started")
        with pytest.raises(RefusedError, match="cannot approve"):
            world.vm("of_b").events[0].approve("of_a")


def test_fleet_can_change_and_be_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text(FLEET, encoding="utf-8")
    with ScheduledEvents(fleet=file) as world:
        more = FLEET + '[[vm]]\nname = "third"\nhost = "h1"\ntenant = "a"\n'
        world.apply_fleet(more)
        assert Program(world.vm("third").url).events() == []


def test_vms_can_be_added_and_removed(world: ScheduledEvents) -> None:
    late = world.add_vm("late", spot=True)
    assert late.reboot().vms == ("late",)
    world.remove_vm("late")
    assert http(late.events_url)[0] == 404
    assert late.state == "deleted"


# Requests, faults, scenarios


def test_requests_can_be_awaited_and_asserted(world: ScheduledEvents) -> None:
    vm = world.vm("web_0")
    with Program(vm.url).running():
        entries = vm.wait_for_requests(2)
        assert len(world.wait_for_requests()) >= 1
    assert [seen.method for seen in entries] == ["GET", "GET"]
    vm.assert_asked(at_least=2)
    vm.assert_approved_nothing()
    world.assert_no_deviations()
    assert {seen.vm for seen in world.journal} == {"web_0"}
    world.clear_journal()
    assert vm.requests == []


def test_faults_change_answers(world: ScheduledEvents, tmp_path: Path) -> None:
    vm = world.vm("web_0")
    vm.fault("500 x2, 503")
    assert [http(vm.events_url)[0] for _ in range(4)] == [500, 500, 503, 200]
    assert world.faults.counts(vm="web_0") == {"500": 2, "503": 1}
    world.faults.set("404")
    assert http(world.vm("web_1").events_url)[0] == 404
    world.faults.clear()
    world.faults.play(["400", "ok"], loops=True)
    assert [http(vm.events_url)[0] for _ in range(3)] == [400, 200, 400]
    vm.clear_faults()
    assert http(vm.events_url)[0] == 200
    world.faults.clear()
    file = tmp_path / "faults.toml"
    file.write_text('[[fault]]\nfault = "500"\nvm = "web_2"\n', encoding="utf-8")
    world.faults.load(file)
    assert http(world.vm("web_2").events_url)[0] == 500


def test_world_can_start_with_faults_and_a_profile() -> None:
    with ScheduledEvents(faults="500 x1", profile="real", clock="virtual") as world:
        assert http(world.vm("web_0").events_url)[0] == 500


def test_strict_world_fails_on_a_deviation() -> None:
    world = ScheduledEvents(profile="strict")
    with pytest.raises(NotSeenError, match="api-version"), world:
        assert http(f"{world.vm('web_0').url}/metadata/scheduledevents")[0] == 400


@pytest.mark.slow
def test_operator_api_is_started_on_demand() -> None:
    with ScheduledEvents() as one, ScheduledEvents(vms=1) as other:
        assert one.api_url != other.api_url
        assert http(f"{one.api_url}/v1/reboot", {"vms": ["web_2"]})[0] == 201
        assert [event.type for event in one.events] == ["Reboot"]
        assert other.events == []
        status, told = http(f"{other.api_url}/v1/sim/vms")
        assert (status, len(told["vms"])) == (200, 1)
        new = {"name": "late"}
        assert http(f"{other.api_url}/v1/sim/vms", new)[0] == 201
        assert http(f"{other.api_url}/v1/sim/reset", {})[0] == 409


# Unmet expectations and invalid calls


def test_unmet_expectation_reports_the_actual_state(still: ScheduledEvents) -> None:
    vm = still.vm("web_0")
    event = vm.preempt()
    with pytest.raises(NotSeenError, match=r"Preempt .* was not approved within 0 s"):
        event.wait_for_approval(timeout=0)
    with pytest.raises(NotSeenError, match=r"expected Started within 0 s\n  because"):
        event.wait_until("Started", timeout=0)
    with pytest.raises(NotSeenError, match="is not approved"):
        event.assert_approved()
    with pytest.raises(AssertionError, match="expected Removed"):
        event.assert_status("Removed")
    with pytest.raises(NotSeenError, match="it is a failure, which does not wait for"):
        still.vm("web_2").fail().assert_approved(by="web_2")
    with pytest.raises(NotSeenError, match="web_0 polled 0 times; expected 1"):
        vm.assert_asked()
    with pytest.raises(NotSeenError, match="within 0 s; expected 2"):
        vm.wait_for_requests(2, timeout=0)
    event.assert_not_approved()
    still.advance(3)
    Program(vm.url).look()
    message = "web_0 approved 3 s after the announcement; expected none"
    with pytest.raises(NotSeenError, match=message):
        event.assert_not_approved()
    with pytest.raises(
        NotSeenError, match="3 s after the announcement; expected it within 2 s"
    ):
        event.assert_approved(within=2)
    with pytest.raises(NotSeenError, match="expected it from web_1"):
        event.assert_approved(by="web_1")
    with pytest.raises(NotSeenError, match=r"web_0 approved .*; expected nothing"):
        vm.assert_approved_nothing()
    other = still.vm("web_1").reboot()
    other.cancel()
    with pytest.raises(NotSeenError, match="ended without an approval"):
        other.wait_for_approval()
    with pytest.raises(NotSeenError, match="expected Started"):
        other.wait_until("Started")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda world: world.vms[0].event("Freeze", source="Me"), "no source"),
        (lambda world: world.run_scenario("nothing"), "does not exist"),
        (lambda _world: ScheduledEvents(vms=0), "1 to 10000 VMs"),
        (lambda _world: ScheduledEvents(settings={"x.y": "1"}), "x.y"),
        (lambda _world: ScheduledEvents(faults="nonsense"), "is not a kind of fault"),
        (lambda _world: ScheduledEvents(vms=2, fleet=FLEET), "vms has no effect with"),
        (
            lambda _world: ScheduledEvents(together=True, fleet=FLEET),
            "together has no effect with",
        ),
        (
            lambda _world: ScheduledEvents(vms=5, scenario="spot-preemption"),
            "spot-preemption has its own fleet, so vms has no effect",
        ),
    ],
)
def test_invalid_calls_are_refused(
    still: ScheduledEvents, wrong: Callable[[ScheduledEvents], object], message: str
) -> None:
    with pytest.raises(ForewarnError, match=message):
        wrong(still)


def test_approval_of_an_ended_event_raises_an_error(
    still: ScheduledEvents,
) -> None:
    cancelled, finished = still.vm("web_0").reboot(), still.vm("web_1").freeze()
    cancelled.cancel()
    finished.finish()
    for event, status in ((cancelled, "Cancelled"), (finished, "Removed")):
        for vm in ("", event.vms[0]):
            with pytest.raises(
                RefusedError, match=rf"\({status}\) has ended and cannot"
            ):
                event.approve(vm)
        with pytest.raises(
            RefusedError, match="can post the approval: the endpoint answers 2"
        ):
            event.approve()


def test_vm_added_by_a_fleet_change_is_available() -> None:
    text = FLEET + '[[vm]]\nname = "late"\nhost = "h1"\ntenant = "a"\n'
    with ScheduledEvents(fleet=FLEET, clock="virtual") as world:
        core = live(world._core)
        core.order(lambda work: fleet_changes.apply(work, read_fleet(text, name="f")))
        core.wait(core.open_all())
        assert world.vm("late").state == "running"


# The end


def test_worlds_are_independent() -> None:
    with ScheduledEvents() as one, ScheduledEvents() as other:
        one.vm("web_0").preempt()
        assert Program(other.vm("web_0").url).events() == []
        assert other.journal[0].vm == "web_0"
        assert one.journal == []


def test_worlds_can_run_in_many_threads() -> None:
    def live(number: int) -> tuple[str, ...]:
        with ScheduledEvents(vms=2, seed=number) as world:
            vm = world.vm("web_1")
            with Program(vm.url, "web_1").running():
                event = vm.preempt()
                event.wait_for_approval()
            return tuple(event.id for event in world.events)

    with ThreadPoolExecutor(8) as pool:
        lives = list(pool.map(live, range(40)))
    assert len(set(lives)) == 40
    assert lives == list(map(live, range(40)))


def test_exception_in_a_world_fails_the_test() -> None:
    world = ScheduledEvents()
    core = live(world._core)

    def broken() -> None:
        raise ZeroDivisionError

    def spoil() -> None:
        core.engine.settle = broken
        core.sim_server.wake()

    core.call(spoil)
    with pytest.raises(ZeroDivisionError):
        world.close()
