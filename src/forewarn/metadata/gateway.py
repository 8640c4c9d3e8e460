"""The port through which the endpoint asks control.

Control may be in this process or in another; the endpoint only knows that an
answer takes time, and that there may be none.
"""

from collections.abc import Awaitable, Sequence
from typing import Protocol

from forewarn.fleet.instance import InstanceFacts
from forewarn.protocol.own_events import OwnEvents


class ControlGateway(Protocol):
    """Where questions go that published values do not answer.

    A ForewarnError means that control cannot answer now, and the VM is told to ask
    again (503). Nothing is known of an approval that met it: the VM repeats it, and a
    repeated approval does no harm (clause 3.2).
    """

    async def enable(self, vm: str) -> None:
        """Enable what `vm` is served (7.1); return after it has been published."""
        ...

    def approve(self, vm: str, event_ids: Sequence[str]) -> Awaitable[str | None]:
        """Approve the events for `vm`: None, or the sentence of a refusal (3.3).

        None means that the approval is durable and that the documents which
        follow from it have been published (3.2). It comes as a future, where that
        spares a task: many VMs may approve at once.
        """
        ...

    async def instance(self, vm: str) -> InstanceFacts | None:
        """Return what the instance endpoint tells `vm` of itself; None: gone."""
        ...

    async def own_events(self, vm: str) -> OwnEvents | None:
        """Return what `vm` may know of its own events; None: gone."""
        ...
