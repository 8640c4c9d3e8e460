"""A life of a fleet: everything that can happen to it, checked at each step.

A life is a world with witnesses: its store, its driver and its guests. Each
method is an action, with numbers that choose the VMs and hosts that it affects,
so that a life can be written down and lived again. A refused action must
change nothing.
"""

import json
from collections.abc import Callable
from dataclasses import replace

from forewarn.control.requests import (
    approvals,
    cordons,
    failures,
    idempotency,
    outcome,
    verbs,
)
from forewarn.control.requests.idempotency import Once, Result
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.rules.obstacles import why_not_start
from forewarn.control.rules.policy import BrakeLimits, Policy
from forewarn.control.transactions.work import Work
from forewarn.drivers.port import Sighting, StopCause
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.fleet.model import HostState, VmState
from forewarn.instants import DAY, HOUR, MINUTE, SECOND
from forewarn.protocol.blockers import Blocker, NoCapacity, SharedHost
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.events import EventStatus
from forewarn.protocol.host_steps import StepKind
from forewarn.protocol.notes import Said
from forewarn.protocol.operations import (
    ENDED_STATES,
    WAITING_STATES,
    CallState,
    Verb,
)
from forewarn.settings.amounts import Amount
from forewarn.store.records import OrderKey
from tests.support.guests import VERSIONS
from tests.support.moments import seen_by
from tests.support.ordering import MAINTENANCE, UNKNOWN_ID, Ordering, Step
from tests.support.watched import stored
from tests.support.worlds import CrashError

FAULTS = tuple(FaultKind)
TAGS = ("", "last", "1", "2", "3", "7")
END_ROUNDS = 40


class Life(Ordering):
    """A world with witnesses, and everything that can happen to it."""

    _keys = 0
    """Idempotency-Keys that were used."""

    # Orders that come again

    def repeat(self, step: Step, place: str, count: int) -> None:
        """Order under an Idempotency-Key, perhaps die of it, and order again."""
        verb, decide = self._repeatable(step)
        before = self._requests_of(verb)
        self._keys += 1
        once = Once(caller="operator", key=f"key {self._keys}", digest="1" * 64)

        def order() -> Result | None:
            return self.order(lambda work: idempotency.carry_out(work, once, decide))

        at = self.world.passed[place] + count
        self.world.crash_at = lambda where, passed: where == place and passed == at
        first: Result | None = None
        try:
            first = order()
        except CrashError:
            self.crashed += 1
            self.restart_service()
        self.world.crash_at = lambda _place, _count: False
        stored = self.mirror.table(OrderKey).get(once.key_id)
        new_requests = self._requests_of(verb) - before
        assert bool(new_requests) == (stored is not None), (
            "S15: a key without its order, or none"
        )
        again = order()
        if stored is not None:
            assert again is not None, "S15: a repeated order is refused"
            assert again.is_repeated, "S15: a repeated order is carried out again"
            assert again.value == json.loads(stored.result), again
            assert first is None or first.value == again.value, (first, again)
            other = replace(once, digest="2" * 64)
            self.order(lambda work: idempotency.carry_out(work, other, decide))
        new_requests = self._requests_of(verb) - before
        assert len(new_requests) <= 1, f"S15: one order has made {new_requests}"

    def _repeatable(self, step: Step) -> tuple[Verb, Callable[[Work], str]]:
        """Return an order whose result can be kept, with its verb."""
        if step.name == "maintain":
            hosts = list(dict.fromkeys(map(self._host, step.args["hosts"])))
            action = MAINTENANCE[step.args["impact"] % len(MAINTENANCE)]
            return (
                Verb.MAINTAIN,
                lambda work: (
                    verbs.maintain(work, hosts, action, OrderOptions()).request_id
                ),
            )
        vms = self._vms(step.args["vms"])
        verb = Verb.REDEPLOY if step.args["redeploy"] else Verb.REBOOT
        return (
            verb,
            lambda work: verbs.change_vms(work, vms, verb, OrderOptions()).request_id,
        )

    def _requests_of(self, verb: Verb) -> set[str]:
        requests = self.mirror.requests.items()
        return {key for key, request in requests if request.verb is verb}

    # What VMs do

    def get(self, vm: int, version: int, tag: int) -> None:
        name = self._vm(vm)
        etag = TAGS[tag % len(TAGS)]
        if etag == "last":
            etag = str(self.guests.of(name).highest) if name in self.mirror.vms else ""
        api_version = VERSIONS[version % len(VERSIONS)]
        answer = self.world.vm(name).get(api_version, etag=etag)
        record = self.mirror.vms.get(name)
        if record is None or record.state is VmState.DELETED:
            assert answer.status == 404, answer
        elif answer.status == 304:
            self.guests.heard_nothing_new(record, etag)
        else:
            assert answer.status == 200, answer
            self.guests.heard(record, api_version, answer, now=self.world.now)

    def approve(self, vm: int, events: list[int], version: int) -> None:
        """POST what the VM may see, or not: events of anybody, and unknown ones."""
        name = self._vm(vm)
        ids = {self._any_event(name, number) for number in events}
        self._post(name, sorted(ids), VERSIONS[version % len(VERSIONS)])

    def approve_all(self) -> None:
        """Have each VM approve everything that it sees."""
        for vm in sorted(self.mirror.live_vms, key=lambda vm: vm.name):
            events = self.guests.shown_to(vm, now=self.world.now)
            if events and self.mirror.vms[vm.name].state is not VmState.DELETED:
                self._post(vm.name, [event.event_id for event in events], VERSIONS[-1])

    def _any_event(self, name: str, number: int) -> str:
        vm = self.mirror.vms.get(name)
        known = self.guests.of(name).known if vm else {}
        own = [event.event_id for event in seen_by(self.mirror, vm)] if vm else []
        if number % 8 == 7:
            return UNKNOWN_ID
        if number % 8 == 6:
            return self._event(number // 8)
        event_ids = sorted(own) if number % 8 < 4 and own else sorted(known)
        return (
            event_ids[number // 8 % len(event_ids)]
            if event_ids
            else self._event(number // 8)
        )

    def _post(self, name: str, ids: list[str], version: str) -> None:
        vm = self.mirror.vms.get(name)
        before = self.mirror.content()
        approved = self._approved()
        accept = self.guests.must_accept(vm, now=self.world.now) if vm else set[str]()
        refuse = self.guests.must_refuse(vm) if vm else set[str]()
        answer = self.world.vm(name).approve(*map(str.lower, ids), version=version)
        new = self._newly_approved(approved)
        if vm is None or vm.state is VmState.DELETED:
            assert answer.status == 404, answer
        elif set(ids) <= accept:
            assert answer.status == 200, f"3.2: {answer} to {ids}"
        elif UNKNOWN_ID in ids or refuse.intersection(ids):
            assert answer.status == 400, f"3.3: {answer} to {ids}"
        assert new <= set(ids), f"S4: approved besides: {new - set(ids)}"
        if answer.status != 200:
            assert before == self.mirror.content(), "3.3: refused, and changed"
            return
        self._acknowledged |= set(ids)
        self._check_acknowledged()
        if not new:
            assert before == self.mirror.content(), "S5: no effect, and changed"
        again = self.mirror.content()
        repeated = self.world.vm(name).approve(*ids)
        # It may have been deleted at once by what it approved.
        if self.mirror.vms[name].state is not VmState.DELETED:
            assert repeated.status == 200, f"S5: {repeated}"
        assert again == self.mirror.content(), "S5: repeated, and changed"

    def approve_for(self, number: int, as_vm: int) -> None:
        """Approve as the operator, or on behalf of a VM."""
        event_id = self._event(number)
        speaker = self._vm(as_vm) if as_vm >= 0 else ""
        approved = self._approved()
        commits = self.mirror.commits
        try:
            self.world.order(
                lambda work: approvals.approve_for(work, event_id, as_vm=speaker)
            )
        except RefusedError:
            assert self.mirror.commits == commits
            return
        assert self._newly_approved(approved) <= {event_id}

    def _check_acknowledged(self) -> None:
        """S11, 3.2: an approval that was answered with 200 stays."""
        for event_id in self._acknowledged:
            event = self.mirror.events.get(event_id)
            if event is not None and event.status is EventStatus.SCHEDULED:
                assert event.approved_by, event

    # Hypervisors

    def fault(self, kind: int, vm: int, times: int, how: int) -> None:
        elsewhere = ""
        fault_kind = FAULTS[kind % len(FAULTS)]
        is_elsewhere = fault_kind in {FaultKind.LIE, FaultKind.FAIL} and how & 4
        if is_elsewhere or fault_kind is FaultKind.LAND:
            elsewhere = self._host(how)
            self._crowded.add(elsewhere)
        self.hypervisor.inject(
            Fault(
                kind=fault_kind,
                vm=self._vm(vm) if vm >= 0 else "",
                times=times,
                leaves_down=how & 1 == 1,
                abortable=how & 2 == 2,
                elsewhere=elsewhere,
                spares_others=how & 8 == 8,
            )
        )

    def fault_step(self, kind: int, step: int, times: int) -> None:
        """Let some of the next host steps go wrong."""
        step_kind = tuple(StepKind)[step % len(StepKind)]
        fault_kind = FAULTS[kind % len(FAULTS)]
        self.hypervisor.inject(Fault(kind=fault_kind, step=step_kind, times=times))

    def see(self, vm: int, how: int, host: int) -> None:
        """A VM stops, runs again or runs elsewhere without a request."""
        elsewhere = self._host(host) if how & 2 else ""
        if elsewhere:
            self._crowded.add(elsewhere)
        self.hypervisor.see(
            Sighting(
                vm=self._vm(vm),
                running=how & 1 == 1,
                host=elsewhere,
                cause=StopCause.SHUT_DOWN if how & 4 else StopCause.FAILED,
                at=self.world.now,
            )
        )
        self.world.settle()
        self._settled()

    # Time and crashes

    def advance(self, seconds: float) -> None:
        self.world.advance(round(seconds * SECOND))
        self._settled()

    def advance_to_next(self, seconds: int) -> None:
        """Go to what is due next, or a little before or after."""
        due = self.world.plane.next_due()
        if due is not None:
            self.world.advance(max(0, due - self.world.now + seconds * SECOND))
            self._settled()

    def step_clock(self, seconds: float, *, is_down: bool) -> None:
        """Set the wall clock forward or back, while the service runs or is down."""
        by = round(seconds * SECOND)
        if is_down:
            self.world.clock.step(by)
            self.restart_service()
            self.world.settle()
        else:
            self.world.step_clock(by)
        self._settled()

    def restart_service(self, crash_after: int = 0) -> None:
        """Kill the service and start it; it may crash again as it starts."""
        content = self.mirror.content()
        self.process_ended()
        self.driver.process += 1
        if crash_after:
            world = self.world
            world.store.close()
            world.store = world._open_store()
            left = crash_after

            def is_time(_place: str, _count: int) -> bool:
                nonlocal left
                left -= 1
                return not left

            world.crash_at = is_time
            try:
                world.begin()
            except CrashError:
                self.crashed += 1
            content = self.mirror.content()
            self.driver.process += 1
        watched = self.world.read(stored) if not crash_after else content
        assert watched == content, "S11: the store has lost something"
        self.world.restart()
        assert self.world.read(stored) == self.mirror.content(), "S11"
        self._check_acknowledged()

    def lose_memory(self) -> None:
        """Kill the service, lose its driver's memory, and start it; it may crash again.

        The VMs keep the marks of the calls.
        """
        self.process_ended()
        self.driver.process += 1
        self.hypervisor = self.driver.inner = self._new_hypervisor()
        world = self.world
        crash_at = world.crash_at
        world.crash_at = lambda _place, _count: False
        world.store.close()
        world.store = world._open_store()
        world.crash_at = crash_at
        world.begin()
        self._settled()

    def crash(self, step: Step, place: str, count: int) -> None:
        """Do something, and die at the `count`-th passing of a checkpoint."""
        at = self.world.passed[place] + count
        self.world.crash_at = lambda where, passed: where == place and passed == at
        try:
            self.do(step)
        except CrashError:
            self.crashed += 1
        self.restart_service()

    def do(self, step: Step) -> None:
        """Do what a step says."""
        getattr(self, step.name)(**step.args)

    # The end

    def blockers(self, operation_id: str) -> tuple[Blocker, ...]:
        """Return what keeps an operation from starting."""
        return self.world.read(
            lambda reader: why_not_start(
                reader, self.world.operation(operation_id), now=self.world.now
            )
        )

    def end(self) -> None:
        """L1: with a working driver and nothing broken, everything ends."""
        self._see_all_running()
        self.hypervisor.clear()
        self.clear_windows()
        self.clear_blackouts()
        for _ in range(END_ROUNDS):
            self.take_brake_off()
            for name, host in sorted(self.mirror.hosts.items()):
                if host.state is HostState.DOWN:
                    self.order(lambda work, n=name: failures.restore_host(work, n))
                if host.cordons:
                    self.order(
                        lambda work, n=name: cordons.open_host(work, n, by_all=True)
                    )
            self._restore_and_skip()
            for operation in list(self.mirror.operations.values()):
                name = operation.operation_id
                if operation.call_state is CallState.UNKNOWN:
                    self.order(
                        lambda work, n=name: outcome.resolve(work, n, done=False)
                    )
                elif (
                    operation.state in WAITING_STATES
                    and any(
                        isinstance(blocker, NoCapacity)
                        for blocker in self.blockers(name)
                    )
                ) or any(
                    isinstance(blocker, (NoCapacity, SharedHost))
                    for blocker in operation.held_by
                ):
                    # It waits for room, or until VMs are apart, for as long as they
                    # are not.
                    self.order(
                        lambda work, n=name: verbs.cancel(
                            work, n, note=Said(text="end")
                        )
                    )
            is_over = self._end_orders()
            ended = all(
                op.state in ENDED_STATES for op in self.mirror.operations.values()
            )
            if ended and is_over:
                break
            self.advance(12 * HOUR / SECOND)
            self.check()
        left = [
            op for op in self.mirror.operations.values() if op.state not in ENDED_STATES
        ]
        assert not left, f"L1: never ended: {left}"
        for vm in self.mirror.live_vms:
            answer = self.world.vm(vm.name).get()
            self.guests.heard(
                self.mirror.vms[vm.name], VERSIONS[-1], answer, now=self.world.now
            )
            assert answer.events == [], f"L1: {vm.name} still sees {answer.events}"
        self.close()

    def _end_orders(self) -> bool:
        """Do what only operators can do to end their orders; return whether all ended."""
        return True

    def _restore_and_skip(self) -> None:
        for vm in sorted(self.mirror.live_vms, key=lambda vm: vm.name):
            if vm.state is VmState.DOWN:
                self.order(lambda work, n=vm.name: failures.restore_vm(work, n))
        for number in range(len(self.mirror.hosts)):
            self.end_visit(number, is_repeated=False)

    def _see_all_running(self) -> None:
        for vm in self.mirror.live_vms:
            self.hypervisor.see(Sighting(vm=vm.name, running=True, at=self.world.now))

    def close(self) -> None:
        """Let go of files."""
        self.world.store.close()


POLICIES = (
    Policy(),
    Policy(),
    Policy(recovery=0, sightings_max=1),
    Policy(driver_attempts=1, failure_notice=2 * DAY),
    Policy(first_answer_delay=2 * MINUTE, first_events_delay=5 * MINUTE),
    Policy(hold_max=HOUR, driver_timeout=5 * MINUTE, recovery=30 * MINUTE),
    Policy(brake=BrakeLimits(hosts=Amount(value=2), vms=4, per_rack=1, calm=HOUR)),
    Policy(campaigns_in_flight=2),
    Policy(driver_chooses=True),
)
