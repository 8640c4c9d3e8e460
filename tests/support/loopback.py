"""HTTP servers on loopback, for fakes and receivers: there as long as a block takes."""

import contextlib
import ssl
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Quiet:
    """A request handler without a log."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Pass it over."""


class Server(ThreadingHTTPServer):
    """Serves each connection in a thread, by TLS if it has a certificate to show."""

    daemon_threads = True
    tls: ssl.SSLContext | None = None

    def get_request(self) -> tuple[Any, Any]:
        wire, address = super().get_request()
        if self.tls is not None:
            # In the connection's thread, so that an idle connection delays no other.
            wire = self.tls.wrap_socket(
                wire, server_side=True, do_handshake_on_connect=False
            )
        return wire, address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of who has gone before the answer, or does not trust us."""


@contextlib.contextmanager
def answering(
    handler: type[BaseHTTPRequestHandler],
    *,
    port: int = 0,
    tls: ssl.SSLContext | None = None,
) -> Generator[int]:
    """Answer at a port, any free one if none is given; yield it."""
    with Server(("127.0.0.1", port), handler) as server:
        server.tls = tls
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
