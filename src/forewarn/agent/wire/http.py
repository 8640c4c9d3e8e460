"""A small HTTP/1.1 client with one deadline per exchange.

It follows no redirects and uses no proxy, since this machine itself must ask the
endpoint. Every failure is an `HttpError`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from forewarn.agent.wire.answers import (
    BODY_BYTES_MAX,
    Answer,
    HttpError,
    Reader,
    Trouble,
)
from forewarn.agent.wire.connection import Connection, is_tls
from forewarn.agent.wire.urls import Url, parse_url
from forewarn.clock import Clock
from forewarn.instants import SECOND, Micros

__all__ = ["Answer", "Client", "HttpError", "Trouble", "Url", "parse_url"]

CONNECT_TIMEOUT: Micros = 5 * SECOND
"""Timeout for connecting, which is short even if the answer may take longer."""

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_TARGET = re.compile(r"/[\x21-\x7e]*", re.ASCII)


class Client(Connection):
    """A client of one server, which keeps a connection between GETs."""

    def __init__(
        self,
        url: Url,
        *,
        clock: Clock,
        ca_file: str = "",
        ca_text: str = "",
        cert_file: str = "",
        key_file: str = "",
        body_max: int = BODY_BYTES_MAX,
    ) -> None:
        """Store the parameters, without connecting; see `Connection` for the files."""
        super().__init__(
            url,
            clock=clock,
            ca_file=ca_file,
            ca_text=ca_text,
            cert_file=cert_file,
            key_file=key_file,
        )
        self._body_max = body_max

    def get(
        self,
        target: str,
        *,
        headers: Sequence[tuple[str, str]] = (),
        timeout: Micros,
        connect_timeout: Micros = CONNECT_TIMEOUT,
    ) -> Answer:
        """Return the answer to a GET; raises HttpError.

        If the server has closed a kept connection, the request is sent once more over a
        new one.
        """
        request = _written("GET", target, headers, None, self.url)
        self._allow(timeout / SECOND)
        if self._take_kept():
            try:
                return self._talk(request, may_be_stale=True)
            except _StaleError:
                pass
        self._connect(connect_timeout / SECOND)
        return self._talk(request)

    def send(
        self,
        method: str,
        target: str,
        body: bytes,
        *,
        headers: Sequence[tuple[str, str]] = (),
        timeout: Micros,
        connect_timeout: Micros = CONNECT_TIMEOUT,
    ) -> Answer:
        """Send a body once over a new connection, and return the answer; raises
        HttpError.

        After an error, the server may still have received the body.
        """
        request = _written(method, target, headers, body, self.url)
        self._allow(timeout / SECOND)
        self.close()
        self._connect(connect_timeout / SECOND)
        try:
            return self._talk(request)
        finally:
            self.close()

    def reach(self, *, timeout: Micros) -> None:
        """Test whether a connection can be opened; raises HttpError."""
        self.close()
        self._allow(timeout / SECOND)
        self._connect(timeout / SECOND)
        self.close()

    # One exchange

    def _take_kept(self) -> bool:
        """Return whether a connection is kept and still open."""
        if self._wire is None:
            return False
        try:
            self._wire.settimeout(0)
            self._wire.recv(1)
        except OSError as error:
            # There must be nothing to read, which TLS reports with another error.
            is_tls_wait = type(error).__name__ == "SSLWantReadError"
            if isinstance(error, BlockingIOError) or is_tls_wait:
                return True
        # The connection has ended, or the server sent bytes without a request.
        self.close()
        return False

    def _talk(self, request: bytes, *, may_be_stale: bool = False) -> Answer:
        """Send a request and return its answer; raises HttpError.

        If a kept connection ends before the first byte of the answer, the server had
        closed it before it saw the request, and _StaleError is raised.
        """
        reader = Reader(body_max=self._body_max)
        try:
            self._write(request)
            while (answer := reader.answer) is None:
                piece = self._read()
                if piece:
                    reader.feed(piece)
                    continue
                if self._is_stopped:
                    self.left()
                if may_be_stale and not reader.has_begun:
                    raise _StaleError
                reader.end()
            return answer
        except OSError as error:
            is_gone = isinstance(error, ConnectionError) or is_tls(error)
            if may_be_stale and not reader.has_begun and is_gone:
                raise _StaleError from None
            raise self._told(error, "waiting for the answer") from None
        finally:
            if reader.answer is None or not reader.answer.keeps:
                self.close()


class _StaleError(Exception):
    """A kept connection had ended before the server saw the request."""


def _written(
    method: str,
    target: str,
    headers: Sequence[tuple[str, str]],
    body: bytes | None,
    url: Url,
) -> bytes:
    """Return the bytes of a request; raises HttpError if a part is not valid HTTP."""
    if not _TOKEN.fullmatch(method) or not _TARGET.fullmatch(target):
        raise HttpError(Trouble.REQUEST, "the request has an invalid method or path")
    headers = [
        ("Host", url.authority),
        ("User-Agent", "forewarn-agent"),
        ("Accept-Encoding", "identity"),
        *headers,
    ]
    if body is not None:
        headers += [("Content-Length", str(len(body))), ("Connection", "close")]
    for name, value in headers:
        if not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            raise HttpError(Trouble.REQUEST, f"the header {name!r} cannot be sent")
    lines = [f"{method} {target} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers]
    head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
    return head + (body or b"")
