"""An endpoint for one watcher, which records the times of its requests and responses.

It responds like Azure, without an ETag, so that a watcher parses the whole document each
time.
"""

import json
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from email.utils import formatdate
from pathlib import Path
from typing import Any

PIECE_BYTES = 65_536

VM = "web_0"


def event(number: int, kind: str, *, seconds: float) -> dict[str, Any]:
    """Return an event that starts in some seconds."""
    return {
        "EventId": f"{number:08X}-0000-4000-8000-000000000000",
        "EventStatus": "Scheduled",
        "EventType": kind,
        "ResourceType": "VirtualMachine",
        "Resources": [VM],
        "NotBefore": formatdate(time.time() + seconds, usegmt=True),
        "Description": "Host server is undergoing maintenance.",
        "EventSource": "Platform",
        "DurationInSeconds": -1,
    }


class Endpoint:
    """Listens on loopback until it is closed."""

    def __init__(self, files: tuple[Path, Path] | None = None) -> None:
        """Start without events; `files` are a certificate and its key, for TLS."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._context: ssl.SSLContext | None = None
        if files is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(*files)
        scheme = "https" if files else "http"
        self.url = f"{scheme}://127.0.0.1:{self._listener.getsockname()[1]}"
        self.served: dict[str, float] = {}
        """The machine's time of the first response with each event."""
        self.approved: dict[str, float] = {}
        """The time of its approval."""
        self.asked = 0
        """Number of document requests."""
        self.first_asked = 0.0
        """The time of the first one."""
        self.to_fail = 0
        """Number of next requests to reject."""
        self._incarnation = 0
        self._events: list[dict[str, Any]] = []
        self._body = b""
        self.show()
        threading.Thread(target=self._accept, daemon=True).start()

    def show(self, *events: dict[str, Any]) -> None:
        """Set the events of the document."""
        self._incarnation += 1
        self._events = list(events)
        document = {"DocumentIncarnation": self._incarnation, "Events": self._events}
        self._body = json.dumps(document).encode()

    def forget_asked(self) -> None:
        """Forget the first request."""
        self.asked = 0

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            if self._context is not None:
                connection = self._context.wrap_socket(connection, server_side=True)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(
                target=self._serve, args=(connection,), daemon=True
            ).start()

    def _serve(self, connection: socket.socket) -> None:
        unread = b""
        with connection:
            try:
                while True:
                    while b"\r\n\r\n" not in unread:
                        piece = connection.recv(PIECE_BYTES)
                        if not piece:
                            return
                        unread += piece
                    head, _, unread = unread.partition(b"\r\n\r\n")
                    line, *lines = head.decode("latin-1").split("\r\n")
                    headers = {
                        name.lower(): value.strip()
                        for name, _, value in (line.partition(":") for line in lines)
                    }
                    length = int(headers.get("content-length", "0"))
                    while len(unread) < length:
                        unread += connection.recv(PIECE_BYTES)
                    body, unread = unread[:length], unread[length:]
                    connection.sendall(self._answer(line, body))
            except OSError:
                return

    def _answer(self, line: str, body: bytes) -> bytes:
        now = time.time()
        if line.startswith("POST"):
            wanted: Mapping[str, list[Mapping[str, str]]] = json.loads(body)
            for start in wanted["StartRequests"]:
                self.approved.setdefault(start["EventId"], now)
            return _written("200 OK", b"{}")
        if "/instance" in line:
            return _written("200 OK", json.dumps({"compute": {"name": VM}}).encode())
        if not self.asked:
            self.first_asked = now
        self.asked += 1
        if self.to_fail:
            self.to_fail -= 1
            return _written("500 Internal Server Error", b"")
        for each in self._events:
            self.served.setdefault(each["EventId"], now)
        return _written("200 OK", self._body)


def _written(status: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
