"""A Kubernetes API server, as far as its reference describes what the agent asks for.

It is a fake, which listens on loopback; what it knows and answers is in
`fake_kubernetes_cluster`.
"""

import contextlib
import json
import ssl
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, urlsplit

from forewarn.clock import Clock
from forewarn.instants import SECOND
from tests.support.fake_kubernetes_cluster import (
    REVIEW,
    TOKEN,
    Budget,
    FakeKubernetes,
    Right,
)
from tests.support.fake_kubernetes_requests import Request, StatusError
from tests.support.loopback import Quiet, answering

__all__ = ["REVIEW", "TOKEN", "Budget", "FakeKubernetes", "Right", "serving"]


@contextlib.contextmanager
def serving(
    clock: Clock, context: ssl.SSLContext | None = None
) -> Generator[FakeKubernetes]:
    """Listen on loopback until the end of the context."""
    fake = FakeKubernetes(clock)

    class Answers(Quiet, BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def date_time_string(self, timestamp: float | None = None) -> str:
            # By the cluster's clock, whatever this machine's says.
            del timestamp
            return super().date_time_string(clock.now() / SECOND)

        def _do(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            content = self.rfile.read(length)
            status = fake.script.pop(0) if fake.script else None
            if fake.is_away or status == 0:
                self.close_connection = True
                return
            if status is not None:
                answer = StatusError(status, "Scripted", f"said {status}").body
            else:
                status, answer = fake.answer(self._request(content))
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _request(self, content: bytes) -> Request:
            parts = urlsplit(self.path)
            return Request(
                method=self.command,
                path=parts.path,
                query={key: value[0] for key, value in parse_qs(parts.query).items()},
                body=json.loads(content) if content else None,
                content_type=self.headers.get("Content-Type", ""),
                token=self.headers.get("Authorization", "").removeprefix("Bearer "),
            )

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _do  # noqa: N815

    with answering(Answers, tls=context) as port:
        scheme = "http" if context is None else "https"
        fake.url = f"{scheme}://127.0.0.1:{port}"
        yield fake
