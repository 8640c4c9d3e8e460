"""The time of each view's last request: read from the endpoint, stored periodically."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping

from forewarn.instants import SECOND, Micros
from forewarn.protocol.errors import ForewarnError
from forewarn.service import limits
from forewarn.service.runner import Runner


class LastSeen:
    """Stores last-seen times; used on the event loop."""

    def __init__(
        self,
        runner: Runner,
        *,
        take: Callable[[], Mapping[str, Micros]],
        disable_after: Micros,
    ) -> None:
        """Store the result of `take` with `runner`, often enough to disable unused
        views in time."""
        self._runner = runner
        self._take = take
        self._pause = min(limits.LAST_SEEN_SECONDS, disable_after / SECOND / 4)
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Start to store them periodically."""
        self._task = asyncio.create_task(self._keep())

    async def end(self) -> None:
        """Stop storing them periodically."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def note(self) -> None:
        """Store the times now; a lost time is replaced at the next request of the
        view."""
        with contextlib.suppress(ForewarnError):
            seen = list(self._take().items())
            for start in range(0, len(seen), limits.LAST_SEEN_TOGETHER_MAX):
                some = dict(seen[start : start + limits.LAST_SEEN_TOGETHER_MAX])
                await self._runner.call(
                    lambda plane, now, some=some: plane.note_last_seen(some, now=now)
                )

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self._pause)
            await self.note()
