"""The brake comes on by itself when too many hosts or VMs are lost at once."""

import contextlib
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    rule,
    run_state_machine_as_test,
)

from forewarn.control.requests import brake, failures, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.rules.brake import in_force
from forewarn.control.rules.policy import BrakeLimits, Policy
from forewarn.drivers.port import Sighting, StopCause
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.fleet.model import Vm, VmState
from forewarn.instants import HOUR, MINUTE, SECOND, Micros
from forewarn.protocol.blockers import BrakeOn
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.notes import WithdrawnByBrake
from forewarn.protocol.operations import (
    Action,
    OperationState,
    Request,
    RequestState,
    Verb,
)
from forewarn.settings.amounts import Amount
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.store.records import BRAKE_KEY, AuditKind, Brake, Loss, Tally
from forewarn.wording import holds, operators
from tests.support.profiles import drawing_limit
from tests.support.worlds import CrashError, LastingStore, World

RACKS = 4
HOSTS = 12
FLEET = "".join(
    f'[[host]]\nname = "h{number:02}"\nrack = "r{number % RACKS}"\n'
    f'[[vm]]\nname = "web_{number:02}"\nhost = "h{number:02}"\n'
    f'[[vm]]\nname = "db_{number:02}"\nhost = "h{number:02}"\n'
    for number in range(HOSTS)
)

pytestmark = pytest.mark.clause("4.2")


def new_world(limits: BrakeLimits | None = None, *, attempts: int = 3) -> World:
    store = LastingStore()
    return World(
        store=lambda: store,
        driver=SimulatedDriver(),
        fleet=FLEET,
        policy=Policy(brake=limits or BrakeLimits(), driver_attempts=attempts),
    )


def hypervisor(world: World) -> SimulatedDriver:
    assert isinstance(world.driver, SimulatedDriver)
    return world.driver


def fail(world: World, *names: str, actor: str = "alice") -> None:
    for name in names:
        one = failures.fail_host if name.startswith("h") else failures.fail_vm
        world.order(lambda work, n=name, f=one: f(work, n), actor=actor)
    world.settle()


def maintain(world: World, *hosts: str, at_once: int = 1) -> None:
    wishes = OrderOptions(at_once=at_once)
    world.order(lambda work: verbs.maintain(work, hosts, Action.REBOOT, wishes))


def brake_of(world: World) -> Brake | None:
    return world.read(lambda reader: reader.get(Brake, BRAKE_KEY))


def tallies(world: World) -> dict[str, int]:
    """Return the tallies of hosts and losses of the whole fleet, those above 0."""
    names = ("hosts", "lost hosts", "lost vms")
    stored = world.read(lambda reader: [reader.get(Tally, name) for name in names])
    return {tally.name: tally.count for tally in stored if tally is not None}


def why_brake(reader: Reader) -> BrakeOn:
    found = in_force(reader)
    assert found is not None
    return found


def routine(world: World) -> list[OperationState]:
    return [work.state for work in world.operations() if work.verb is Verb.MAINTAIN]


def test_a_fourth_lost_host_puts_the_brake_on_and_withdraws_announced_work() -> None:
    world = new_world()
    world.vm("web_08").get()
    maintain(world, "h08")
    maintain(world, "h09", "h10", "h11", at_once=2)
    fail(world, "h00", "h01", "h02")
    assert brake_of(world) is None
    assert len(world.vm("web_08").get().events) == 1
    fail(world, "h03")
    found = brake_of(world)
    assert found is not None
    assert found.losses is not None
    assert found.losses.named == ("h00", "h01", "h02", "h03")
    assert world.vm("web_08").get().events == []
    # The hosts of the rollouts wait for the end of the brake.
    assert routine(world).count(OperationState.CANCELLED) == 3
    assert routine(world).count(OperationState.PLANNED) == 4
    with pytest.raises(RefusedError, match="no planned work is announced now"):
        maintain(world, "h07")
    world.advance("3h")
    assert routine(world).count(OperationState.PLANNED) == 4


def test_withdrawn_hosts_are_announced_after_the_brake_with_a_full_notice() -> None:
    world = new_world()
    world.vm("web_08").get()
    maintain(world, "h08")
    fail(world, "h00", "h01", "h02", "h03")
    (cancelled,) = [
        work for work in world.operations() if work.state is OperationState.CANCELLED
    ]
    note = cancelled.note
    assert isinstance(note, WithdrawnByBrake)
    assert operators.note(note) == (
        f"withdrawn by the brake; {note.successor} is announced after it"
    )
    (why,) = world.explain(note.successor)
    assert why == (
        "the brake is on until `forewarn brake off`, because 4 hosts were lost within "
        "10 m, more than 3: h00, h01, h02, h03"
    )
    world.advance("1h")
    world.order(brake.take_off, actor="bob")
    world.settle()
    again = world.operation(note.successor)
    assert again.state is OperationState.ANNOUNCED
    assert again.not_before >= world.now + world.plane.policy.reboot_notice
    world.advance("1h")
    assert world.operation(note.successor).state is OperationState.DONE
    # The order is complete: its request has ended with its last host.
    request = world.read(lambda reader: reader.get(Request, again.request))
    assert request is not None
    assert request.state is RequestState.CLOSED


def test_vms_are_still_told_of_failures() -> None:
    world = new_world()
    world.vm("web_05").get()
    fail(world, "h00", "h01", "h02", "h03", "web_05")
    (event,) = world.vm("web_05").get().events
    assert event["EventStatus"] == "Started"


def test_started_work_goes_on_and_requests_of_users_too() -> None:
    world = new_world()
    maintain(world, "h08")
    world.advance("15m")
    fail(world, "h00", "h01", "h02", "h03")
    world.order(
        lambda work: verbs.change_vms(work, ["web_09"], Verb.REBOOT, OrderOptions())
    )
    world.advance("1h")
    ended = [work for work in world.operations() if work.verb is not Verb.FAIL]
    assert {work.state for work in ended} == {OperationState.DONE}


def test_losses_apart_from_each_other_do_not_add_up() -> None:
    world = new_world()
    for host in ("h00", "h01", "h02", "h03", "h04", "h05"):
        fail(world, host)
        world.advance("4m")
    assert brake_of(world) is None
    assert tallies(world)["lost hosts"] == 2
    world.advance("10m")
    assert tallies(world) == {"hosts": HOSTS}
    assert world.read(lambda reader: reader.select(kinds.ALL_LOSSES)) == []


def test_a_host_that_is_lost_again_and_again_counts_once() -> None:
    world = new_world()
    for _ in range(5):
        fail(world, "h00")
        world.order(lambda work: failures.restore_host(work, "h00"))
    assert tallies(world)["lost hosts"] == 1
    fail(world, "h01", "h02")
    assert brake_of(world) is None


def test_a_percentage_is_one_of_the_fleet_and_at_least_one_host() -> None:
    world = new_world(BrakeLimits(hosts=Amount(value=25, is_percent=True)))
    fail(world, "h00", "h01", "h02")
    assert brake_of(world) is None
    fail(world, "h03")
    assert brake_of(world) is not None
    world = new_world(BrakeLimits(hosts=Amount(value=1, is_percent=True)))
    fail(world, "h00")
    assert brake_of(world) is None
    fail(world, "h01")
    assert brake_of(world) is not None


def test_hosts_of_one_rack_have_a_limit_of_their_own() -> None:
    world = new_world(BrakeLimits(hosts=Amount(value=0), per_rack=1))
    fail(world, "h00", "h01", "h02", "h03")
    assert brake_of(world) is None
    fail(world, "h05")
    assert world.read(lambda reader: holds.brake(why_brake(reader))) == (
        "the brake is on until `forewarn brake off`, because 2 hosts of rack r1 were "
        "lost within 10 m, more than 1: h01, h05"
    )


def test_vms_count_from_calls_sightings_and_orders() -> None:
    world = new_world(BrakeLimits(hosts=Amount(value=0), vms=4), attempts=1)
    fail(world, "web_00")
    hypervisor(world).inject(
        Fault(kind=FaultKind.FAIL, vm="web_08", times=1, leaves_down=True)
    )
    world.order(
        lambda work: verbs.change_vms(work, ["web_08"], Verb.REBOOT, OrderOptions())
    )
    world.advance("2m")
    assert tallies(world)["lost vms"] == 2
    # A host counts with its VMs, and a shutdown by the user does not count.
    hypervisor(world).see(
        Sighting(
            vm="web_04",
            running=False,
            cause=StopCause.SHUT_DOWN,
            host="",
            at=world.now,
        )
    )
    fail(world, "h09")
    world.advance("1m")
    assert tallies(world)["lost vms"] == 4
    assert brake_of(world) is None
    hypervisor(world).see(
        Sighting(
            vm="web_05", running=False, cause=StopCause.FAILED, host="", at=world.now
        )
    )
    world.advance("1m")
    found = brake_of(world)
    assert found is not None
    assert found.losses is not None
    assert found.losses.named == ("db_09", "web_00", "web_05", "web_08", "web_09")


def test_history_names_the_losses() -> None:
    world = new_world()
    fail(world, "h00", "h01", "h02", "h03")
    entries = world.read(lambda reader: reader.select(kinds.ALL_AUDIT))
    (entry,) = [entry for entry in entries if entry.kind is AuditKind.BRAKE_ON]
    assert (entry.actor.text, operators.detail_of(entry)) == (
        "brake",
        "because 4 hosts were lost within 10 m, more than 3: h00, h01, h02, h03",
    )


def test_a_calm_takes_it_off_and_each_loss_prolongs_it() -> None:
    world = new_world(BrakeLimits(calm=30 * MINUTE))
    maintain(world, "h08")
    fail(world, "h00", "h01", "h02", "h03")
    world.advance("20m")
    fail(world, "h04")
    world.advance("29m")
    assert brake_of(world) is not None
    assert OperationState.PLANNED in routine(world)
    world.advance("2m")
    assert brake_of(world) is None
    assert OperationState.ANNOUNCED in routine(world)


def test_an_operator_takes_it_over_so_that_no_calm_takes_it_off() -> None:
    world = new_world(BrakeLimits(calm=30 * MINUTE))
    fail(world, "h00", "h01", "h02", "h03")
    world.order(brake.put_on, actor="alice", reason="rack r1 has no power")
    world.advance("3h")
    assert world.read(lambda reader: holds.brake(why_brake(reader))) == (
        "the brake is on until `forewarn brake off`, because 4 hosts were lost within "
        "10 m, more than 3: h00, h01, h02, h03; by alice: rack r1 has no power"
    )
    world.order(brake.take_off, actor="alice")
    assert brake_of(world) is None


def test_losses_withdraw_what_an_operators_brake_has_only_held() -> None:
    world = new_world(BrakeLimits(calm=MINUTE))
    maintain(world, "h08")
    world.order(brake.put_on, actor="alice", reason="power is unstable")
    assert routine(world) == [OperationState.ANNOUNCED]
    fail(world, "h00", "h01", "h02", "h03")
    assert Counter(routine(world)) == Counter(
        [OperationState.CANCELLED, OperationState.PLANNED]
    )
    # A person who put it on takes it off.
    world.advance("1h")
    found = brake_of(world)
    assert found is not None
    assert (found.by.name, found.due_at) == ("alice", 0)


def test_an_operator_can_withdraw_announced_work_too() -> None:
    world = new_world()
    maintain(world, "h08")
    world.order(brake.put_on, actor="alice", reason="power is unstable")
    with pytest.raises(RefusedError, match="alice has already put the brake on"):
        world.order(brake.put_on, actor="bob", reason="me too")
    world.order(
        lambda work: brake.put_on(work, withdraw=True), actor="bob", reason="all out"
    )
    world.settle()
    assert Counter(routine(world)) == Counter(
        [OperationState.CANCELLED, OperationState.PLANNED]
    )


def test_losses_are_counted_anew_after_the_brake() -> None:
    world = new_world()
    fail(world, "h00", "h01", "h02", "h03")
    world.order(brake.take_off, actor="alice")
    fail(world, "h04", "h05", "h06")
    assert brake_of(world) is None
    fail(world, "h07")
    assert brake_of(world) is not None


def test_images_are_not_requested_again() -> None:
    fleet = (
        '[[host]]\nname = "h1"\n[[scope]]\nname = "set"\nkind = "scale-set"\n'
        'os_image_notice = "5m"\n[[vm]]\nname = "one"\nhost = "h1"\nscope = "set"\n'
    )
    store = LastingStore()
    world = World(store=lambda: store, driver=SimulatedDriver(), fleet=FLEET + fleet)
    world.order(
        lambda work: verbs.change_vms(work, ["one"], Verb.REIMAGE, OrderOptions())
    )
    fail(world, "h00", "h01", "h02", "h03")
    (image,) = [work for work in world.operations() if work.verb is Verb.REIMAGE]
    assert image.state is OperationState.CANCELLED
    assert operators.note(image.note) == "withdrawn by the brake"


def test_a_crash_at_any_place_withdraws_everything_in_the_end() -> None:
    for place in ("committed", "published"):
        for count in range(1, 4):
            world = new_world()
            for number in range(4, HOSTS):
                maintain(world, f"h{number:02}")
            fail(world, "h00", "h01", "h02")
            passed = dict(world.passed)
            world.crash_at = lambda where, seen, p=place, c=count, b=passed: (
                where == p and seen == b.get(p, 0) + c
            )
            with pytest.raises(CrashError):
                fail(world, "h03")
            world.restart()
            world.settle()
            assert brake_of(world) is not None, (place, count)
            assert OperationState.ANNOUNCED not in routine(world), (place, count)
            assert routine(world).count(OperationState.CANCELLED) == HOSTS - 4


def test_losses_and_calm_survive_a_restart_and_steps_of_the_clock() -> None:
    world = new_world(BrakeLimits(calm=30 * MINUTE))
    fail(world, "h00", "h01", "h02")
    world.step_clock(5 * HOUR)
    assert tallies(world)["lost hosts"] == 3
    world.restart()
    world.step_clock(-5 * HOUR)
    world.advance("5m")
    fail(world, "h03")
    assert brake_of(world) is not None
    world.step_clock(-2 * HOUR)
    world.advance("29m")
    assert brake_of(world) is not None
    world.advance("2m")
    assert brake_of(world) is None


def test_clock_that_was_set_back_while_the_service_was_down_keeps_no_loss_for_long() -> (
    None
):
    world = new_world(BrakeLimits(calm=30 * MINUTE))
    fail(world, "h00", "h01")
    world.clock.step(-5 * HOUR)
    world.restart()
    world.advance("11m")
    assert tallies(world) == {"hosts": HOSTS}
    fail(world, "h02", "h03", "h04", "h05")
    world.clock.step(-5 * HOUR)
    world.restart()
    world.advance("31m")
    assert brake_of(world) is None


def test_loss_and_tally_are_stored_values() -> None:
    world = new_world(BrakeLimits(vms=5))
    fail(world, "h01")
    losses = world.read(lambda reader: reader.select(kinds.ALL_LOSSES))
    assert [(loss.name, loss.rack) for loss in losses] == [
        ("host:h01", "r1"),
        ("vm:db_01", ""),
        ("vm:web_01", ""),
    ]
    assert all(isinstance(loss, Loss) for loss in losses)
    assert world.read(lambda reader: reader.get(Tally, "lost in r1")) is not None


class Losing(RuleBasedStateMachine):
    """Random losses and steps of the clock, beside a plain count of the last minutes."""

    def __init__(self) -> None:
        super().__init__()
        limits = BrakeLimits(hosts=Amount(value=2), vms=7, per_rack=1, calm=HOUR)
        self.world = new_world(limits)
        self.lost: dict[str, Micros] = {}
        """Time of each last loss on the monotonic clock."""

    @property
    def elapsed(self) -> Micros:
        return round(self.world.clock.monotonic() * SECOND)

    @rule(host=st.integers(0, HOSTS - 1))
    def lose_host(self, host: int) -> None:
        self.lose(f"h{host:02}")

    @rule(vm=st.integers(0, HOSTS - 1))
    def lose_vm(self, vm: int) -> None:
        self.lose(f"web_{vm:02}")

    def lose(self, name: str) -> None:
        before = brake_of(self.world)
        running = {vm.name for vm in self.vms() if vm.state is VmState.RUNNING}
        try:
            fail(self.world, name)
        except RefusedError:
            return
        if before is None:
            down = running - {
                vm.name for vm in self.vms() if vm.state is VmState.RUNNING
            }
            self.lost |= dict.fromkeys([*down, *[name][: name[0] == "h"]], self.elapsed)
        self.check(before)

    def vms(self) -> list[Vm]:
        return self.world.read(lambda reader: list(every(reader, kinds.ALL_VMS)))

    def check(self, before: Brake | None) -> None:
        since = self.elapsed - 10 * MINUTE
        recent = {name for name, at in self.lost.items() if at > since}
        hosts = [name for name in recent if name[0] == "h"]
        racks = Counter(int(name[1:]) % RACKS for name in hosts)
        is_much = (
            len(hosts) > 2
            or len(recent) - len(hosts) > 7
            or max(racks.values(), default=0) > 1
        )
        assert (brake_of(self.world) is not None) == (is_much or before is not None)

    @rule(host=st.integers(0, HOSTS - 1))
    def restore(self, host: int) -> None:
        with contextlib.suppress(RefusedError):
            self.world.order(lambda work: failures.restore_host(work, f"h{host:02}"))

    @rule(minutes=st.integers(1, 7))
    def wait(self, minutes: int) -> None:
        self.world.advance(minutes * MINUTE)
        if brake_of(self.world) is None:
            self.check(None)

    @rule(hours=st.sampled_from((-5, -1, 1, 5)))
    def step_clock(self, hours: int) -> None:
        self.world.step_clock(hours * HOUR)

    @rule()
    def take_off(self) -> None:
        with contextlib.suppress(RefusedError):
            self.world.order(brake.take_off, actor="alice")
            self.lost.clear()


@drawing_limit(60)
def test_count_of_losses_is_that_of_the_last_minutes() -> None:
    run_state_machine_as_test(
        Losing,
        settings=settings(max_examples=25, stateful_step_count=25, deadline=None),
    )
