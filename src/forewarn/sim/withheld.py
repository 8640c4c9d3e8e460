"""Approvals that a simulation keeps back, as if somebody else had yet to approve.

A VM cannot tell whether its own approval was the last that was needed: another
tenant on the same host may hold things up (clause 3.4). A test says so by
withholding: the VM is answered as ever, and nothing follows before `release`.
"""

from collections.abc import Callable

from forewarn.control.requests.approvals import Approval
from forewarn.instants import Micros


class Withheld:
    """The VMs whose approvals are kept back, and what they approved."""

    def __init__(self) -> None:
        """Keep nothing back."""
        self._vms: set[str] = set()
        self._kept: list[Approval] = []
        self._since: dict[str, tuple[str, Micros]] = {}
        self.on_keep: Callable[[Approval], None] = lambda _approval: None
        """Told of each approval that is kept back."""

    @property
    def vms(self) -> frozenset[str]:
        """Return the VMs whose approvals are kept back."""
        return frozenset(self._vms)

    def withhold(self, vm: str) -> None:
        """Keep back what the VM approves from now on."""
        self._vms.add(vm)

    def keep(self, approval: Approval, *, now: Micros) -> bool:
        """Tell whether the approval is kept back, and remember it then."""
        if approval.vm not in self._vms:
            return False
        self._kept.append(approval)
        for event_id in approval.event_ids:
            self._since.setdefault(event_id, (approval.vm, now))
        self.on_keep(approval)
        return True

    def kept(self, event_id: str) -> tuple[str, Micros]:
        """Return who approved an event first and was kept back, and when, or ""."""
        return self._since.get(event_id, ("", 0))

    def release(self, vm: str) -> list[Approval]:
        """Keep nothing of this VM back any more; return what it had approved."""
        self._vms.discard(vm)
        kept = [approval for approval in self._kept if approval.vm == vm]
        self._kept = [approval for approval in self._kept if approval.vm != vm]
        self._since = {
            event_id: (by, since)
            for event_id, (by, since) in self._since.items()
            if by != vm
        }
        return kept
