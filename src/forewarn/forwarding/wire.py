"""HTTP/1.1 to the service: one connection, for a stream or for one request at a time."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping

import httptools

from forewarn.agent.wire.urls import Url
from forewarn.forwarding import limits
from forewarn.protocol.errors import ForewarnError


class UnreachableError(ForewarnError):
    """The service gave no usable answer."""

    def __init__(self, message: str, *, hint: str = "", status: int = 0) -> None:
        """Keep the status of the answer; 0: there was none."""
        super().__init__(message, hint=hint)
        self.status = status


class Connection:
    """A connection to the service. Its methods raise UnreachableError."""

    def __init__(self, url: Url, *, tls: ssl.SSLContext | None) -> None:
        """Store where to connect, without connecting."""
        self._url = url
        self._tls = tls if url.is_secure else None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._answer = _Answer()

    async def open(self) -> None:
        """Connect."""
        try:
            async with asyncio.timeout(limits.CONNECT_SECONDS):
                self._reader, self._writer = await asyncio.open_connection(
                    self._url.host,
                    self._url.port,
                    ssl=self._tls,
                    server_hostname=self._url.host if self._tls else None,
                )
        except (OSError, ssl.SSLError) as error:
            raise _failed(self._url, error) from error

    @property
    def is_open(self) -> bool:
        """Return whether a request can be sent."""
        reader, writer = self._reader, self._writer
        return (
            reader is not None
            and writer is not None
            and not reader.at_eof()
            and not writer.is_closing()
            and self._answer.is_done
        )

    async def ask(
        self,
        method: str,
        target: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
    ) -> int:
        """Send a request, and return the status of the answer."""
        head = [
            f"{method} {target} HTTP/1.1",
            f"Host: {self._url.authority}",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        if body is not None:
            head += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        self._answer = _Answer()
        assert self._writer is not None, "the connection was opened"
        try:
            self._writer.write("\r\n".join([*head, "", ""]).encode() + (body or b""))
            await self._writer.drain()
            while not self._answer.has_head:
                await self._feed()
        except OSError as error:
            raise _failed(self._url, error) from error
        return self._answer.status

    async def body(self) -> bytes:
        """Return the rest of the answer."""
        body = bytearray()
        async for piece in self._pieces():
            body += piece
            if len(body) > limits.ANSWER_BYTES_MAX:
                raise UnreachableError("the answer is too long")
        return bytes(body)

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield the lines of a streamed response until it ends."""
        rest = bytearray()
        async for piece in self._pieces():
            rest += piece
            if b"\n" in piece:
                *whole, last = rest.split(b"\n")
                rest = last
                for line in whole:
                    yield bytes(line)
            if len(rest) > limits.LINE_BYTES_MAX:
                raise UnreachableError("a line of the stream is too long")

    async def _pieces(self) -> AsyncIterator[bytes]:
        while True:
            for piece in self._answer.take():
                yield piece
            if self._answer.is_done:
                return
            try:
                async with asyncio.timeout(limits.SILENCE_SECONDS):
                    await self._feed()
            except OSError as error:
                raise _failed(self._url, error) from error

    async def _feed(self) -> None:
        # Another task can close it between two reads.
        reader = self._reader
        data = b"" if reader is None else await reader.read(limits.READ_BYTES)
        if not data:
            raise ConnectionResetError("the connection was closed")
        try:
            self._answer.feed(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            raise UnreachableError(
                f"{self._url.base} does not speak HTTP/1.1",
                hint="url must be that of the operator API: [admin] in forewarn.toml.",
            ) from error

    def close(self) -> None:
        """Close the connection."""
        if self._writer is not None:
            with contextlib.suppress(RuntimeError):
                # The loop may have ended already.
                self._writer.close()
        self._reader = self._writer = None


class _Answer:
    """An answer, as httptools reads it."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._pieces: list[bytes] = []
        self.has_head = False
        self.is_done = True
        self.status = 0

    def feed(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def take(self) -> list[bytes]:
        pieces, self._pieces = self._pieces, []
        return pieces

    def on_message_begin(self) -> None:
        self.is_done = False

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        self.has_head = True

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)

    def on_message_complete(self) -> None:
        self.is_done = True


def bearer(token: str) -> dict[str, str]:
    """Return the header that sends a token."""
    return {"Authorization": f"Bearer {token}"}


def _failed(url: Url, error: Exception) -> UnreachableError:
    """Return the error of a connection, without anything that the peer sent."""
    if isinstance(error, TimeoutError):
        reason = "it did not answer in time"
    elif isinstance(error, ssl.SSLCertVerificationError):
        reason = f"its certificate is not valid: {error.verify_message}"
    else:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return UnreachableError(f"{url.base}: {reason}")
