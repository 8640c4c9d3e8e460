"""The port through which the endpoint sends requests to control.

Control may be in this process or in another. The endpoint only assumes that a result
takes time and may fail to arrive.
"""

from collections.abc import Awaitable, Sequence
from typing import Protocol

from forewarn.fleet.instance import InstanceFacts
from forewarn.protocol.own_events import OwnEvents


class ControlGateway(Protocol):
    """Requests to control that published values cannot answer.

    A ForewarnError means that control cannot respond now, and the VM gets 503. The
    state of an approval is then unknown: the VM repeats it, and a repeated
    approval has no further effect (clause 3.2).
    """

    async def enable(self, vm: str) -> None:
        """Enable the view of `vm` (7.1); return after it has been published."""
        ...

    def approve(self, vm: str, event_ids: Sequence[str]) -> Awaitable[str | None]:
        """Approve the events for `vm`: None, or the message of a refusal (3.3).

        None means that the approval is durable and that the resulting documents have
        been published (3.2). The result may be a future, which saves a task: many VMs
        may approve at once.
        """
        ...

    async def instance(self, vm: str) -> InstanceFacts | None:
        """Return the facts of the instance endpoint for `vm`; None: deleted."""
        ...

    async def own_events(self, vm: str) -> OwnEvents | None:
        """Return the event details that `vm` may see; None: deleted."""
        ...
