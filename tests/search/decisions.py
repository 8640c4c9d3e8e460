"""What the model asks the product: every decision is made by the real code.

A question is translated into the rows that the code reads, and its answer is
remembered under the few numbers that it depends on. The code that is run is
`lifecycle.look_up` on the real tables, `obstacles.why_not_start` (and through it
`guard.guard` and `room.find_places`), `obstacles.counting_events` with
`consent.is_released`, and `admission.is_announced`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias, TypeVar

from forewarn.control import consent, obstacles, room
from forewarn.control.admission import is_announced
from forewarn.control.blockers import Blocker
from forewarn.fleet import model as fleet
from forewarn.fleet.model import HostState, ScopeKind, VmState
from forewarn.instants import MINUTE, Micros
from forewarn.protocol.errors import IllegalTransitionError
from forewarn.protocol.events import (
    Event,
    EventSource,
    EventStatus,
    EventType,
    Resource,
)
from forewarn.protocol.lifecycle import look_up
from forewarn.protocol.operations import (
    Move,
    Operation,
    OperationState,
    Request,
    RequestState,
    TargetKind,
)
from forewarn.store.kinds import Query, Range, Record
from forewarn.store.port import PAGE_ROWS
from tests.search.state import (
    DOWN,
    IMPACTING,
    NOTICED,
    READY,
    RECOVERING,
    STATES,
    Op,
    Vm,
    bits,
    place_of,
)
from tests.search.worlds import Setting, Slot

R = TypeVar("R", bound=Record)
S = TypeVar("S", bound=Enum)
I = TypeVar("I", bound=Enum)  # noqa: E741 - it stands for an input

NOW: Micros = 100 * MINUTE
Blocked: TypeAlias = tuple[tuple[Blocker, ...], Mapping[int, int]]
"""What keeps an operation from starting, and where each of its VMs would go."""

HOW = (VmState.RUNNING, VmState.DOWN, VmState.DELETED)


class Rows:
    """A reader over a handful of rows; each query asks its own function."""

    def __init__(self, rows: Sequence[Record]) -> None:
        self._rows = sorted(rows, key=lambda row: row.key)

    def get(self, kind: type[R], key: str) -> R | None:
        for row in self._rows:
            if isinstance(row, kind) and row.key == key:
                return row
        return None

    def select(
        self,
        query: Query[R],
        value: str = "",
        *,
        after: str = "",
        limit: int = PAGE_ROWS,
    ) -> list[R]:
        assert len(self._rows) < limit, "one page holds a small world"
        return [
            row
            for row in self._rows
            if isinstance(row, query.kind)
            and row.key > after
            and value in query.values(row)
        ]

    def due(self, over: Range[R], until: Micros, *, limit: int = PAGE_ROWS) -> list[R]:
        raise NotImplementedError

    def earliest(self, over: Range[R]) -> Micros | None:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Table:
    """A table of `lifecycle`, asked once about every state and input."""

    steps: Mapping[tuple[int, str], int]
    name: str

    def step(self, state: int, given: Enum) -> int:
        """Return the next state; raises IllegalTransitionError as the code does."""
        after = self.steps.get((state, given.name))
        if after is None:
            raise IllegalTransitionError(f"{self.name} {state} takes no {given.name}")
        return after


def table(steps: Mapping[S, Mapping[I, S]], inputs: type[I]) -> Table:
    """Return a table by numbers, as the real `look_up` answers it."""
    states = list(steps)
    answers: dict[tuple[int, str], int] = {}
    for number, state in enumerate(states):
        for given in inputs:
            try:
                after = look_up(steps, state, given)
            except IllegalTransitionError:
                continue
            answers[number, given.name] = states.index(after)
    return Table(answers, type(states[0]).__name__)


class Decisions:
    """The product's decisions in one world, remembered."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.scopes = [
            fleet.Scope(
                name=scope.name,
                tenant=scope.tenant,
                kind=ScopeKind.AVAILABILITY_SET,
                terminate_notice=setting.notice * MINUTE if scope.terminate else None,
            )
            for scope in setting.scopes
        ]
        self.templates = [self._template(slot) for slot in setting.slots]
        self._vms: dict[tuple[int, Vm, tuple[str, ...], int], fleet.Vm] = {}
        self._released: dict[object, bool] = {}
        self._blocked: dict[object, Blocked] = {}

    def announced(self, slot: Slot) -> int:
        """Return the scopes whose VMs' part in the operation is an event."""
        vm = self._vm(0, Vm(0, 0), (), -1)
        return sum(
            1 << number
            for number, scope in enumerate(self.scopes)
            if is_announced(slot.verb, scope, vm)
        )

    # Consent

    def is_released(self, ops: Sequence[Op | None], slot: int) -> bool:
        """Tell whether a noticed operation is let go."""
        op = ops[slot]
        assert op is not None
        here = self.setting.slots[slot]
        parts: list[tuple[int, int, int]] = []
        for number, other in enumerate(ops):
            if other is not None and (
                number == slot
                or (here.together and self.setting.slots[number].group == here.group)
            ):
                parts += [(number, other.events, other.approved)]
        # Of those that go together, only whoever waits counts; and who does not
        # wait has no part in it any more.
        waiting = tuple(
            part
            for part in parts
            if (other := ops[part[0]]) is not None and other.state in {NOTICED, READY}
        )
        key = (slot, waiting, op.left > 0)
        known = self._released.get(key)
        if known is None:
            known = self._released[key] = self._ask_consent(ops, slot)
        return known

    def _ask_consent(self, ops: Sequence[Op | None], slot: int) -> bool:
        rows = Rows([*self._operations(ops), *self._requests(), *self._events(ops)])
        operation = rows.get(Operation, self.setting.slots[slot].name)
        assert operation is not None
        events = obstacles.counting_events(rows, operation)
        return consent.is_released(operation, events, now=NOW)

    # What keeps an operation from starting

    def blocked(
        self, vms: Sequence[Vm], ops: Sequence[Op | None], down: int, slot: int
    ) -> Blocked:
        """Return what keeps a ready operation from starting, and its places."""
        key = (
            slot,
            tuple(vms),
            down,
            tuple(
                None
                if op is None
                else (op.state == IMPACTING, op.state >= IMPACTING)
                + (op.todo, op.done, op.places, op.host)
                for op in ops
            ),
        )
        known = self._blocked.get(key)
        if known is None:
            known = self._blocked[key] = self._ask_obstacles(vms, ops, down, slot)
        return known

    def _ask_obstacles(
        self, vms: Sequence[Vm], ops: Sequence[Op | None], down: int, slot: int
    ) -> Blocked:
        rows = Rows(
            [
                *self.scopes,
                *self._operations(ops),
                *self._requests(),
                *(
                    fleet.Host(
                        name=f"h{host}",
                        state=HostState.DOWN if down >> host & 1 else HostState.UP,
                    )
                    for host in range(self.setting.hosts)
                ),
                *self._vm_rows(vms, ops),
            ]
        )
        operation = rows.get(Operation, self.setting.slots[slot].name)
        assert operation is not None
        blockers = obstacles.why_not_start(rows, operation)
        names = [vm.name for vm in self.setting.vms]
        hosts = room.find_places(rows, operation).hosts
        return blockers, {
            names.index(name): int(host.removeprefix("h"))
            for name, host in hosts.items()
        }

    # Rows

    def _operations(self, ops: Sequence[Op | None]) -> list[Operation]:
        return [self._operation(slot, op) for slot, op in enumerate(ops) if op]

    def _operation(self, slot: int, op: Op) -> Operation:
        names = self.setting.vms
        return replace(
            self.templates[slot],
            state=STATES[op.state],
            host=f"h{op.host}",
            not_before=NOW + op.left * MINUTE,
            moves=tuple(
                Move(
                    vm=names[vm].name,
                    to_host=""
                    if (host := place_of(op.places, vm)) < 0
                    else f"h{host}",
                    done=bool(op.done >> vm & 1),
                )
                for vm in bits(op.vms)
            ),
            scopes=tuple(self.scopes[scope].name for scope in bits(op.scopes)),
        )

    def _template(self, slot: Slot) -> Operation:
        is_host = slot.kind is TargetKind.HOST
        return Operation(
            operation_id=slot.name,
            request=f"request {slot.group}",
            verb=slot.verb,
            action=slot.action,
            target_kind=slot.kind,
            target=f"h{slot.target}" if is_host else self.setting.vms[slot.target].name,
            host="",
            state=OperationState.PLANNED,
            routine=slot.routine,
            not_before=0,
            moves=(),
            scopes=(),
            duration_seconds=0,
            description="",
            created=0,
        )

    def _requests(self) -> list[Request]:
        return [
            Request(
                request_id=f"request {slot.group}",
                verb=slot.verb,
                actor="",
                reason="",
                state=RequestState.OPEN,
                together=slot.together,
                is_rollout=slot.rollout,
                created=0,
            )
            for slot in {slot.group: slot for slot in self.setting.slots}.values()
        ]

    def _events(self, ops: Sequence[Op | None]) -> list[Event]:
        return [
            Event(
                event_id=f"{self.setting.slots[slot].name} {self.scopes[scope].name}",
                operation=self.setting.slots[slot].name,
                scope=self.scopes[scope].name,
                tenant=self.scopes[scope].tenant,
                status=EventStatus.STARTED
                if op.state in {IMPACTING, RECOVERING}
                else EventStatus.SCHEDULED,
                event_type=EventType.FREEZE,
                source=EventSource.PLATFORM,
                resources=tuple(
                    Resource(vm=plan.name, name=plan.name, fault_domain=0)
                    for vm in bits(op.vms)
                    if (plan := self.setting.vms[vm]).scope == scope
                ),
                not_before=0,
                description="",
                duration_seconds=0,
                created=0,
                approved_by="somebody" if op.approved >> scope & 1 else "",
            )
            for slot, op in enumerate(ops)
            if op
            for scope in bits(op.events)
        ]

    def _vm_rows(
        self, vms: Sequence[Vm], ops: Sequence[Op | None]
    ) -> list[fleet.Vm]:
        rows: list[fleet.Vm] = []
        for number, vm in enumerate(vms):
            begun = [
                (slot, op)
                for slot, op in enumerate(ops)
                if op and op.state >= IMPACTING and op.vms >> number & 1
            ]
            goes = [
                host
                for _, op in begun
                if op.todo >> number & 1 and (host := place_of(op.places, number)) >= 0
            ]
            started = tuple(self.setting.slots[slot].name for slot, _ in begun)
            rows.append(self._vm(number, vm, started, goes[-1] if goes else -1))
        return rows

    def _vm(
        self, number: int, vm: Vm, started: tuple[str, ...], goes: int
    ) -> fleet.Vm:
        key = (number, vm, started, goes)
        known = self._vms.get(key)
        if known is None:
            plan = self.setting.vms[number]
            scope = self.scopes[plan.scope]
            known = self._vms[key] = fleet.Vm(
                name=plan.name,
                wire_name=plan.name,
                host=f"h{vm.host}",
                scope=scope.name,
                tenant=scope.tenant,
                view=scope.name,
                fault_domain=plan.fault_domain,
                vm_id="",
                state=HOW[vm.how],
                started=started,
                moving_to="" if goes < 0 else f"h{goes}",
            )
        return known


assert (NOTICED, READY, IMPACTING, RECOVERING) == (1, 2, 3, 4), "the tables' order"
assert HOW[DOWN] is VmState.DOWN
