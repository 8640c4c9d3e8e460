"""A world with witnesses: its store, its driver, its guests, and time.

Whatever is committed, called or served is judged at once. Who does what to it is
in `tests/support/lives.py`.
"""

from pathlib import Path

from forewarn.control.policy import Policy
from forewarn.drivers.port import Call
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleet.model import Vm, VmState
from forewarn.protocol.events import EventStatus
from forewarn.protocol.operations import Action, CallState, OperationState
from forewarn.sim.world import World
from forewarn.store.memory import MemoryStore
from forewarn.store.port import Store
from forewarn.store.sqlite import SqliteStore
from tests.support import invariants
from tests.support.fleets import FleetPlan
from tests.support.guests import VERSIONS, Guests, members
from tests.support.invariants import Moment
from tests.support.watched import Change, Mirror, WatchedStore, stored
from tests.support.witness import WitnessDriver


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
    ) -> None:
        """Begin; `file` keeps the rows in SQLite, else they are in memory."""
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
        self._file = file
        self._memory = MemoryStore()
        self.hypervisor = SimulatedDriver(abort_share=abort_share)
        self.driver = WitnessDriver(self.hypervisor, self._called)
        self._world: World | None = None
        self._world = World(
            store=self._open, driver=self.driver, policy=self.policy, seed=seed
        )
        self.world.apply_fleet(plan.text())

    @property
    def world(self) -> World:
        """Return the world; there is none while it is being made."""
        assert self._world is not None
        return self._world

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
            if isinstance(one, Vm) and isinstance(two, Vm):
                same = one.scope == two.scope and one.fault_domain == two.fault_domain
                if not same:
                    self._relabelled |= {one.scope, two.scope}
        for scope in list(self._relabelled):
            if not any(vm.started for vm in self.mirror.live_vms if vm.scope == scope):
                self._relabelled.discard(scope)
        self.guests.committed(changes)
        moment = self.moment(changes)
        for invariant in invariants.EVERY_COMMIT:
            invariant(moment)

    def _called(self, call: Call) -> None:
        """S10: the call is durable, its events are served, nobody else is at it."""
        now = self.world.now
        content = self.world.read(stored)
        operation = self.mirror.operations[call.operation_id]
        assert content == self.mirror.content(), "what was told is not what is durable"
        assert operation.state is OperationState.IMPACTING, operation
        assert operation.generation == call.generation, (operation, call)
        assert operation.call_state is CallState.ISSUED, operation
        assert operation.action is call.action, (operation, call)
        for each in call.vms:
            vm = self.mirror.vms[each.vm]
            assert vm.state is not VmState.DELETED, (vm, call)
            assert vm.host == call.host, (vm, call)
            assert vm.moving_to == each.to_host, (vm, call)
            for other in self.mirror.operations.values():
                meets = (
                    other.operation_id != call.operation_id
                    and other.state is OperationState.IMPACTING
                    and other.action is not Action.NONE
                    and each.vm in other.vms
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
                served = self.world.endpoint._views[view.view_id].document
                assert served is not None, view
                shown = {each.event_id: each.status for each in served.events}
                assert (
                    now < view.events_from
                    or shown.get(event.event_id) is EventStatus.STARTED
                ), (event, view)

    def check(self) -> None:
        """Judge what is served, between two steps (S9)."""
        endpoint = self.world.endpoint
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
            if self.world.now >= max(view.events_from, view.due_at):
                expected = [
                    members(event, VERSIONS[-1])
                    for event in invariants.seen_by(self.mirror, vm)
                ]
                found = [members(event, VERSIONS[-1]) for event in served.events]
                assert found == expected, (vm, found, expected)

    def _settled(self) -> None:
        moment = self.moment()
        for invariant in invariants.SETTLED:
            invariant(moment)
