"""A state in the words of the code: the rows that a decision reads."""

from collections.abc import Sequence
from dataclasses import replace

from forewarn.fleet import model as fleet
from forewarn.fleet.model import HostState, ScopeKind, VmState
from forewarn.instants import MINUTE, Micros
from forewarn.protocol.actors import operator, vm_actor
from forewarn.protocol.events import (
    Event,
    EventSource,
    EventStatus,
    EventType,
    Resource,
)
from forewarn.protocol.operations import (
    Move,
    Operation,
    OperationState,
    Request,
    RequestState,
    TargetKind,
)
from tests.search.settings import Setting, Slot
from tests.search.state import IMPACTING, STATES, Op, Vm, bits, goes_to, place_of

NOW: Micros = 100 * MINUTE
HOW = (VmState.RUNNING, VmState.DOWN, VmState.DELETED)
"""The states of a VM by number."""


class Translation:
    """The rows of one world."""

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

    def operations(self, ops: Sequence[Op | None]) -> list[Operation]:
        """Return the open operations."""
        return [self.operation(slot, op) for slot, op in enumerate(ops) if op]

    def operation(self, slot: int, op: Op) -> Operation:
        """Return an open operation."""
        names = self.setting.vms
        return replace(
            self.templates[slot],
            state=STATES[op.state],
            host=f"h{op.host}",
            not_before=NOW + op.left * MINUTE,
            moves=tuple(
                Move(
                    vm=names[vm].name,
                    to_host="" if (host := place_of(op.places, vm)) < 0 else f"h{host}",
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

    def requests(self) -> list[Request]:
        """Return the requests; only how they bind matters to a decision."""
        return [
            Request(
                request_id=f"request {slot.group}",
                verb=slot.verb,
                actor=operator("search"),
                reason="",
                state=RequestState.OPEN,
                together=slot.together,
                is_rollout=slot.rollout,
                created=0,
            )
            for slot in {slot.group: slot for slot in self.setting.slots}.values()
        ]

    def events(self, ops: Sequence[Op | None]) -> list[Event]:
        """Return the live events."""
        return [
            Event(
                event_id=f"{self.setting.slots[slot].name} {self.scopes[scope].name}",
                operation=self.setting.slots[slot].name,
                scope=self.scopes[scope].name,
                tenant=self.scopes[scope].tenant,
                status=EventStatus.STARTED
                if op.state >= IMPACTING
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
                approver=vm_actor("a") if op.approved >> scope & 1 else None,
            )
            for slot, op in enumerate(ops)
            if op
            for scope in bits(op.events)
        ]

    def vm_rows(self, vms: Sequence[Vm], ops: Sequence[Op | None]) -> list[fleet.Vm]:
        rows: list[fleet.Vm] = []
        for number, vm in enumerate(vms):
            begun = [
                (slot, op)
                for slot, op in enumerate(ops)
                if op and op.state >= IMPACTING and op.vms >> number & 1
            ]
            started = tuple(self.setting.slots[slot].name for slot, _ in begun)
            rows.append(self.vm(number, vm, started, goes_to(ops, number)))
        return rows

    def vm(self, number: int, vm: Vm, started: tuple[str, ...], goes: int) -> fleet.Vm:
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

    def hosts(self, down: int) -> list[fleet.Host]:
        """Return the hosts."""
        return [
            fleet.Host(
                name=f"h{host}",
                state=HostState.DOWN if down >> host & 1 else HostState.UP,
            )
            for host in range(self.setting.hosts)
        ]
