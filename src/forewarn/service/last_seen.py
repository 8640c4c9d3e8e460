"""When views were last asked for: taken from the endpoint, stored now and then."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping

from forewarn.instants import SECOND, Micros
from forewarn.protocol.errors import ForewarnError
from forewarn.service import limits
from forewarn.service.runner import Runner


class LastSeen:
    """Stores sightings; used on the event loop."""

    def __init__(
        self,
        runner: Runner,
        *,
        take: Callable[[], Mapping[str, Micros]],
        disable_after: Micros,
    ) -> None:
        """Have `runner` store what `take` gives, often enough for the disabling."""
        self._runner = runner
        self._take = take
        self._pause = min(limits.SIGHTINGS_SECONDS, disable_after / SECOND / 4)
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Store them now and then."""
        self._task = asyncio.create_task(self._keep())

    async def end(self) -> None:
        """Do so no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def note(self) -> None:
        """Store them now; what cannot be is seen again at the next request."""
        with contextlib.suppress(ForewarnError):
            seen = list(self._take().items())
            for start in range(0, len(seen), limits.SIGHTINGS_TOGETHER_MAX):
                some = dict(seen[start : start + limits.SIGHTINGS_TOGETHER_MAX])
                await self._runner.call(
                    lambda plane, now, some=some: plane.note_last_seen(some, now=now)
                )

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self._pause)
            await self.note()
