"""A plane over a small fleet, whose commits are counted and logged."""

from forewarn.control.requests import verbs
from forewarn.control.requests.approvals import Approval
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.transactions.work import Who
from forewarn.protocol.actors import operator
from forewarn.protocol.operations import Action, Operation, OperationState
from forewarn.service.audit_log import AuditLog
from forewarn.service.metrics import Held, read_held
from forewarn.service.observed import ObservedStore
from forewarn.service.tally import Tally
from forewarn.store import kinds
from tests.unit.admin.gateway import LocalGateway


class Observed:
    """The gateway of the operator API's tests, with observed commits."""

    def __init__(self) -> None:
        self.gateway = LocalGateway()
        self.tally = Tally(self.gateway.clock)
        self.tally.load(self.gateway.store)
        self.gateway.plane.store = ObservedStore(
            self.gateway.store,
            clock=self.gateway.clock,
            listeners=(AuditLog(), self.tally),
        )

    def maintain(
        self, host: str = "h1", action: Action = Action.REBOOT, reason: str = ""
    ) -> str:
        """Request maintenance; return the operation's ID."""
        request = self.gateway.plane.order(
            Who(actor=operator("test"), reason=reason),
            lambda work: verbs.maintain(work, [host], action, OrderOptions()),
            now=self.gateway.now(),
        )
        [operation] = self.gateway.store.read(
            lambda reader: reader.select(
                kinds.OPERATIONS_OF_REQUEST, request.request_id
            )
        )
        return operation.operation_id

    def approve(self, operation_id: str, *vms: str) -> None:
        """Approve an operation's events as VMs that see them."""
        events = self.gateway.store.read(
            lambda reader: reader.select(kinds.EVENTS_OF_OPERATION, operation_id)
        )
        for vm in vms:
            for event in events:
                if any(resource.vm == vm for resource in event.resources):
                    post = Approval(vm=vm, event_ids=(event.event_id,))
                    assert self.gateway.plane.approve(
                        [post], now=self.gateway.now()
                    ) == (None,)

    def state(self, operation_id: str) -> OperationState:
        """Return the state of an operation."""
        operation = self.gateway.store.read(
            lambda reader: reader.get(Operation, operation_id)
        )
        assert operation is not None
        return operation.state

    def held(self) -> Held:
        """Return the reasons of waiting operations, as a scrape reads them."""
        open_operations = self.tally.open()
        return self.gateway.store.read(
            lambda reader: read_held(reader, open_operations, now=self.gateway.now())
        )
