"""A proxy in front of a fake server, which answers some requests itself with invalid data.

The data is, for example, a login page with status 200, an empty body, or JSON of another
kind. The fake does not get these requests. The proxy forwards all others unchanged.
"""

import contextlib
import http.client
from collections.abc import Generator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

from tests.support.loopback import Quiet, answering


@dataclass(frozen=True, slots=True)
class InvalidAnswer:
    """One invalid answer."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"


_PAGE = b"<html><body>Sign in</body></html>"

INVALID_ANSWERS = {
    "page": InvalidAnswer(_PAGE, content_type="text/html"),
    "nothing": InvalidAnswer(b""),
    "null": InvalidAnswer(b"null"),
    "list": InvalidAnswer(b"[]"),
    "list of null": InvalidAnswer(b"[null]"),
    "cut off": InvalidAnswer(b'{"kind": "Node", "metadata": {"na'),
    "status": InvalidAnswer(
        b'{"kind": "Status", "apiVersion": "v1", "status": "Failure"}'
    ),
    "page with 404": InvalidAnswer(_PAGE, status=404, content_type="text/html"),
}
"""Invalid answers by the name of their defect."""


@dataclass(slots=True)
class HostileProxy:
    """Forwards a number of requests, and then answers some with invalid data."""

    upstream: str = ""
    url: str = ""
    invalid: InvalidAnswer | None = None
    forwarded_first: int = 0
    """Number of requests to forward before the first invalid answer."""
    invalid_max: int = 0
    """Maximum number of invalid answers after that."""
    invalid_sent: int = 0
    """Number of invalid answers that it has sent."""

    def next_invalid(self) -> InvalidAnswer | None:
        """Return the invalid answer to the next request; None: forward the request."""
        if self.invalid is None or self.forwarded_first > 0:
            self.forwarded_first -= 1
            return None
        if self.invalid_sent >= self.invalid_max:
            return None
        self.invalid_sent += 1
        return self.invalid

    def forward(self, request: BaseHTTPRequestHandler, body: bytes) -> InvalidAnswer:
        """Return the answer of the fake."""
        parts = urlsplit(self.upstream)
        assert parts.hostname is not None
        wire = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
        with contextlib.closing(wire):
            headers = dict(request.headers.items())
            wire.request(request.command, request.path, body, headers)
            answer = wire.getresponse()
            kind = answer.headers.get("Content-Type", "application/json")
            return InvalidAnswer(answer.read(), status=answer.status, content_type=kind)


@contextlib.contextmanager
def hostile_proxy(upstream: str) -> Generator[HostileProxy]:
    """Serve a proxy in front of a fake on loopback until the end of the context."""
    proxy = HostileProxy(upstream)

    class Answers(Quiet, BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answer = proxy.next_invalid() or proxy.forward(self, body)
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _do  # noqa: N815

    with answering(Answers) as port:
        proxy.url = f"http://127.0.0.1:{port}"
        yield proxy
