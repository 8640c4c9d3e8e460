"""Messages between the service and the process of its operator API.

A message has a head and an optional payload, each preceded by its length. The API's
process sends JSON, which the service treats as untrusted input. The service sends
pickles, which the API's process trusts, since the service started it.
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
"""Maximum bytes of a call's head: a request of 512 KiB as JSON, with each character
escaped, has 3 MiB."""

VALUES_MAX = 50_000
"""Maximum commas and brackets in a call's head: a request has at most 10,000 values."""

PAYLOAD_BYTES_MAX = FLEET_BYTES_MAX
"""Maximum bytes of a call's payload: the text of a fleet file."""


class ChannelError(ForewarnError):
    """An invalid message from the process at the other end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The first message to the API's process."""

    settings: Settings
    tokens: Tokens | None


class Channel:
    """One end of the socket pair; used on one event loop."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Use a connection."""
        self._reader = reader
        self._writer = writer
        self._sending = asyncio.Lock()

    @classmethod
    async def over(cls, end: socket.socket) -> "Channel":
        """Return the channel over one end of a socket pair."""
        end.setblocking(False)
        return cls(*await asyncio.open_unix_connection(sock=end))

    async def send(self, head: bytes, payload: bytes = b"") -> None:
        """Send a message; raises ConnectionError if the other end is closed."""
        async with self._sending:
            if self._writer.is_closing():
                raise ConnectionResetError("the other end is closed")
            self._writer.write(_LENGTHS.pack(len(head), len(payload)) + head)
            if payload:
                self._writer.write(payload)
            await self._writer.drain()

    async def receive(
        self, *, head_max: int = 0, payload_max: int = 0
    ) -> tuple[bytes, bytes]:
        """Return the next message; raises EOFError at the end, and ChannelError.

        `head_max` and `payload_max` limit the bytes; 0 means no limit.
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
        """Close the connection."""
        self._writer.close()


def check_size(head: bytes, payload: bytes = b"") -> None:
    """Raise BadRequestError for a call that the service would reject.

    The check before sending fails one request. Otherwise the service would end the API's
    process.
    """
    if len(head) > HEAD_BYTES_MAX or len(payload) > PAYLOAD_BYTES_MAX:
        raise BadRequestError("the request is too long")
    if _count_values(head) > VALUES_MAX:
        raise BadRequestError(
            f"the request can have at most {VALUES_MAX} commas and brackets, including "
            "escaped ones"
        )


def _count_values(head: bytes) -> int:
    return sum(map(head.count, (b",", b"[", b"{")))


def question(head: bytes) -> dict[str, Any]:
    """Parse a message from the API's process; raises ChannelError."""
    if _count_values(head) > VALUES_MAX:
        raise ChannelError("a message has too many values")
    try:
        message = json.loads(head)
    except (ValueError, RecursionError) as error:
        raise ChannelError("a message is not JSON") from error
    if not isinstance(message, dict):
        raise ChannelError("a message is not a JSON object")
    return message  # pyright: ignore[reportUnknownVariableType]


def statement(value: object) -> bytes:
    """Return a message from the service as bytes."""
    return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)


def stated(head: bytes) -> Any:
    """Parse a message from the service."""
    return pickle.loads(head)  # noqa: S301 - from the service, which started us
