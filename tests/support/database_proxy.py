"""A proxy before PostgreSQL that cuts connections whose request was not answered.

The server's side of a cut connection stays open, as behind a network that has failed: its
session does not notice, and a commit that waits is made later.
"""

import socket
import threading
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import psycopg


class DatabaseProxy:
    """A socket in a directory, before a server."""

    def __init__(self, directory: Path, url: str) -> None:
        """Listen in `directory`; forward to the server of `url`."""
        with psycopg.connect(url) as connection:
            info = connection.info
            self._host, self._port, user = info.host, info.port, info.user
        parts = urlsplit(url)
        self.url = f"{parts.scheme}://{parts.path}?host={directory}&user={user}"
        """The URL of the same database behind the proxy."""
        path = directory / ".s.PGSQL.5432"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(50)
        self._links: list[_Link] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> int:
        """Cut each connection that waits for an answer; return their number."""
        waiting = [link for link in self._links if link.waits]
        for connection in waiting:
            connection.cut()
        return len(waiting)

    def close(self) -> None:
        """Accept no more connections, and end all."""
        # An accept that waits ends only so.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for link in self._links:
            link.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._links.append(_Link(client, self._connected()))

    def _connected(self) -> socket.socket:
        if not self._host.startswith("/"):
            return socket.create_connection((self._host, self._port))
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{self._host}/.s.PGSQL.{self._port}")
        return server


class _Link:
    """One connection of a client, and the one to the server."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self._client, self._server = client, server
        self.waits = False
        """Whether the client has sent something that was not answered."""
        self._is_cut = False
        for ends in ((client, server), (server, client)):
            threading.Thread(target=self._forward, args=ends, daemon=True).start()

    def cut(self) -> None:
        self._is_cut = True
        self._client.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for each_socket in (self._client, self._server):
            with suppress(OSError):
                each_socket.shutdown(socket.SHUT_RDWR)
            each_socket.close()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                self.waits = source is self._client
                target.sendall(data)
        if not self._is_cut:
            for each_socket in (self._client, self._server):
                with suppress(OSError):
                    each_socket.shutdown(socket.SHUT_RDWR)
