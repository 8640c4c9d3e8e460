"""The endpoint on loopback: one port for each VM of the story."""

import contextlib
import selectors
import socket
import threading
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from functools import partial

from forewarn.clock import Clock, SystemClock
from tests.support.planted.catalog import Defect
from tests.support.planted.endpoint import EVENTS, REQUESTS_PER_SECOND, Endpoint
from tests.support.planted.fleet import FLEET
from tests.support.planted.messages import Connection
from tests.support.planted.story import QUICK, Pace, Story

ASKER = "web_0"
"""The VM whose endpoint is the one where only one is wanted."""

SEND_MAX = 10.0
"""Seconds that an answer may take to be sent: its reader is on the same machine."""

READ_MAX = 64 * 1024
"""Bytes that are taken at once."""


@dataclass(frozen=True, slots=True)
class Served:
    """The endpoints of the VMs of the story."""

    urls: Mapping[str, str]
    """For each VM, the beginning of its URL, such as `http://127.0.0.1:4711`."""
    story: Story

    @property
    def url(self) -> str:
        """Return the beginning of the URL of web_0."""
        return self.urls[ASKER]

    @property
    def events_url(self) -> str:
        """Return where web_0 asks for events, without an api-version."""
        return self.url + EVENTS


class Backend:
    """An endpoint with its story, healthy or with one defect."""

    def __init__(
        self,
        defect: Defect | None = None,
        *,
        pace: Pace = QUICK,
        clock: Clock | None = None,
        per_second: int = REQUESTS_PER_SECOND,
    ) -> None:
        self.clock = clock or SystemClock()
        self.story = (defect.story if defect else Story)(pace)
        kind = defect.endpoint if defect else Endpoint
        self.endpoint = kind(self.story, per_second=per_second)
        self._connection = defect.connection if defect else Connection

    def connection(self, vm: str) -> Connection:
        """Return a new connection of a VM."""
        return self._connection(partial(self.endpoint.answer, vm), self.clock.now)


class _Listening:
    """One thread that accepts, reads and answers for all ports, one thing at a time."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._selector = selectors.DefaultSelector()
        self._bell, self._ringer = socket.socketpair()
        self._selector.register(self._bell, selectors.EVENT_READ, self._end)
        self._is_over = False
        self.urls: dict[str, str] = {}
        for vm in FLEET:
            port = socket.create_server(("127.0.0.1", 0))
            self._read(port, partial(self._accept, port, vm))
            self.urls[vm] = f"http://127.0.0.1:{port.getsockname()[1]}"

    def run(self) -> None:
        """Serve until the end."""
        while not self._is_over:
            for key, _ in self._selector.select():
                key.data()
        for key in list(self._selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
        self._selector.close()

    def end(self) -> None:
        """Have `run` return; for another thread."""
        self._ringer.close()

    def _read(self, wire: socket.socket, then: Callable[[], None]) -> None:
        self._selector.register(wire, selectors.EVENT_READ, then)

    def _end(self) -> None:
        self._is_over = True

    def _accept(self, port: socket.socket, vm: str) -> None:
        wire, _ = port.accept()
        wire.settimeout(SEND_MAX)
        self._read(wire, partial(self._answer, wire, self._backend.connection(vm)))

    def _answer(self, wire: socket.socket, connection: Connection) -> None:
        """Take what has come; what comes after the last answer is passed over."""
        was_closing = connection.is_closing
        try:
            data = wire.recv(READ_MAX)
            if data and not was_closing:
                wire.sendall(connection.receive(data))
                if connection.is_closing:
                    # The client ends it, when it has read the answer.
                    wire.shutdown(socket.SHUT_WR)
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(wire)
            wire.close()


@contextlib.contextmanager
def serving(
    defect: Defect | None = None,
    *,
    pace: Pace | None = None,
    clock: Clock | None = None,
    per_second: int = REQUESTS_PER_SECOND,
) -> Generator[Served]:
    """Serve the story on loopback until the end of the block.

    It begins with the first good GET. With a clock that a test moves, so does it.
    Without a pace, it is the one in which the defect shows.
    """
    if pace is None:
        pace = defect.pace if defect else QUICK
    backend = Backend(defect, pace=pace, clock=clock, per_second=per_second)
    listening = _Listening(backend)
    thread = threading.Thread(target=listening.run)
    thread.start()
    try:
        yield Served(listening.urls, backend.story)
    finally:
        listening.end()
        thread.join()


@contextlib.contextmanager
def server(defect: Defect | None = None, *, pace: Pace | None = None) -> Generator[str]:
    """Serve the story; yield the URL at which web_0 asks for its events."""
    with serving(defect, pace=pace) as served:
        yield served.events_url
