"""Servers of a few lines, as people write them for a test."""

import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from itertools import cycle
from socketserver import BaseRequestHandler, TCPServer


@contextmanager
def listening(handler: type[BaseRequestHandler]) -> Generator[str]:
    """Serve with a handler on loopback; yield its URL."""
    server = TCPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def dripping(beginning: bytes, drops: bytes, *, pause: float) -> Generator[str]:
    """Answer whatever is asked with a beginning, and drops of a byte without end."""
    ended = threading.Event()

    class Dripping(BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            with suppress(OSError):
                self.request.sendall(beginning)
                for drop in cycle(drops):
                    if ended.wait(pause):
                        return
                    self.request.sendall(bytes([drop]))

    try:
        with listening(Dripping) as url:
            try:
                yield url
            finally:
                ended.set()
    finally:
        ended.set()


class Careless(BaseHTTPRequestHandler):
    """Answers whatever it is sent with 200, as servers of ten lines do.

    For verbs that it was not written for it hangs up without a word.
    """

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"DocumentIncarnation":1,"Events":[]}')

    do_POST = do_GET  # noqa: N815 - the name that http.server looks for

    def do_PUT(self) -> None:
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""
