"""A receiver of webhooks that does what the test says, and remembers what came."""

import base64
import contextlib
import hashlib
import hmac
import json
import socket
import ssl
import struct
import threading
from collections.abc import Generator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.support.loopback import Quiet, answering

KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()


@dataclass(frozen=True, slots=True)
class Came:
    """One post."""

    public_id: str
    signature: str
    content: bytes
    """The signed bytes."""
    body: bytes

    @property
    def event(self) -> dict[str, Any]:
        [event] = json.loads(self.body)
        return event

    @property
    def what(self) -> str:
        """Return what it tells: `Scheduled web_0`."""
        kind = self.event["eventType"].rpartition(".")[2].removeprefix("Event")
        return " ".join([kind, *self.event["data"].get("vms", [])])

    @property
    def is_genuine(self) -> bool:
        digest = hmac.new(KEY, self.content, hashlib.sha256).digest()
        return self.signature == "v1," + base64.b64encode(digest).decode()


class Hook:
    """The next responses of a receiver, and the requests that arrived."""

    def __init__(self) -> None:
        self.script: list[str] = []
        """`500`, `503 60` (with Retry-After), `302`, `hang`, `reset`, `flood`; then
        `usual`."""
        self.usual = "200"
        self.came: list[Came] = []
        self.released = threading.Event()
        self.url = ""

    def told(self) -> list[str]:
        """Return what was taken, each id once, in order."""
        return list({message.public_id: message.what for message in self.came}.values())


class _Handler(Quiet, BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hook: Hook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        public_id = self.headers["webhook-id"]
        sent = self.headers["webhook-timestamp"]
        self.hook.came.append(
            Came(
                public_id,
                self.headers["webhook-signature"],
                f"{public_id}.{sent}.".encode() + body,
                body,
            )
        )
        if self.hook.released.is_set():
            # The server has ended, and only this connection is left.
            self.close_connection = True
            return
        script = self.hook.script
        word, _, more = (script.pop(0) if script else self.hook.usual).partition(" ")
        if word == "hang":
            self.hook.released.wait(60)
            self.close_connection = True
        elif word == "reset":
            off = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, off)
            self.close_connection = True
        elif word == "flood":
            self._flood()
        else:
            self._answer(int(word), more)

    def _answer(self, status: int, more: str) -> None:
        self.send_response(status)
        if status == 302:
            self.send_header("Location", f"{self.hook.url}elsewhere")
        if more:
            self.send_header("Retry-After", more)
        self.send_header("Set-Cookie", "a=b")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _flood(self) -> None:
        """Answer 200 with an endless body."""
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        with contextlib.suppress(OSError):
            while not self.hook.released.is_set():
                self.wfile.write(bytes(65536))


@contextlib.contextmanager
def receiving(port: int = 0, *, tls: ssl.SSLContext | None = None) -> Generator[Hook]:
    """Receive at a loopback port."""
    hook = Hook()
    handler = type("Handler", (_Handler,), {"hook": hook})
    with answering(handler, port=port, tls=tls) as at:
        scheme = "http" if tls is None else "https"
        hook.url = f"{scheme}://localhost:{at}/"
        try:
            yield hook
        finally:
            hook.released.set()
