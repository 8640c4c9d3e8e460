"""Move the VMs of a host away one after the other.

A campaign that is halted or aborted stops this after the VM under way: the others stay
where they are, and the host gets no work.
"""

from forewarn.control.execution import calls, ending
from forewarn.control.rules import campaign_gate
from forewarn.control.transactions.work import Work
from forewarn.protocol.operations import Operation


def move_next(work: Work, operation: Operation) -> None:
    """Move the next VM, or end the impact after the last one."""
    if not calls.current_moves(operation):
        ending.impact_over(work, operation)
        return
    why = campaign_gate.why_drain_stops(work.tx, operation.request)
    if why is None:
        calls.issue(work, operation, attempts=1)
    else:
        ending.stop_drain(work, operation, why=why)
