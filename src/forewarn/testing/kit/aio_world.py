"""The waits of a world for tests on an asyncio loop, without blocking the loop."""

from collections.abc import Callable
from pathlib import Path

from forewarn.sim.journal import Seen
from forewarn.sim.scenario.run import Result
from forewarn.testing.kit import judging, orders, playing, replayed, requests
from forewarn.testing.kit.any_core import AnyCore
from forewarn.testing.kit.calls import checked
from forewarn.testing.kit.core import live
from forewarn.testing.kit.durations import Length, seconds_of
from forewarn.testing.kit.event import Event
from forewarn.testing.kit.playing import Playing
from forewarn.testing.kit.replayed import replaying
from forewarn.testing.kit.setup import ExpectName
from forewarn.testing.kit.waits import (
    EVENT_SECONDS,
    REQUEST_SECONDS,
)


class AioScheduledEvents:
    """The waits of a world for tests on an asyncio loop, without blocking the loop."""

    def __init__(self, core: AnyCore, begun: Callable[[], Playing]) -> None:
        """Wait for events of the world of `core`; `begun` returns its scenario."""
        self._core = core
        self._begun = begun

    @checked
    async def wait_for_requests(
        self, count: int = 1, timeout: Length = REQUEST_SECONDS
    ) -> list[Seen]:
        """Wait as `ScheduledEvents.wait_for_requests` does."""
        __tracebackhide__ = True
        waiting = requests.visits(self._core, "", count, seconds_of(timeout))
        return await self._core.awaited(waiting)

    @checked
    async def run_scenario(
        self,
        name: str | Path,
        timeout: Length | None = None,
        *,
        expect: ExpectName = "scenario",
    ) -> Result:
        """Run a scenario as `ScheduledEvents.run_scenario` does."""
        __tracebackhide__ = True
        scenario = playing.find_scenario(name)
        running = playing.run(live(self._core), scenario, timeout, expect)
        return await self._core.awaited(running)

    @checked
    async def wait_for_scenario(self, timeout: Length | None = None) -> Result:
        """Wait as `ScheduledEvents.wait_for_scenario` does."""
        __tracebackhide__ = True
        return await self._core.awaited(self._begun().end(timeout))

    @checked
    async def wait_for_event(
        self,
        type: str = "",  # noqa: A002 - the protocol's word
        *,
        vm: str = "",
        timeout: Length = EVENT_SECONDS,
    ) -> Event:
        """Wait as `ScheduledEvents.wait_for_event` does."""
        __tracebackhide__ = True
        core, kind = self._core, orders.type_or_any(type)
        waiting = judging.coming(core, kind, vm, seconds_of(timeout))
        return Event(core, await core.awaited(waiting))

    @checked
    async def wait_for_replay(self, timeout: Length | None = None) -> list[Event]:
        """Wait as `ScheduledEvents.wait_for_replay` does."""
        __tracebackhide__ = True
        core = replaying(self._core)
        found = await core.awaited(replayed.over(core, timeout))
        return [Event(core, each) for each in found]
