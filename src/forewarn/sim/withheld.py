"""Approvals that a simulation keeps back, as if somebody else had yet to approve.

A VM cannot tell whether its own approval was the last that was needed: another
tenant on the same host may hold things up (clause 3.4). A test says so by
withholding: the VM is answered as ever, and nothing follows before `release`.
"""

from forewarn.control.approvals import Approval


class Withheld:
    """The VMs whose approvals are kept back, and what they approved."""

    def __init__(self) -> None:
        """Keep nothing back."""
        self._vms: set[str] = set()
        self._kept: list[Approval] = []

    def withhold(self, vm: str) -> None:
        """Keep back what the VM approves from now on."""
        self._vms.add(vm)

    def keep(self, approval: Approval) -> bool:
        """Tell whether the approval is kept back, and remember it then."""
        if approval.vm not in self._vms:
            return False
        self._kept.append(approval)
        return True

    def release(self, vm: str) -> list[Approval]:
        """Keep nothing of this VM back any more; return what it had approved."""
        self._vms.discard(vm)
        kept = [approval for approval in self._kept if approval.vm == vm]
        self._kept = [approval for approval in self._kept if approval.vm != vm]
        return kept
