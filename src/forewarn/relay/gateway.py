"""The requests of the VMs of a host, which the relay passes on to the service."""

from collections.abc import Awaitable, Callable

from forewarn.clock import Clock
from forewarn.fleet.instance import InstanceFacts
from forewarn.forwarding.forwarder import Forwarder
from forewarn.forwarding.post import Post
from forewarn.forwarding.wire import UnreachableError
from forewarn.protocol.own_events import OwnEvents
from forewarn.relay.knowledge import Knowledge, Position, position_of

_UNKNOWN = 404


class RelayGateway(Forwarder):
    """The gateway of the metadata endpoint (metadata.gateway.ControlGateway)."""

    def __init__(
        self,
        *,
        approvals: Post,
        others: Post,
        knowledge: Callable[[], Knowledge],
        reached: Callable[[Position], Awaitable[None]],
        clock: Clock,
    ) -> None:
        """Send approvals with one `Post` and the rest with another.

        `reached` returns when the stream has reached a position.
        """
        super().__init__(
            to="/v1/relay",
            approvals=approvals,
            others=others,
            reached=lambda text: reached(position_of(text)),
            clock=clock,
        )
        self._posts = others
        self._knowledge = knowledge

    async def instance(self, vm: str) -> InstanceFacts | None:
        """Return the facts of the instance endpoint, which came with the VM."""
        guest = self._knowledge().guests.get(vm)
        return None if guest is None else guest.instance

    async def own_events(self, vm: str) -> OwnEvents | None:
        """Return nothing: a relay has no event details, so no VM can ask."""
        raise AssertionError(vm)

    async def confirm(self, position: Position) -> bool:
        """Confirm that a position is applied; return whether that is done."""
        body = {"position": position.text}
        try:
            await self._posts.send("/v1/relay/served", body)
        except UnreachableError as error:
            # A service of an earlier version waits for nothing.
            return error.status == _UNKNOWN
        return True
