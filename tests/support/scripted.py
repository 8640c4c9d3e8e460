"""A server that says what a test tells it to say, byte by byte, over real sockets."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager

Reply = bytes | Callable[[socket.socket], None]
"""Bytes that are sent at once, or what to do with the connection."""


def plain(body: bytes = b"{}", *, status: str = "200 OK", more: str = "") -> bytes:
    """Return a usual answer; `more` are headers with their line ends."""
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    return head.encode("latin-1") + body


def close(wire: socket.socket) -> None:
    wire.close()


class Scripted:
    """Answers each request with the next reply, and notes what came."""

    def __init__(
        self, replies: Iterable[Reply], *, context: ssl.SSLContext | None = None
    ) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self.ended = threading.Event()
        self._replies = iter(replies)
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                wire, _ = self._listener.accept()
                self.connections += 1
                self._open.append(wire)
                threading.Thread(target=self._talk, args=(wire,), daemon=True).start()

    def _talk(self, wire: socket.socket) -> None:
        with contextlib.suppress(OSError):
            if self._context is not None:
                wire = self._context.wrap_socket(wire, server_side=True)
                self._open.append(wire)
            while request := _request(wire):
                self.requests.append(request)
                reply = next(self._replies, None)
                if reply is None:
                    # Silence: the other side must end it.
                    self.ended.wait()
                    return
                if isinstance(reply, bytes):
                    wire.sendall(reply)
                else:
                    reply(wire)
        with contextlib.suppress(OSError):
            wire.close()

    def end(self) -> None:
        self.ended.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)
        for wire in self._open:
            with contextlib.suppress(OSError):
                wire.shutdown(socket.SHUT_RDWR)
            wire.close()


def _request(wire: socket.socket) -> bytes:
    """Return one request with its body; empty: the connection ended."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = wire.recv(65_536)
        if not piece:
            return b""
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    while len(body) < length:
        piece = wire.recv(65_536)
        if not piece:
            return b""
        body += piece
    return head + b"\r\n\r\n" + body


@contextmanager
def scripted(
    *replies: Reply, context: ssl.SSLContext | None = None
) -> Generator[Scripted]:
    """Have such a server for as long as the block takes; with `context`, over TLS."""
    server = Scripted(replies, context=context)
    try:
        yield server
    finally:
        server.end()
