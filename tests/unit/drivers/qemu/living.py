"""Fake QEMUs in the process of a test, without processes of their own."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from forewarn.drivers.marks import Mark
from forewarn.drivers.qemu.places import Places
from forewarn.drivers.qemu.work import Order
from forewarn.protocol.operations import Action
from tests.support.fake_qemu import FakeQemu
from tests.support.fake_qemus import places_in


class Living:
    """The fake QEMUs of one test, and the settings of a driver for them."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.places: Places = places_in(directory, **settings)
        self._fakes: list[FakeQemu] = []
        self._ends: list[asyncio.Task[None]] = []

    async def start(self, vm: str = "web_0", host: str = "h1", **how: Any) -> FakeQemu:
        """Start one with both monitors."""
        fake = FakeQemu(**how)
        self._fakes.append(fake)
        for path in (
            self.places.monitor_of(vm, host),
            self.places.events_of(vm, host),
        ):
            path.parent.mkdir(exist_ok=True)
            await fake.listen(path)
        self._ends.append(asyncio.create_task(self._end(fake, vm, host)))
        return fake

    async def _end(self, fake: FakeQemu, vm: str, host: str) -> None:
        """End it as a process ends after `quit`."""
        await fake.has_ended.wait()
        await fake.close()
        for path in (self.places.monitor_of(vm, host), self.places.events_of(vm, host)):
            path.unlink(missing_ok=True)

    def run(self, story: Coroutine[Any, Any, None]) -> None:
        """Run a story, and end the fake QEMUs."""

        async def ended() -> None:
            try:
                await story
            finally:
                for task in self._ends:
                    task.cancel()
                await asyncio.gather(*self._ends, return_exceptions=True)
                for fake in self._fakes:
                    await fake.close()

        asyncio.run(ended())


def order_of(action: Action, *, seconds: int = -1, to_host: str = "") -> Order:
    """Return an order for web_0 on h1."""
    mark = Mark(operation_id="op-1", generation=1, work=action.value)
    return Order(
        action=action,
        vm="web_0",
        host="h1",
        to_host=to_host,
        seconds=seconds,
        mark=mark,
    )
