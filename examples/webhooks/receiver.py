"""A receiver of webhooks: checks signatures, ignores repeated messages, prints the rest.

Run it on the machine of the service: `receiver.py SECRET_FILE [PORT]`.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from verify import is_genuine

BODY_BYTES_MAX = 1 << 20


class Receiver(BaseHTTPRequestHandler):
    """The handler of POST requests."""

    protocol_version = "HTTP/1.1"
    secret = ""
    seen: set[str] = set()  # noqa: RUF012 - a real one keeps it in its database

    def do_POST(self) -> None:
        """Handle one message."""
        length = int(self.headers.get("Content-Length", 0))
        if length > BODY_BYTES_MAX:
            self.close_connection = True
            self.answer(413)
            return
        body = self.rfile.read(length)
        if not self.is_good(body):
            self.answer(401)
            return
        for event in json.loads(body):
            # Delivery is at least once, so ignore known IDs.
            if event["id"] not in self.seen:
                self.seen.add(event["id"])
                data = event["data"]
                names = " ".join(data.get("Resources", ()))
                kind = data.get("EventType", "")
                print(event["eventType"], kind, names, flush=True)
        self.answer(200)

    def is_good(self, body: bytes) -> bool:
        """Return whether the signature is valid; missing headers are not."""
        try:
            return is_genuine(self.secret, self.headers, body)
        except (KeyError, TypeError, ValueError):
            return False

    def answer(self, status: int) -> None:
        """Respond with only a status."""
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing, since messages are printed."""


if __name__ == "__main__":
    file, port = (*sys.argv[1:], "8300")[:2]
    Receiver.secret = Path(file).read_text(encoding="ascii").split()[0]
    with ThreadingHTTPServer(("127.0.0.1", int(port)), Receiver) as server:
        print(f"listening at http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()
