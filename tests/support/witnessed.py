"""A world with witnesses: its store, its driver, its guests, and time.

Every commit, call and response is checked at once. The steps are in
`tests/support/lives.py`.
"""

from pathlib import Path

from forewarn.control.execution import calls
from forewarn.control.rules.policy import Policy
from forewarn.drivers.journal import MemoryJournal
from forewarn.drivers.port import Call, Report, VmVerdict
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleet.model import HostState, Vm, VmState
from forewarn.instants import CLOCK_STEP_MIN, SECOND
from forewarn.metadata.endpoint import Endpoint
from forewarn.protocol.events import EventStatus
from forewarn.protocol.host_steps import HostStep, StepKind
from forewarn.protocol.operations import (
    HALVES,
    MOVING_ACTIONS,
    Action,
    CallState,
    Operation,
    OperationState,
)
from forewarn.protocol.visits import Visit
from forewarn.store.memory import MemoryStore
from forewarn.store.port import Store
from forewarn.store.sqlite import SqliteStore
from tests.support import invariants, moments
from tests.support.fleets import FleetPlan
from tests.support.guests import VERSIONS, Guests, members
from tests.support.moments import Moment
from tests.support.watched import Change, Mirror, WatchedStore, stored
from tests.support.witness import WitnessDriver
from tests.support.worlds import World


class Witnessed:
    """A world with witnesses."""

    def __init__(
        self,
        plan: FleetPlan,
        *,
        policy: Policy | None = None,
        file: Path | None = None,
        seed: int = 0,
        abort_share: float = 1.0,
        is_blind: bool = False,
    ) -> None:
        """Begin; `file` keeps the rows in SQLite, else they are in memory.

        A blind driver cannot say where a VM is, so only its reports do.
        """
        self.plan = plan
        self.policy = policy or Policy()
        self.mirror = Mirror()
        self.guests = Guests(self.mirror)
        self.refused = 0
        self.crashed = 0
        self.is_broken = False
        """A judgement has failed: what follows would only repeat it."""
        self._acknowledged: set[str] = set()
        self._relabelled: set[str] = set()
        self._crowded: set[str] = set()
        self._moved: dict[str, tuple[str, str]] = {}
        """For each VM, the operation and the host of a move that the driver reported,
        until a commit records it."""
        self._moved_down = set[str]()
        """Those of them that did not run on the new host."""
        self._notices: dict[str, float] = {}
        """When each notice of this process has passed on the monotonic clock."""
        self._file = file
        self._memory = MemoryStore()
        self._abort_share = abort_share
        self._marks = MemoryJournal()
        """The marks that the VMs and hosts keep when the driver's memory is lost."""
        self.hypervisor = self._new_hypervisor()
        self.driver = WitnessDriver(
            self.hypervisor, self._called, self._told, is_blind=is_blind
        )
        self._world: World | None = None
        self._world = self._new_world(seed)
        self.world.apply_fleet(plan.text())

    @property
    def world(self) -> World:
        """Return the world; there is none while it is being made."""
        assert self._world is not None
        return self._world

    def _new_world(self, seed: int) -> World:
        """Return the service of this life."""
        return World(
            store=self._open, driver=self.driver, policy=self.policy, seed=seed
        )

    def _new_hypervisor(self) -> SimulatedDriver:
        """Return a driver with an empty memory, for the existing VMs."""
        return SimulatedDriver(
            abort_share=self._abort_share,
            targets=[host.name for host in self.plan.hosts],
            marks=self._marks,
        )

    def _open(self) -> Store:
        inner: Store = self._memory
        if self._file:
            inner = SqliteStore(self._file)
            # The process is killed here, never the machine: no disk need be waited
            # for, and that is most of the time that a story takes.
            assert inner._writer is not None
            inner._writer.run("PRAGMA synchronous = OFF")
        return WatchedStore(
            inner, self.mirror, self._committed, keep_open=not self._file
        )

    def move_to(self, file: Path) -> None:
        """Open another file, which is a copy of what is durable; leave the old one open."""
        self._file = file
        self.world.store = self._open()

    # Witnesses

    def moment(self, changes: list[Change] | None = None) -> Moment:
        """Return what the invariants are asked about."""
        return Moment(
            mirror=self.mirror,
            policy=self.policy,
            now=self.world.now,
            changes=changes or [],
            relabelled=frozenset(self._relabelled),
            crowded=frozenset(self._crowded),
        )

    def _committed(self, changes: list[Change]) -> None:
        for change in changes:
            one, two = change.before, change.after
            if (
                isinstance(two, Vm)
                and self._moved.get(two.name, ("", ""))[1] == two.host
            ):
                del self._moved[two.name]
            if isinstance(one, Vm) and isinstance(two, Vm):
                same = one.scope == two.scope and one.fault_domain == two.fault_domain
                if not same:
                    self._relabelled |= {one.scope, two.scope}
        for scope in list(self._relabelled):
            if not any(vm.started for vm in self.mirror.live_vms if vm.scope == scope):
                self._relabelled.discard(scope)
        self.guests.committed(changes)
        self._judge_notices(changes)
        moment = self.moment(changes)
        for invariant in invariants.EVERY_COMMIT:
            invariant(moment)

    def _judge_notices(self, changes: list[Change]) -> None:
        """S3: a step of the clock cuts no notice short, as long as the service runs."""
        if self._world is None:
            return
        clock = self.world.clock
        for change in changes:
            one, two = change.before, change.after
            if not isinstance(two, Operation):
                continue
            name = two.operation_id
            was = one.state if isinstance(one, Operation) else None
            if two.state is OperationState.ANNOUNCED:
                if was is not OperationState.ANNOUNCED:
                    left = (two.not_before - clock.now()) / SECOND
                    self._notices[name] = clock.monotonic() + left
            elif was is OperationState.ANNOUNCED and two.state in {
                OperationState.READY,
                OperationState.IMPACTING,
            }:
                ends = self._notices.pop(name, 0.0)
                events = self.mirror.events_of(name)
                # A VM that has left no longer needs to approve.
                live = [event for event in events if event.is_live]
                nobody = two.is_timed and not live
                if nobody or not all(event.is_approved for event in live):
                    left = ends - clock.monotonic()
                    assert left <= CLOCK_STEP_MIN / SECOND, (
                        f"S3: {left} s of {two} are left"
                    )

    def process_ended(self) -> None:
        """Forget the notices: after a restart the wall clock rules."""
        self._notices.clear()
        self.hypervisor.repeat_sightings()

    def _called(self, call: Call) -> None:
        """S10: the call is durable, its events are served, and no other call works on
        its VMs."""
        content = self.world.read(stored)
        if call.step is not None:
            assert content == self.mirror.content(), "a report is not durable"
            self._stepped(call, call.step)
            return
        operation = self.mirror.operations[call.operation_id]
        assert content == self.mirror.content(), "a report is not the durable state"
        assert operation.state is OperationState.IMPACTING, operation
        assert operation.generation == call.generation, (operation, call)
        assert operation.call_state is CallState.ISSUED, operation
        assert operation.call_action is call.action, (operation, call)
        for target in call.vms:
            vm = self.mirror.vms[target.vm]
            assert vm.state is not VmState.DELETED, (vm, call)
            assert vm.host == call.host, (vm, call)
            # Another operation may have reserved a place for a VM that stays.
            assert target.to_host in {"", vm.moving_to}, (vm, call)
            if target.to_host:
                assert self.mirror.hosts[target.to_host].state is HostState.UP, call
            for other in self.mirror.operations.values():
                meets = (
                    other.operation_id != call.operation_id
                    and other.state is OperationState.IMPACTING
                    and other.action is not Action.NONE
                    and target.vm in other.vms
                )
                assert not meets, (call, other)
        if call.action is Action.LIVE_MIGRATE:
            assert len(call.vms) == 1, call
        for event in self.mirror.events_of(call.operation_id):
            if not event.is_live:
                continue
            assert event.status is EventStatus.STARTED, event
            for view in self.mirror.views.values():
                if view.scope != event.scope or not view.is_enabled:
                    continue
                if view.vm and not event.names(view.vm):
                    continue
                for endpoint in self.answering():
                    served = endpoint._views[view.view_id].document
                    assert served is not None, view
                    shown = {event_.event_id: event_.status for event_ in served.events}
                    assert (
                        view.events_from
                        or shown.get(event.event_id) is EventStatus.STARTED
                    ), (event, view)

    def _stepped(self, call: Call, step: HostStep) -> None:
        """A host step is durable, a check is not announced, and work finds no VM."""
        visit = self.mirror.table(Visit)[call.operation_id]
        operation = self.mirror.operations[visit.operation]
        assert (visit.generation, visit.host) == (call.generation, call.host), visit
        assert visit.call_state is CallState.ISSUED, visit
        assert visit.current_kind is step.kind, visit
        events = self.mirror.events_of(operation.operation_id)
        if step.kind is StepKind.NEEDED:
            assert not events, "a tenant has heard of a host that may need nothing"
            return
        cordons = self.mirror.hosts[call.host].cordons
        assert any(cordon.by.name == visit.visit_id for cordon in cordons), visit
        if step.kind is StepKind.WORK and operation.action in MOVING_ACTIONS:
            there = [vm for vm in self.mirror.live_vms if vm.host == call.host]
            assert not there, (visit, there)
        if step.kind is StepKind.WORK and operation.action in HALVES:
            assert operation.holds_vms or not operation.moves, (visit, operation)

    def _told(self, report: Report) -> None:
        """Note which moves of the call under way are done, if a report says so."""
        operation = self.mirror.operations.get(report.operation_id)
        if (
            operation is None
            or operation.state is not OperationState.IMPACTING
            or operation.generation != report.generation
        ):
            return
        for move in calls.current_moves(operation):
            done = {
                result.vm: result.host
                for result in report.results
                if result.verdict is VmVerdict.DONE
            }
            if operation.driver_chooses and done.get(move.vm):
                # A scheduler heeds no rule of forewarn.
                self._crowded.add(done[move.vm])
            if not move.to_host or done.get(move.vm) not in {"", move.to_host}:
                continue
            # A report can be a lie, which the service sees if it looks.
            observed = self.hypervisor.observe([move.vm]).get(move.vm)
            if observed is not None and observed.host == move.to_host:
                self._moved[move.vm] = operation.operation_id, move.to_host
                if observed.running is False:
                    self._moved_down.add(move.vm)

    def _judge_moves(self) -> None:
        """S11: a VM that the driver moved is recorded where it is.

        A call after which its VM does not run is made again, and moves it once more.
        """
        for name, (operation_id, host) in self._moved.items():
            vm, operation = (
                self.mirror.vms.get(name),
                self.mirror.operations[operation_id],
            )
            is_repeated = (
                name in self._moved_down and operation.call_state is CallState.RETRY
            )
            is_left = name in operation.left_vms or is_repeated
            if vm is not None and vm.state is not VmState.DELETED and not is_left:
                assert vm.host == host, f"S11: moved to {host} by {operation_id}: {vm}"
        self._moved.clear()
        self._moved_down.clear()

    def answering(self) -> list[Endpoint]:
        """Return the endpoints from which VMs may have documents now."""
        return [self.world.endpoint]

    def check(self) -> None:
        """Judge what is served, between two steps (S9)."""
        for endpoint in self.answering():
            self._check(endpoint)

    def _check(self, endpoint: Endpoint) -> None:
        assert set(endpoint.directory.by_vm) == {vm.name for vm in self.mirror.live_vms}
        for vm in self.mirror.live_vms:
            view = self.mirror.views[vm.view]
            assert endpoint.directory.by_vm[vm.name].guest.view_id == vm.view, vm
            served = endpoint._views[vm.view].document
            if not view.is_enabled:
                assert served is None, view
                continue
            assert served is not None, view
            assert served.incarnation == view.incarnation, (served, view)
            if view.shows_events:
                expected = [
                    members(event, VERSIONS[-1])
                    for event in moments.seen_by(self.mirror, vm)
                ]
                served_events = [
                    members(event, VERSIONS[-1]) for event in served.events
                ]
                assert served_events == expected, (vm, served_events, expected)

    def _settled(self) -> None:
        self._judge_moves()
        moment = self.moment()
        for invariant in invariants.SETTLED:
            invariant(moment)
