"""Which decisions about operations may share a transaction.

A transaction raises the incarnation of a document once. So two operations of one scope are
decided one after the other, and its VMs see a document after each of them, as if each
decision had a transaction of its own.

A planned host is decided alone. Whether it may be announced depends on sums of rooms (the
budgets of a campaign, the reserve), which a transaction writes when it ends.
"""

from collections.abc import Iterable

from forewarn.protocol.operations import Operation, OperationState


def count_apart(operations: Iterable[Operation | None]) -> int:
    """Return how many of the first operations may share a transaction.

    None stands for an operation that does not exist any more.
    """
    used_scopes: set[str] = set()
    count = 0
    for operation in operations:
        scopes = operation.scopes if operation is not None else ()
        is_planned = operation is not None and operation.state is OperationState.PLANNED
        if not used_scopes.isdisjoint(scopes) or (is_planned and count):
            break
        used_scopes.update(scopes)
        count += 1
        if is_planned:
            break
    return count
