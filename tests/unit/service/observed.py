"""A plane over a small fleet, whose commits are counted and logged."""

from forewarn.control.requests import verbs
from forewarn.control.requests.approvals import Approval
from forewarn.control.requests.verbs import Wishes
from forewarn.control.transactions.work import Who
from forewarn.protocol.actors import operator
from forewarn.protocol.operations import Action, Operation, OperationState
from forewarn.service.metrics import Held, look
from forewarn.service.observed import ObservedStore
from forewarn.service.tally import Tally
from forewarn.service.trail import Trail
from forewarn.store import kinds
from tests.unit.admin.desk import LocalDesk


class Observed:
    """The desk of the operator API's tests, observed."""

    def __init__(self) -> None:
        self.desk = LocalDesk()
        self.tally = Tally(self.desk.clock)
        self.tally.load(self.desk.store)
        self.desk.plane.store = ObservedStore(
            self.desk.store,
            clock=self.desk.clock,
            listeners=(Trail(), self.tally),
        )

    def maintain(
        self, host: str = "h1", action: Action = Action.REBOOT, reason: str = ""
    ) -> str:
        """Order maintenance; return the operation's id."""
        request = self.desk.plane.order(
            Who(actor=operator("test"), reason=reason),
            lambda work: verbs.maintain(work, [host], action, Wishes()),
            now=self.desk.now(),
        )
        [operation] = self.desk.store.read(
            lambda reader: reader.select(
                kinds.OPERATIONS_OF_REQUEST, request.request_id
            )
        )
        return operation.operation_id

    def approve(self, operation_id: str, *vms: str) -> None:
        """Approve an operation's events in the place of VMs that see them."""
        events = self.desk.store.read(
            lambda reader: reader.select(kinds.EVENTS_OF_OPERATION, operation_id)
        )
        for vm in vms:
            for event in events:
                if any(resource.vm == vm for resource in event.resources):
                    post = Approval(vm=vm, event_ids=(event.event_id,))
                    assert self.desk.plane.approve([post], now=self.desk.now()) == (
                        None,
                    )

    def state(self, operation_id: str) -> OperationState:
        """Return where an operation stands."""
        operation = self.desk.store.read(
            lambda reader: reader.get(Operation, operation_id)
        )
        assert operation is not None
        return operation.state

    def held(self) -> Held:
        """Return what a scrape would find of operations that wait."""
        standing = self.tally.open()
        return self.desk.store.read(
            lambda reader: look(reader, standing, now=self.desk.now())
        )
