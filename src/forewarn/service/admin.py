"""The operator API on its socket, on the service's own event loop."""

import asyncio
import contextlib
import socket
from collections.abc import Generator

import uvicorn
from starlette.types import ASGIApp

BACKLOG = 128
"""Connections that the kernel keeps while the loop is busy: operators are few."""


class _Quiet(uvicorn.Server):
    """A server that leaves signals to whoever runs the service."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Capture none."""
        yield


class AdminServer:
    """Serves the operator API until it is stopped."""

    def __init__(self, app: ASGIApp, *, grace_seconds: float) -> None:
        """Serve `app`; requests under way have the grace when it stops."""
        self._server = _Quiet(
            uvicorn.Config(
                app,
                http="httptools",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=max(1, round(grace_seconds)),
            )
        )
        self._task: asyncio.Task[None] | None = None
        self.address = ("", 0)

    async def start(self, host: str, port: int) -> None:
        """Listen; raises OSError where the address cannot be had."""
        infos = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, address = infos[0]
        opened = socket.socket(family, kind, protocol)
        try:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            opened.setblocking(False)
            opened.bind(address)
            opened.listen(BACKLOG)
        except OSError:
            opened.close()
            raise
        self.address = opened.getsockname()[:2]
        self._task = asyncio.create_task(self._server.serve(sockets=[opened]))

    async def stop(self) -> None:
        """Take nothing new, finish what is under way within the grace."""
        if self._task is not None:
            self._server.should_exit = True
            await asyncio.wait([self._task])
