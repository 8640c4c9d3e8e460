"""A world in its store and in the documents of its VMs, in the same pictures."""

from collections.abc import Mapping

from forewarn.fleet.model import HostState, Vm
from forewarn.instants import MINUTE
from forewarn.protocol.events import Event, EventStatus
from forewarn.protocol.operations import CallState, Operation, OperationState, Request
from forewarn.protocol.views import View
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from tests.search.model import Model
from tests.search.pictures import OpPicture, Picture, Shown, VmPicture, shown_left
from tests.search.state import GONE
from tests.search.translation import HOW
from tests.support.worlds import World


def slot_names(model: Model) -> Mapping[tuple[str, str, str], str]:
    """Return the slot of an operation by its verb, action and target."""
    return {
        (template.verb.value, template.action.value, template.target): slot.name
        for slot, template in zip(
            model.slots, model.decisions.rows.templates, strict=True
        )
    }


def name_of(model: Model, operation: Operation) -> str:
    """Return the name of an operation's slot."""
    return slot_names(model)[
        operation.verb.value, operation.action.value, operation.target
    ]


def open_operations(model: Model, world: World) -> dict[str, Operation]:
    """Return the open operations of a world by the names of their slots."""
    names = slot_names(model)
    by_name: dict[str, Operation] = {}
    for operation in world.read(
        lambda reader: list(every(reader, kinds.OPEN_OPERATIONS))
    ):
        name = names[operation.verb.value, operation.action.value, operation.target]
        assert name not in by_name, f"{name} is open twice"
        by_name[name] = operation
    return by_name


def of_world(model: Model, world: World) -> Picture:
    """Return what the world says."""
    return world.read(lambda reader: _Seen(model, world, reader).picture())


class _Seen:
    """A world in its store, and in the documents of its VMs."""

    def __init__(self, model: Model, world: World, reader: Reader) -> None:
        self.model = model
        self.world = world
        self.reader = reader
        self.slots = {
            operation.operation_id: name
            for name, operation in open_operations(model, world).items()
        }

    def picture(self) -> Picture:
        vms: dict[str, VmPicture] = {}
        documents: dict[str, tuple[int, Shown] | None] = {}
        for plan in self.model.setting.vms:
            vm = self.reader.get(Vm, plan.name)
            assert vm is not None, plan
            if vm.state is not HOW[GONE]:
                vms[plan.name] = VmPicture(
                    state=vm.state.value,
                    host=vm.host,
                    started=frozenset(self.slots[slot] for slot in vm.started),
                    moving_to=vm.moving_to,
                )
                documents[plan.name] = self.document(vm)
        hosts = every(self.reader, kinds.ALL_HOSTS)
        return Picture(
            ops={
                name: self.operation(self.reader.get(Operation, operation_id))
                for operation_id, name in self.slots.items()
            },
            vms=vms,
            down=frozenset(h.name for h in hosts if h.state is HostState.DOWN),
            documents=documents,
        )

    def operation(self, operation: Operation | None) -> OpPicture:
        assert operation is not None
        request = self.reader.get(Request, operation.request)
        assert request is not None
        events = [
            event
            for event in every(
                self.reader, kinds.EVENTS_OF_OPERATION, operation.operation_id
            )
            if event.status is not EventStatus.REMOVED
        ]
        return OpPicture(
            state=operation.state.value,
            left=self.left(operation),
            moves={move.vm: (move.to_host, move.done) for move in operation.moves},
            # A call that was stopped by its VM's leaving is none any more.
            call=operation.call_state.value
            if operation.state is OperationState.IMPACTING
            else CallState.NONE.value,
            host=operation.host,
            request=request.state.value,
            events={
                event.scope: (
                    event.status.value,
                    tuple(resource.vm for resource in event.resources),
                    event.status is EventStatus.SCHEDULED and event.is_approved,
                )
                for event in events
            },
        )

    def left(self, operation: Operation) -> int | None:
        """Return the ticks until the operation's timer, where it matters."""
        hold = self.model.setting.hold
        now = self.world.now
        if operation.state is OperationState.ANNOUNCED:
            left = (operation.not_before - now) // MINUTE
            return shown_left(self.model.setting, left)
        if operation.state is OperationState.READY:
            return (
                (operation.not_before - now) // MINUTE
                if (hold and operation.routine)
                else None
            )
        if (
            operation.state is OperationState.IMPACTING
            and operation.call_state is not CallState.RETRY
        ):
            return None
        return (operation.due_at - now) // MINUTE

    def document(self, vm: Vm) -> tuple[int, Shown] | None:
        view = self.reader.get(View, vm.view)
        assert view is not None, vm
        answer = self.world.vm(vm.name).glance()
        if not view.is_enabled:
            assert answer is None, f"{vm.name} is served although no VM asked"
            return None
        assert answer is not None, f"{vm.name} is served nothing"
        assert answer.incarnation == view.incarnation, vm.name
        shown: dict[str, tuple[str, tuple[str, ...]]] = {}
        for entry in answer.events:
            event = self.reader.get(Event, entry["EventId"])
            assert event is not None, entry
            shown[self.slots[event.operation]] = (
                entry["EventStatus"],
                tuple(entry["Resources"]),
            )
        return answer.incarnation, shown
