"""The base of fake APIs: a real HTTP server on loopback whose responses come from a fake."""

import contextlib
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from forewarn.clock import SystemClock
from forewarn.instants import SECOND
from tests.support.loopback import Quiet, answering


@dataclass(frozen=True, slots=True)
class Request:
    """One request."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """The headers, with names in lower case."""
    body: Any = None
    """The decoded JSON of the body; None: there was no body."""


@dataclass(frozen=True, slots=True)
class Response:
    """One response: JSON, or another text, such as that of a refusal."""

    body: Any = None
    status: int = 200
    text: str | None = None


@dataclass(slots=True)
class JsonApi:
    """A fake that answers while its context is entered."""

    refusals: list[Response] = field(default_factory=list[Response], init=False)
    """The responses to the next requests, instead of the usual ones."""
    asked: list[Request] = field(default_factory=list[Request], init=False)
    lock: threading.RLock = field(default_factory=threading.RLock, init=False)
    _held: contextlib.ExitStack = field(
        default_factory=contextlib.ExitStack, init=False
    )
    port: int = field(default=0, init=False)
    ahead: float = field(default=0.0, init=False)
    """Seconds that its clock is ahead of this machine's."""

    def answer(self, request: Request) -> Response:
        """Return the answer to a request; one at a time."""
        raise NotImplementedError

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def writes(self) -> list[str]:
        """Return the requests that changed something: method and path."""
        return [f"{a.method} {a.path}" for a in self.asked if a.method != "GET"]

    def begin(self) -> None:
        """Listen, at the same port as before if there was one."""
        api = self

        class Answers(Quiet, BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def date_time_string(self, timestamp: float | None = None) -> str:
                del timestamp
                return super().date_time_string(
                    SystemClock().now() / SECOND + api.ahead
                )

            def _serve(self) -> None:
                request = _asked(self)
                with api.lock:
                    api.asked.append(request)
                    response = (
                        api.refusals.pop(0) if api.refusals else api.answer(request)
                    )
                text = response.text
                body = json.dumps(response.body) if text is None else text
                kind = "application/json" if text is None else "text/plain"
                self.send_response(response.status)
                self.send_header("Content-Type", f"{kind}; charset=utf-8")
                self.send_header("Content-Length", str(len(body.encode())))
                self.end_headers()
                self.wfile.write(body.encode())

            do_GET = do_PUT = do_POST = do_DELETE = do_PATCH = _serve  # noqa: N815

        self.port = self._held.enter_context(answering(Answers, port=self.port))

    def end(self) -> None:
        """Be away; it can begin again."""
        self._held.close()

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def _asked(handler: BaseHTTPRequestHandler) -> Request:
    parts = urlsplit(handler.path)
    length = int(handler.headers.get("Content-Length") or 0)
    body = handler.rfile.read(length)
    return Request(
        method=handler.command,
        path=unquote(parts.path),
        query=dict(parse_qsl(parts.query, keep_blank_values=True)),
        headers={name.lower(): value for name, value in handler.headers.items()},
        body=json.loads(body) if body else None,
    )
