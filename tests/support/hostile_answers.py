"""A server between an agent and a fake that answers some requests itself, and wrongly.

A request with such an answer does not reach the fake: a login page with status 200,
nothing at all, JSON of another kind. Everything else is passed on as it is.
"""

import contextlib
import http.client
from collections.abc import Generator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

from tests.support.loopback import Quiet, answering


@dataclass(frozen=True, slots=True)
class Lie:
    """One wrong answer."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"


_PAGE = b"<html><body>Sign in</body></html>"

LIES = {
    "page": Lie(_PAGE, content_type="text/html"),
    "nothing": Lie(b""),
    "null": Lie(b"null"),
    "list": Lie(b"[]"),
    "list of null": Lie(b"[null]"),
    "cut off": Lie(b'{"kind": "Node", "metadata": {"na'),
    "status": Lie(b'{"kind": "Status", "apiVersion": "v1", "status": "Failure"}'),
    "page with 404": Lie(_PAGE, status=404, content_type="text/html"),
}
"""Invalid responses, by the error in them."""


@dataclass(slots=True)
class Liar:
    """Passes on so many requests, and lies about those that follow."""

    upstream: str = ""
    url: str = ""
    lie: Lie | None = None
    honest: int = 0
    """The number of requests that the fake answers before it lies."""
    lies: int = 0
    """The number of lies that follow."""
    told: int = 0
    """The number of lies so far."""

    def next_lie(self) -> Lie | None:
        """Return what the next request is answered; None: the truth."""
        if self.lie is None or self.honest > 0:
            self.honest -= 1
            return None
        if self.told >= self.lies:
            return None
        self.told += 1
        return self.lie

    def pass_on(self, request: BaseHTTPRequestHandler, body: bytes) -> Lie:
        """Return what the fake answers."""
        parts = urlsplit(self.upstream)
        assert parts.hostname is not None
        wire = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
        with contextlib.closing(wire):
            headers = dict(request.headers.items())
            wire.request(request.command, request.path, body, headers)
            answer = wire.getresponse()
            kind = answer.headers.get("Content-Type", "application/json")
            return Lie(answer.read(), status=answer.status, content_type=kind)


@contextlib.contextmanager
def lying(upstream: str) -> Generator[Liar]:
    """Listen on loopback, before a fake, until the end of the context."""
    liar = Liar(upstream)

    class Answers(Quiet, BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answer = liar.next_lie() or liar.pass_on(self, body)
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _do  # noqa: N815

    with answering(Answers) as port:
        liar.url = f"http://127.0.0.1:{port}"
        yield liar
