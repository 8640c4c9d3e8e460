"""A Prometheus and an Alertmanager that list the alerts which a test has put there.

The forms are those of Prometheus' documentation of `GET /api/v1/alerts` and of
Alertmanager's OpenAPI of `GET /api/v2/alerts`; `tests/real` compares with real ones.
"""

import contextlib
import json
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from tests.support.loopback import Quiet, answering

PROMETHEUS, ALERTMANAGER = "prometheus", "alertmanager"
_PATHS = {PROMETHEUS: "/api/v1/alerts", ALERTMANAGER: "/api/v2/alerts"}


@dataclass(frozen=True, slots=True)
class Fires:
    """An alert."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    state: str = "firing"
    """firing or pending in Prometheus; in Alertmanager, else `silenced` or `inhibited`."""

    def of_prometheus(self) -> dict[str, Any]:
        return {
            "labels": {"alertname": self.name, **self.labels},
            "annotations": {"summary": "It is so."},
            "state": self.state,
            "activeAt": "2026-11-21T22:00:00.000000000Z",
            "value": "1e+00",
        }

    def of_alertmanager(self) -> dict[str, Any]:
        return {
            "annotations": {"summary": "It is so."},
            "endsAt": "2026-11-21T22:15:00.000Z",
            "fingerprint": "375eab7b59892505",
            "receivers": [{"name": "default"}],
            "startsAt": "2026-11-21T22:00:00.000Z",
            "status": {
                "inhibitedBy": ["a"] if self.state == "inhibited" else [],
                "silencedBy": ["b"] if self.state == "silenced" else [],
                "state": "active" if self.state == "firing" else "suppressed",
            },
            "updatedAt": "2026-11-21T22:00:00.000Z",
            "generatorURL": "http://p/graph",
            "labels": {"alertname": self.name, **self.labels},
        }


@dataclass(frozen=True, slots=True)
class Odd:
    """A response instead of the usual one."""

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


@dataclass
class FakeAlerts:
    """One server, while it is entered as a context."""

    kind: str = PROMETHEUS
    base: str = ""
    """The path before that of the API."""
    token: str = ""
    """The bearer token that it wants."""
    tls: ssl.SSLContext | None = None
    alerts: tuple[Fires, ...] = ()
    odd: Odd | None = None
    """The response to every request, while it is set."""
    hangs: bool = False
    """It takes requests, and says nothing until it ends or `start_if_ready`."""
    asked: int = 0
    """Requests that came."""
    answered: int = 0
    """Requests that got the usual answer."""
    waiting: int = 0
    """Requests that hang now."""
    port: int = 0

    def __post_init__(self) -> None:
        self.lock = threading.Lock()
        self._goes_on = threading.Event()
        self._held = contextlib.ExitStack()

    @property
    def url(self) -> str:
        scheme = "https" if self.tls else "http"
        return f"{scheme}://127.0.0.1:{self.port}{self.base}"

    @property
    def table(self) -> str:
        """Return the table of the settings, without the keys that a test adds."""
        return f'[gate]\n{self.kind} = "{self.url}"\nevery = "1s"\nclear_for = "0s"\n'

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def begin(self) -> None:
        """Listen, at the same port as before if there was one."""
        self._goes_on.clear()
        fake = self

        class Answers(Quiet, BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                fake.serve(self)

        self.port = self._held.enter_context(
            answering(Answers, port=self.port, tls=self.tls)
        )

    def end(self) -> None:
        """Be away; it can begin again, and knows its alerts then."""
        self.start_if_ready()
        self._held.close()

    def start_if_ready(self) -> None:
        """Have requests that hang end without an answer."""
        self.hangs = False
        self._goes_on.set()

    # Answers

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        with self.lock:
            self.asked += 1
            hangs, odd = self.hangs, self.odd
            self.waiting += hangs
        if hangs:
            self._goes_on.wait()
            with self.lock:
                self.waiting -= 1
            handler.close_connection = True
            return
        response = odd or self._usual(handler)
        handler.send_response(response.status)
        for name, value in response.headers:
            handler.send_header(name, value)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(response.body)))
        handler.end_headers()
        handler.wfile.write(response.body)
        with self.lock:
            self.answered += odd is None

    def _usual(self, handler: BaseHTTPRequestHandler) -> Odd:
        shown = handler.headers.get("Authorization", "")
        if self.token and shown != f"Bearer {self.token}":
            return Odd(401, f"no such token: {shown}\n".encode())
        url = urlsplit(handler.path)
        if url.path != self.base + _PATHS[self.kind]:
            return Odd(404, b"404 page not found\n")
        alerts = self.alerts
        if self.kind == PROMETHEUS:
            data = {"alerts": [alert.of_prometheus() for alert in alerts]}
            return Odd(body=json.dumps({"status": "success", "data": data}).encode())
        wants = {key: value[0] == "true" for key, value in parse_qs(url.query).items()}
        shown_states = {"firing"} if wants.get("active", True) else set[str]()
        shown_states |= {
            state for state in ("silenced", "inhibited") if wants.get(state, True)
        }
        listed = [a.of_alertmanager() for a in alerts if a.state in shown_states]
        return Odd(body=json.dumps(listed).encode())
