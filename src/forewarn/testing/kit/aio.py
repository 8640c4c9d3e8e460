"""The waits of VMs and events, for tests on an asyncio loop, which stays free."""

from forewarn.sim.journal import Seen
from forewarn.testing.kit import judging, requests
from forewarn.testing.kit.any_core import AnyCore
from forewarn.testing.kit.calls import checked
from forewarn.testing.kit.durations import Length, seconds_of
from forewarn.testing.kit.statuses import Approved, Status
from forewarn.testing.kit.waits import (
    APPROVAL_SECONDS,
    REQUEST_SECONDS,
    STATUS_SECONDS,
)


class AioVm:
    """The waits of a VM for tests on an asyncio loop, which stays free."""

    def __init__(self, core: AnyCore, name: str) -> None:
        """Wait for what the VM with this name does."""
        self._core = core
        self._name = name

    @checked
    async def wait_for_requests(
        self, count: int = 1, timeout: Length = REQUEST_SECONDS
    ) -> list[Seen]:
        """Wait as `Vm.wait_for_requests` does."""
        __tracebackhide__ = True
        core = self._core
        waiting = requests.visits(core, self._name, count, seconds_of(timeout))
        return await core.awaited(waiting)


class AioEvent:
    """The waits of an event for tests on an asyncio loop, which stays free."""

    def __init__(self, core: AnyCore, event_id: str) -> None:
        """Wait for what becomes of the event with this id."""
        self._core = core
        self._id = event_id

    @checked
    async def wait_for_approval(self, timeout: Length = APPROVAL_SECONDS) -> Approved:
        """Wait as `Event.wait_for_approval` does."""
        __tracebackhide__ = True
        waiting = judging.approval(self._core, self._id, seconds_of(timeout))
        return await self._core.awaited(waiting)

    @checked
    async def wait_until(
        self, status: Status, timeout: Length = STATUS_SECONDS
    ) -> None:
        """Wait as `Event.wait_until` does."""
        __tracebackhide__ = True
        waiting = judging.arrival(self._core, self._id, status, seconds_of(timeout))
        await self._core.awaited(waiting)

    @checked
    async def assert_not_approved(self, during: Length = 0.0) -> None:
        """Wait as `Event.assert_not_approved` does."""
        __tracebackhide__ = True
        await self._core.awaited(
            judging.silence(self._core, self._id, seconds_of(during))
        )
