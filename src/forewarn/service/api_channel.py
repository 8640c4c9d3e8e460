"""Messages between the service and the process of its operator API.

A message has a head and perhaps a payload, each with its length. What the API's
process says is JSON, and the service believes none of it. What the service says is
pickled, since the API's process is started by the service and believes all of it.
"""

import asyncio
import json
import pickle
import socket
import struct
from dataclasses import dataclass
from typing import Any

from forewarn.admin.limits import FLEET_BYTES_MAX
from forewarn.admin.tokens import Tokens
from forewarn.protocol.errors import BadRequestError, ForewarnError
from forewarn.service.settings import Settings

_LENGTHS = struct.Struct("!II")

HEAD_BYTES_MAX = 4 << 20
"""Bytes of a question's head: an order of 512 KiB as JSON, with each character
escaped, is 3 MiB."""

VALUES_MAX = 50_000
"""Commas and brackets in a question's head: an order has 10,000 values at most."""

PAYLOAD_BYTES_MAX = FLEET_BYTES_MAX
"""Bytes of a question's payload: the text of a fleet file."""


class ChannelError(ForewarnError):
    """The process at the other end has said something that it cannot mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What the process of the API is told first."""

    settings: Settings
    tokens: Tokens | None


class Channel:
    """One end of the socket pair; used on one event loop."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Speak over a connection."""
        self._reader = reader
        self._writer = writer
        self._sending = asyncio.Lock()

    @classmethod
    async def over(cls, end: socket.socket) -> "Channel":
        """Return the channel over one end of a socket pair."""
        end.setblocking(False)
        return cls(*await asyncio.open_unix_connection(sock=end))

    async def say(self, head: bytes, payload: bytes = b"") -> None:
        """Send a message; raises ConnectionError where nobody listens any more."""
        async with self._sending:
            if self._writer.is_closing():
                raise ConnectionResetError("the other end has gone")
            self._writer.write(_LENGTHS.pack(len(head), len(payload)) + head)
            if payload:
                self._writer.write(payload)
            await self._writer.drain()

    async def hear(
        self, *, head_max: int = 0, payload_max: int = 0
    ) -> tuple[bytes, bytes]:
        """Return the next message; raises EOFError at the end, and ChannelError.

        0: there is no bound.
        """
        lengths = await self._reader.readexactly(_LENGTHS.size)
        head, payload = _LENGTHS.unpack(lengths)
        if (head_max and head > head_max) or (payload_max and payload > payload_max):
            raise ChannelError(f"a message of {head} and {payload} bytes is too long")
        return (
            await self._reader.readexactly(head),
            await self._reader.readexactly(payload) if payload else b"",
        )

    def close(self) -> None:
        """Say and hear nothing more."""
        self._writer.close()


def check_size(head: bytes, payload: bytes = b"") -> None:
    """Raise BadRequestError for a question that the service would not take.

    Asked before it is sent, it costs one request, and not the API's process.
    """
    if len(head) > HEAD_BYTES_MAX or len(payload) > PAYLOAD_BYTES_MAX:
        raise BadRequestError("the request is too long")
    if _count_values(head) > VALUES_MAX:
        raise BadRequestError(
            f"the request may have {VALUES_MAX} commas and brackets, escaped ones too"
        )


def _count_values(head: bytes) -> int:
    return sum(map(head.count, (b",", b"[", b"{")))


def question(head: bytes) -> dict[str, Any]:
    """Return what the API's process says; raises ChannelError."""
    if _count_values(head) > VALUES_MAX:
        raise ChannelError("a message has too many values")
    try:
        said = json.loads(head)
    except (ValueError, RecursionError) as error:
        raise ChannelError("a message is not JSON") from error
    if not isinstance(said, dict):
        raise ChannelError("a message is not a JSON object")
    return said  # pyright: ignore[reportUnknownVariableType]


def statement(value: object) -> bytes:
    """Return what the service says, as bytes."""
    return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)


def stated(head: bytes) -> Any:
    """Return what the service says."""
    return pickle.loads(head)  # noqa: S301 - from the service, which started us
