"""Whether the listener of the operator API's process still takes connections.

A process may answer its service and yet accept nobody: its loop has lost the listener, or
no file is left for a connection. So it asks itself, as a client does, before it says that
it lives. What others' connections have proved just now is not asked.
"""

import asyncio
import contextlib
import socket

from forewarn.service import limits
from forewarn.service.admin_door import Door

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where one listens
"""Addresses of listeners at which nobody connects, and where one does instead."""


class OwnListener:
    """The listener, asked by its own process; used on one event loop."""

    def __init__(self, listener: socket.socket, door: Door) -> None:
        """Ask `listener`, whose connections are counted at `door`."""
        self._family = listener.family
        self._address = listener.getsockname()
        self._came = door.came

    async def takes_connections(self) -> bool:
        """Tell whether a connection came since the last time, or comes now."""
        if not self._came.is_set():
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(limits.API_REACH_SECONDS):
                    await self._connect()
        came = self._came.is_set()
        self._came.clear()
        return came

    async def _connect(self) -> None:
        """Return when a connection of ours, or another one, has come."""
        with socket.socket(self._family) as client:
            client.setblocking(False)
            await asyncio.get_running_loop().sock_connect(client, self._place())
            await self._came.wait()

    def _place(self) -> str | tuple[str, int]:
        if self._family == socket.AF_UNIX:
            return str(self._address)
        host, port = str(self._address[0]), int(self._address[1])
        return _EVERYWHERE.get(host, host), port
