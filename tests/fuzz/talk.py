"""A connection without a socket: bytes in, answers out, nothing real in between."""

import asyncio
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from forewarn.metadata.connection import Connection
from forewarn.metadata.hub import Hub

TURNS_MAX = 400
"""Maximum iterations of the loop for any expected result: no case needs fifty."""

FAR_SECONDS = 1e12
"""Beyond the end of every wait."""

STATUSES = frozenset({200, 304, 400, 404, 405, 413, 414, 417, 431, 505})
"""The statuses that a client can get here, where time stands still and no rate limit
applies."""

_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) [A-Za-z -]+")
_HEADER = re.compile(rb"([A-Za-z-]+): ([\x20-\x7e]+)")


class HangError(AssertionError):
    """Something that must come did not."""


@dataclass(frozen=True)
class Answered:
    """An answer, as a client reads it."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    @property
    def closes(self) -> bool:
        return (b"Connection", b"close") in self.headers


def answers_of(output: bytes) -> list[Answered]:
    """Return the answers in `output`, without 100s; anything else is a failure."""
    answers: list[Answered] = []
    while output:
        head, end, rest = output.partition(b"\r\n\r\n")
        assert end, f"an answer has no end: {output[:200]!r}"
        line, *lines = head.split(b"\r\n")
        status = _STATUS.fullmatch(line)
        assert status is not None, f"no status line: {line!r}"
        headers: list[tuple[bytes, bytes]] = []
        for text in lines:
            header = _HEADER.fullmatch(text)
            assert header is not None, f"no header: {text!r}"
            headers.append((header[1], header[2]))
        length = int(dict(headers).get(b"Content-Length", b"0"))
        # A body of ours never begins like an answer: HEAD has none.
        if not rest or rest.startswith(b"HTTP/1.1 "):
            length = 0
        assert len(rest) >= length, f"a body was cut off: {output[:200]!r}"
        if status[1] != b"100":
            answers.append(Answered(int(status[1]), tuple(headers), rest[:length]))
        output = rest[length:]
    return answers


class FakeTransport(asyncio.Transport):
    """The part of a socket that a connection uses."""

    def __init__(self, source: str, *, chokes: bool) -> None:
        super().__init__({"peername": (source, 40_000)})
        self.protocol: Connection | None = None
        self.written: list[bytes] = []
        self.reads = True
        self.is_lost = False
        self.has_written_eof = False
        self._chokes = chokes
        self._is_choked = False
        self._is_closing = False
        self._loop = asyncio.get_running_loop()

    def write(self, data: Any) -> None:
        assert not self.has_written_eof, "written after the end"
        if self._is_closing:
            return
        self.written.append(bytes(data))
        if self._chokes and not self._is_choked:
            self._is_choked = True
            assert self.protocol is not None
            self.protocol.pause_writing()
            self._loop.call_soon(self._breathe)

    def _breathe(self) -> None:
        self._is_choked = False
        if not self.is_lost:
            assert self.protocol is not None
            self.protocol.resume_writing()

    def write_eof(self) -> None:
        self.has_written_eof = True

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._loop.call_soon(self._lose)

    def abort(self) -> None:
        self.close()

    def _lose(self) -> None:
        self.is_lost = True
        assert self.protocol is not None
        self.protocol.connection_lost(None)

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        assert self.reads, "paused twice"
        self.reads = False

    def resume_reading(self) -> None:
        assert not self.reads, "resumed twice"
        self.reads = True


class Talk:
    """One connection from its beginning to its end."""

    def __init__(
        self,
        hub: Hub,
        *,
        source: str = "192.0.2.4",
        chokes: bool = False,
        connection: Connection | None = None,
    ) -> None:
        self.hub = hub
        self.connection = connection or Connection(hub)
        self.transport = FakeTransport(source, chokes=chokes)
        self.transport.protocol = self.connection
        self.connection.connection_made(self.transport)

    async def send(self, pieces: Iterable[bytes]) -> None:
        """Give it bytes as a socket would: not while it does not read."""
        for piece in pieces:
            for _ in range(TURNS_MAX):
                self.hub.endpoint.waits.call_due(monotonic=FAR_SECONDS)
                if self.transport.reads or self.transport.is_closing():
                    break
                await asyncio.sleep(0)
            else:
                raise HangError("it does not read on")
            if self.transport.is_closing():
                return
            self.connection.data_received(piece)

    async def settle(self) -> None:
        """Return when nothing is under way that needs no further bytes."""
        connection, transport = self.connection, self.transport
        for _ in range(TURNS_MAX):
            # No test here waits for a change: every wait ends at once.
            self.hub.endpoint.waits.call_due(monotonic=FAR_SECONDS)
            is_at_work = connection._task is not None or connection._has_more
            if transport.is_closing() or transport.has_written_eof or not is_at_work:
                return
            await asyncio.sleep(0)
        raise HangError("a request is not answered")

    async def end(self) -> bytes:
        """Stop sending, wait for the end, return all that was written."""
        await self.settle()
        if not self.transport.is_closing() and not self.connection.eof_received():
            self.transport.close()
        for _ in range(TURNS_MAX):
            if self.transport.is_lost:
                return b"".join(self.transport.written)
            await asyncio.sleep(0)
        raise HangError("it does not end")


async def talk(hub: Hub, pieces: Sequence[bytes], *, chokes: bool = False) -> bytes:
    """Return all that is answered to a stream."""
    conversation = Talk(hub, chokes=chokes)
    await conversation.send(pieces)
    return await conversation.end()
