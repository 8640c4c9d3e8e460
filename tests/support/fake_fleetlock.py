"""A server of the FleetLock protocol, as its document and two servers' sources have it.

`airlock` answers 200 with nothing and 500 for a full semaphore; `lease` is as a server
that keeps a Lease: it answers with a word, and 423 where another node holds it, also to
who gives back what it does not have.
"""

import contextlib
import json
import ssl
import threading
from collections.abc import Generator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Self

from forewarn.clock import SystemClock
from forewarn.instants import Micros
from tests.support.loopback import Quiet, answering

_PATHS = ("/v1/pre-reboot", "/v1/steady-state")


@dataclass(frozen=True, slots=True)
class Came:
    """One request, as it came."""

    line: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


@dataclass(frozen=True, slots=True)
class Odd:
    """A response instead of the usual one."""

    status: int = 200
    body: bytes = b""
    content_type: str = "text/plain"
    headers: tuple[tuple[str, str], ...] = ()
    hangs_seconds: float = 0.0
    """Time until a response, in seconds. If it is interrupted, no response follows."""
    does: bool = False
    """Whether the request still takes effect."""


@dataclass
class FakeFleetLock:
    """One server, while it is entered as a context."""

    slots: dict[str, int] = field(default_factory=lambda: {"default": 1})
    """The number of slots of each group."""
    style: str = "airlock"
    base: str = ""
    """The path before those of the protocol."""
    tls: ssl.SSLContext | None = None
    holders: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    most: dict[str, int] = field(default_factory=dict[str, int])
    """The highest number of simultaneous holders of each group."""
    past: list[tuple[Micros, str, frozenset[str]]] = field(
        default_factory=list[tuple[Micros, str, frozenset[str]]]
    )
    """The holders of a group after each request about it, with the time."""
    came: list[Came] = field(default_factory=list[Came])
    odd: list[Odd] = field(default_factory=list[Odd])
    """The responses to the next requests."""
    is_away: bool = False
    port: int = 0

    def __post_init__(self) -> None:
        self.lock = threading.RLock()
        self.ends = threading.Event()
        self._held = contextlib.ExitStack()

    @property
    def url(self) -> str:
        scheme = "https" if self.tls else "http"
        return f"{scheme}://127.0.0.1:{self.port}{self.base}"

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def begin(self) -> None:
        """Listen, at the same port as before if there was one."""
        self.ends.clear()
        fake = self

        class Answers(Quiet, BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                fake.serve(self)

        self.port = self._held.enter_context(
            answering(Answers, port=self.port, tls=self.tls)
        )

    def end(self) -> None:
        """Be away; it can begin again, and knows its holders then."""
        self.ends.set()
        self._held.close()

    def held(self, group: str = "default") -> list[str]:
        with self.lock:
            return list(self.holders.get(group, ()))

    def paths(self) -> list[str]:
        with self.lock:
            return [request.line.split()[1] for request in self.came]

    # Answers

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("Content-Length") or 0)
        body = handler.rfile.read(length)
        with self.lock:
            came = Came(handler.requestline, tuple(handler.headers.items()), body)
            self.came.append(came)
            odd = self.odd.pop(0) if self.odd else None
        if self.is_away:
            handler.close_connection = True
            return
        if odd is not None and not self._waits(odd):
            handler.close_connection = True
            return
        response = odd
        if odd is None or odd.does:
            with self.lock:
                status, content_type, text = self._answer(handler, body)
            response = odd or Odd(status, text, content_type)
        assert response is not None
        handler.send_response(response.status)
        handler.send_header("Content-Type", response.content_type)
        for name, value in response.headers:
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(response.body)))
        handler.end_headers()
        handler.wfile.write(response.body)

    def _waits(self, odd: Odd) -> bool:
        return not (odd.hangs_seconds and self.ends.wait(odd.hangs_seconds))

    def _answer(
        self, handler: BaseHTTPRequestHandler, body: bytes
    ) -> tuple[int, str, bytes]:
        path = handler.path.removeprefix(self.base)
        if path not in _PATHS:
            return 404, "text/plain; charset=utf-8", b"404 page not found\n"
        if handler.headers.get("fleet-lock-protocol") != "true":
            return self._error(400, "missing_header", "wrong header")
        try:
            params = json.loads(body)["client_params"]
            group, holder = params["group"], params["id"]
        except (ValueError, KeyError, TypeError) as error:
            return self._error(400, "invalid_client_identity", str(error))
        if not group or not holder:
            return self._error(400, "invalid_client_identity", "empty")
        if group not in self.slots:
            return self._error(400, "unknown_group", f'unknown group "{group}"')
        holders = self.holders.setdefault(group, [])
        try:
            return self._change(path, group, holders, holder)
        finally:
            self.past.append((SystemClock().now(), group, frozenset(holders)))

    def _change(
        self, path: str, group: str, holders: list[str], holder: str
    ) -> tuple[int, str, bytes]:
        if path == _PATHS[1]:
            return self._unlock(holders, holder)
        if holder not in holders and len(holders) >= self.slots[group]:
            if self.style == "airlock":
                why = f"all {self.slots[group]} semaphore slots currently locked"
                return self._error(500, "failed_lock", why)
            why = f"reboot lease lock unavailable, held by {holders[0]}"
            return self._error(423, "lock_held", why)
        if holder not in holders:
            holders.append(holder)
        self.most[group] = max(self.most.get(group, 0), len(holders))
        return self._fine(b"obtained reboot lease")

    def _unlock(self, holders: list[str], holder: str) -> tuple[int, str, bytes]:
        if holder in holders:
            holders.remove(holder)
        elif holders and self.style == "lease":
            why = f"reboot lease unlock unavailable, held by {holders[0]}"
            return self._error(423, "lock_held", why)
        return self._fine(b"unlocked reboot lease")

    def _fine(self, word: bytes) -> tuple[int, str, bytes]:
        body = b"" if self.style == "airlock" else word
        return 200, "text/plain; charset=utf-8", body

    def _error(self, status: int, kind: str, value: str) -> tuple[int, str, bytes]:
        content_type = "text/plain; charset=utf-8"
        if self.style == "lease":
            content_type = "application/json"
        text = json.dumps({"kind": kind, "value": value}, separators=(",", ":"))
        return status, content_type, text.encode() + b"\n"


@contextlib.contextmanager
def away(fake: FakeFleetLock) -> Generator[None]:
    """Have a server be away for as long as the block takes."""
    fake.end()
    try:
        yield
    finally:
        fake.begin()
