"""Decide when a missing approval is late. Pure."""

from forewarn.instants import MINUTE, Micros
from forewarn.protocol.operations import Operation

LATE: Micros = 5 * MINUTE
"""An approval is late if less than this is left until NotBefore, or less than
one `LATE_SHARE`-th of a short notice. Then there is hardly time to prepare."""

LATE_SHARE = 4
"""Divisor of a short notice: an approval is late in the last quarter of it."""


def late_from(operation: Operation) -> Micros:
    """Return the time from which missing approvals of an announced operation are late."""
    notice = operation.not_before - operation.created
    return operation.not_before - min(LATE, notice // LATE_SHARE)
