"""A client of a planted server, without a socket: real HTTP on a turned clock."""

import math
from collections.abc import Callable

from forewarn.clock import VirtualClock
from forewarn.instants import MILLISECOND, SECOND, Micros
from forewarn.testing.client import HttpClient, Socket
from tests.support.planted.messages import Connection
from tests.support.planted.serving import ASKER, Backend

ANSWERED: Micros = 2 * MILLISECOND
"""The duration of each request."""


class _Wire:
    """A socket whose other end is a connection of the server."""

    def __init__(
        self, connection: Connection, pass_time: Callable[[Micros], None]
    ) -> None:
        self._connection = connection
        self._pass_time = pass_time
        self._come = b""
        self._seconds = 0.0

    def sendall(self, data: bytes, /) -> None:
        self._pass_time(ANSWERED)
        if self._connection.is_closing:
            raise BrokenPipeError("the other end is closed")
        self._come += self._connection.receive(bytes(data))

    def recv(self, size: int, /) -> bytes:
        if not self._come and not self._connection.is_closing:
            self._pass_time(round(self._seconds * SECOND))
            raise TimeoutError("timed out")
        taken, self._come = self._come[:size], self._come[size:]
        return taken

    def close(self) -> None:
        """Nothing to do: what has come can still be read."""

    def settimeout(self, seconds: float | None, /) -> None:
        self._seconds = seconds or 0.0


class PlantedClient(HttpClient):
    def __init__(self, backend: Backend, clock: VirtualClock, vm: str = ASKER) -> None:
        super().__init__("http://planted", timeout_seconds=math.inf, pause=self._wait)
        self._backend, self._clock, self._vm = backend, clock, vm

    def connect(self) -> Socket:
        return _Wire(self._backend.connection(self._vm), self._pass)

    def _pass(self, by: Micros) -> None:
        self._clock.advance_to(self._clock.now() + by)

    def _wait(self, seconds: float) -> None:
        self._pass(round(seconds * SECOND))
