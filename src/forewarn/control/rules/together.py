"""Which decisions about operations may share a transaction.

A transaction raises the incarnation of a document once. So two operations of one scope are
decided one after the other, and its VMs see a document after each of them, as if each
decision had a transaction of its own.
"""

from collections.abc import Iterable

from forewarn.protocol.operations import Operation


def count_apart(operations: Iterable[Operation | None]) -> int:
    """Return how many of the first operations share no scope with one before them.

    None stands for an operation that does not exist any more.
    """
    seen: set[str] = set()
    count = 0
    for operation in operations:
        scopes = operation.scopes if operation is not None else ()
        if not seen.isdisjoint(scopes):
            break
        seen.update(scopes)
        count += 1
    return count
