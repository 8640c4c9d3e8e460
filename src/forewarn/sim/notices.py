"""When notices end to the microsecond, before they are rounded up to NotBefore.

NotBefore is a whole second (clause 2.7), up to a second after the end of the notice.
Somebody who lets the length of a notice pass at once expects the notice to be over,
at whatever part of a second the order was given.
"""

from collections import OrderedDict

from forewarn.instants import Micros, round_up_to_second
from forewarn.protocol.operations import Operation

ENDS_MAX = 10_000
"""Maximum number of operations whose notices are remembered, some 200 bytes each. The
notice of an older operation ends at its NotBefore."""


class NoticeEnds:
    """The ends of notices, by operation. It is memory of a simulation only."""

    def __init__(self) -> None:
        """Know none."""
        self._ends: OrderedDict[str, Micros] = OrderedDict()

    def not_before(self, operation_id: str, ends: Micros) -> Micros:
        """Return NotBefore for a notice that ends at `ends`, and remember the end.

        The first end stays for as long as NotBefore is the same.
        """
        not_before = round_up_to_second(ends)
        known = self._ends.get(operation_id)
        if known is None or round_up_to_second(known) != not_before:
            self._ends[operation_id] = ends
            if len(self._ends) > ENDS_MAX:
                self._ends.popitem(last=False)
        return not_before

    def move(self, operation_id: str, ends: Micros) -> None:
        """Remember that a notice ends at another instant."""
        self._ends[operation_id] = ends

    def of(self, operation: Operation) -> Micros:
        """Return the end of an operation's notice; NotBefore if no end is known."""
        ends = self._ends.get(operation.operation_id, operation.not_before)
        is_known = round_up_to_second(ends) == operation.not_before
        return ends if is_known else operation.not_before
