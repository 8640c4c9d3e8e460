"""A receiver of webhooks: checks the signature, drops what came before, and prints.

Run it beside a service on the same machine: `receiver.py SECRET_FILE [PORT]`.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from verify import is_genuine

BODY_BYTES_MAX = 1 << 20


class Receiver(BaseHTTPRequestHandler):
    """Takes posts."""

    protocol_version = "HTTP/1.1"
    secret = ""
    seen: set[str] = set()  # noqa: RUF012 - a real one keeps it in its database

    def do_POST(self) -> None:
        """Take one."""
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
            # Delivery is at least once: the id tells what came before.
            if event["id"] not in self.seen:
                self.seen.add(event["id"])
                data = event["data"]
                names = " ".join(data.get("Resources", ()))
                kind = data.get("EventType", "")
                print(event["eventType"], kind, names, flush=True)
        self.answer(200)

    def is_good(self, body: bytes) -> bool:
        """Tell whether the signature is; a header that is missing is none."""
        try:
            return is_genuine(self.secret, self.headers, body)
        except (KeyError, TypeError, ValueError):
            return False

    def answer(self, status: int) -> None:
        """Answer with a status alone."""
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing: what came is printed."""


if __name__ == "__main__":
    file, port = (*sys.argv[1:], "8300")[:2]
    Receiver.secret = Path(file).read_text(encoding="ascii").split()[0]
    with ThreadingHTTPServer(("127.0.0.1", int(port)), Receiver) as server:
        print(f"listening at http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()
