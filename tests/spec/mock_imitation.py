"""Microsoft's mock server, imitated with the defects that were seen in it.

Written from what was observed of its answers (its routes, its order of members,
its dates, its ids, its approvals); none of its code is here. One event at a time,
one view, no checks of header or version. A test turns its state by hand.
"""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from forewarn.ids import RandomIds

PATH = "/metadata/scheduledevents"


class Mock:
    """The state of the mock: the last event, and a counter."""

    def __init__(self, *statuses: str) -> None:
        self.statuses = statuses or ("Scheduled", "Started", "Completed")
        self.incarnation = 1
        self._ids = RandomIds(4)
        self.event: dict[str, Any] | None = None

    def show(self, status: str) -> None:
        """Go to a status; as the mock does, under a new id."""
        self.incarnation += 1
        self.event = {
            "Description": "Virtual machine is being paused.",
            "DurationInSeconds": 9,
            "EventId": self._ids.event().lower(),
            "EventSource": "Platform",
            "EventStatus": status,
            "EventType": "Freeze",
            "NotBefore": "2030-11-20T20:56:40Z",
            "ResourceType": "VirtualMachine",
            "Resources": ["vmss_vm1"],
        }

    def document(self) -> bytes:
        over = self.event is None or self.event["EventStatus"] in {
            "Completed",
            "Canceled",
        }
        shown = {
            "DocumentIncarnation": self.incarnation,
            "Events": [] if over else [self.event],
        }
        return (
            json.dumps(shown, separators=(",", ":"), sort_keys=True) + "\n"
        ).encode()

    def approve(self, body: bytes) -> tuple[int, bytes]:
        """Look at the first entry only; whatever else comes is fine with it."""
        try:
            members = json.loads(body)
        except ValueError:
            return 400, b'{"error":"Invalid JSON"}\n'
        if not isinstance(members, dict):
            return 500, b"<!doctype html><h1>Internal Server Error</h1>"
        if self.event is None:
            return 400, self.document()
        requests = members.get("StartRequests")
        first = requests[0] if isinstance(requests, list) and requests else None
        if isinstance(first, str):
            return 500, b"<!doctype html><h1>Internal Server Error</h1>"
        status = self.event["EventStatus"]
        if (
            isinstance(first, dict)
            and first.get("EventId") == self.event["EventId"]
            and status == "Scheduled"
        ):
            self.show(self.statuses[self.statuses.index(status) + 1])
        return 200, self.document()


def _handler(mock: Mock) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def _html(self, status: int) -> None:
            self._answer(status, b"<!doctype html><p>no", "text/html; charset=utf-8")

        def do_GET(self) -> None:
            if self.path.partition("?")[0] == PATH:
                self._answer(200, mock.document(), "application/json")
            else:
                self._html(404)

        def _body(self) -> bytes:
            if "chunked" not in self.headers.get("Transfer-Encoding", ""):
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body

        def do_POST(self) -> None:
            status, body = mock.approve(self._body())
            self._answer(
                status, body, "application/json" if status < 500 else "text/html"
            )

        def do_PUT(self) -> None:
            self._body()
            self._html(405)

        do_HEAD = do_GET  # noqa: N815 - the name that http.server looks for
        do_DELETE = do_PATCH = do_OPTIONS = do_PUT  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    return Handler


@contextmanager
def served(mock: Mock) -> Generator[str]:
    """Serve the mock on loopback; yield its URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(mock))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
