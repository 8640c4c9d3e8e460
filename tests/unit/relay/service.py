"""A service for relays, as an asyncio server: its stream, and answers to requests."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self

PATIENCE_SECONDS = 20.0
"""Maximum seconds for what takes milliseconds, on a busy machine."""


class Service:
    """Serves streams whose lines a test sends, and answers POSTs by a function."""

    def __init__(self, status: int = 200, body: str = "") -> None:
        """Answer each request for a stream with `status`; if it fails, with `body`."""
        self.status, self.body = status, body.encode()
        self.asked: list[tuple[str, str, Any]] = []
        """Method, target and body of each request, except confirmations."""
        self.confirmed: list[str] = []
        """The positions that were confirmed."""
        self.confirms_with = 200
        self.tokens: list[str] = []
        self.connections = 0
        self.answer: Callable[[str, Any], Any] = lambda _path, _body: {}
        self._streams: list[asyncio.StreamWriter] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._has_stream = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._server.close()
        self.drop()

    def drop(self) -> None:
        """Close all connections."""
        for writer in [*self._writers]:
            writer.close()
        self._writers.clear()
        self._streams.clear()
        self._has_stream.clear()

    async def stream(self) -> None:
        """Return when there is a stream."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self._has_stream.wait()

    def tell(self, line: str) -> None:
        """Send a line to each stream."""
        data = line.encode()
        for writer in self._streams:
            # In two chunks, as they may come.
            for part in (data[:7], data[7:]):
                writer.write(b"%x\r\n%b\r\n" % (len(part), part))

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            while await self._one(reader, writer):
                pass
        except (
            asyncio.IncompleteReadError,
            asyncio.CancelledError,
            ConnectionError,
        ):
            writer.close()

    async def _one(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, target, _ = head.split(" ", 2)
        headers = dict(
            line.split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line
        )
        self.tokens.append(headers["Authorization"].removeprefix("Bearer "))
        text = await reader.readexactly(int(headers.get("Content-Length", 0)))
        body: Any = json.loads(text) if text else None
        if target == "/v1/relay/served":
            self.confirmed.append(body["position"])
            self._answer(writer, {}, self.confirms_with)
            return True
        self.asked.append((method, target, body))
        if method == "GET":
            writer.write(
                b"HTTP/1.1 %d X\r\nTransfer-Encoding: chunked\r\n\r\n" % self.status
            )
            self._streams.append(writer)
            self._has_stream.set()
            if self.status != 200:
                if self.body:
                    writer.write(b"%x\r\n%b\r\n" % (len(self.body), self.body))
                writer.write(b"0\r\n\r\n")
            return self.status != 200
        answer = self.answer(target, body)
        if isinstance(answer, Awaitable):
            answer = await answer
        self._answer(writer, answer, self.status)
        return True

    def _answer(self, writer: asyncio.StreamWriter, value: Any, status: int) -> None:
        data = json.dumps(value).encode()
        writer.write(
            b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(data), data)
        )
