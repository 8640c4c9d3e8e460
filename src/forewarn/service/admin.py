"""The operator API on its socket, on the service's own event loop."""

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import Generator

import uvicorn
from starlette.types import ASGIApp

from forewarn import __version__
from forewarn.admin.app import create_app
from forewarn.admin.metrics import Collect
from forewarn.admin.tokens import Tokens
from forewarn.admin.webhooks import WebhookGateway
from forewarn.clock import Clock, SystemClock
from forewarn.control.gateway import OperatorGateway
from forewarn.metadata.limits import Limits
from forewarn.service import limits, unix_socket
from forewarn.service.admin_connections import BoundedHttp
from forewarn.service.admin_door import Door, door_limits
from forewarn.service.listening import open_at, url_of
from forewarn.service.tls import Certificate


class _Quiet(uvicorn.Server):
    """A server that leaves signals to whoever runs the service."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Capture none."""
        yield


class AdminServer:
    """Serves the operator API until it is stopped."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        grace_seconds: float,
        bounds: Limits | None = None,
        tls: Certificate | None = None,
    ) -> None:
        """Serve `app`; requests under way have the grace when it stops.

        Without `bounds` the connections leave most files to whatever else runs in
        this process. With `tls` it speaks HTTPS.
        """
        if bounds is None:
            bounds = door_limits(share=limits.ADMIN_FILES_SHARE, is_tls=tls is not None)
        self.door = Door(bounds, monotonic=SystemClock().monotonic)
        self._server = _Quiet(
            uvicorn.Config(
                app,
                http=type("_Http", (BoundedHttp,), {"door": self.door, "tls": tls}),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=max(1, round(grace_seconds)),
            )
        )
        self._task: asyncio.Task[None] | None = None
        self._tls = tls
        self._renewing: asyncio.Task[None] | None = None
        self._socket = ""
        """The path of a Unix socket, which is removed at the end."""
        self.address = ("", 0)

    @property
    def url(self) -> str:
        """Return where it listens, as clients name it."""
        return url_of(self._socket or self.address, is_tls=self._tls is not None)

    async def start(self, listen: str) -> None:
        """Listen at a setting's address; raises OSError where it cannot be had."""
        self.serve(await open_at(listen))

    def serve(self, listener: socket.socket) -> None:
        """Serve on a socket that is bound, and is the server's to close."""
        if listener.family == socket.AF_UNIX:
            self._socket = str(listener.getsockname())
        else:
            self.address = listener.getsockname()[:2]
        self._task = asyncio.create_task(self._server.serve(sockets=[listener]))
        if self._tls is not None:
            self._renewing = asyncio.create_task(self._tls.keep())

    async def stop(self) -> None:
        """Take nothing new, finish what is under way within the grace."""
        if self._renewing is not None:
            self._renewing.cancel()
        if self._task is not None:
            self._server.should_exit = True
            await asyncio.wait([self._task])
            if self._socket:
                unix_socket.remove(self._socket)


def make_app(
    gateway: OperatorGateway,
    *,
    tokens: Tokens | None,
    collect: Collect,
    answered: Counter[str],
    receivers: WebhookGateway,
    clock: Clock | None = None,
) -> ASGIApp:
    """Return the service's application, in whichever process it runs."""
    return create_app(
        gateway,
        tokens=tokens,
        version=__version__,
        collect=collect,
        answered=answered,
        receivers=receivers,
        clock=clock,
    )
