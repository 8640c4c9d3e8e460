"""Why VMs are down unplanned, for operators.

An operator gives a reason with the failure. If a failed driver call left a VM down, the
driver said why, and the note of that operation has it.
"""

from forewarn.protocol.operations import Operation, OperationState, Request
from forewarn.store import kinds
from forewarn.store.port import Reader
from forewarn.wording import operators


def cause(reader: Reader, failure: Operation) -> str:
    """Return the reason of a failure, or what the driver said; empty: it is unknown."""
    request = reader.get(Request, failure.request)
    if request is not None and request.reason:
        return request.reason
    for vm in failure.vms[:1]:
        before = failure.operation_id
        for last in reader.latest(kinds.OPERATIONS_OF_VM, vm, before=before, limit=1):
            if last.state is OperationState.FAILED and last.ended_at == failure.created:
                return operators.note(last.note)
    return ""
