"""A receiver of any requests, which answers what the test says."""

import contextlib
import threading
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler

from tests.support.loopback import Quiet, answering


@dataclass(frozen=True, slots=True)
class Request:
    """One request that came."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: str


class Receiver:
    """The next responses, and the requests that arrived."""

    def __init__(self) -> None:
        self.script: list[int] = []
        """Statuses of the next answers, 0 for none at all; then `usual`."""
        self.usual = 200
        self.echoes = False
        """It repeats what it was sent."""
        self.came: list[Request] = []
        self.url = ""
        self.released = threading.Event()


@contextlib.contextmanager
def receiving() -> Generator[Receiver]:
    """Listen until the end of the context."""
    receiver = Receiver()

    class Answers(Quiet, BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            body = self.rfile.read(length).decode()
            receiver.came.append(
                Request(self.command, self.path, dict(self.headers), body)
            )
            status = receiver.script.pop(0) if receiver.script else receiver.usual
            if not status:
                receiver.released.wait(30)
                return
            self.send_response(status)
            self.end_headers()
            echo = f"{self.path} {self.headers.items()}" if receiver.echoes else ""
            self.wfile.write(f"said {status} {echo}".rstrip().encode() + b"\n")

        do_PUT = do_POST  # noqa: N815

    with answering(Answers) as port:
        receiver.url = f"http://127.0.0.1:{port}"
        try:
            yield receiver
        finally:
            receiver.released.set()
