"""A client for one QMP monitor of QEMU, on a Unix socket.

A monitor serves one client at a time. Each command has a deadline. Events are values,
kept in order until they are taken. The end of QEMU is the end of the stream: commands
that wait then fail at once, and so does every later one.
"""

import asyncio
import contextlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, cast

COMMAND_SECONDS = 10.0
"""Maximum seconds for the answer to a command. QEMU answers within milliseconds, unless
its disks or its machine hang."""

LINE_BYTES_MAX = 4 * 1024 * 1024
"""Maximum bytes of a message: the longest answers are some hundred kilobytes."""

EVENTS_KEPT = 10_000
"""Maximum number of events that wait to be taken: then the oldest are dropped. A guest
can cause events, and must not fill the memory of the driver."""


class MonitorError(Exception):
    """A monitor cannot be used."""


class NoMonitorError(MonitorError):
    """No process listens on the socket: QEMU does not run."""


class ClosedError(MonitorError):
    """QEMU has ended, or closed the connection."""


class SlowError(MonitorError):
    """QEMU did not answer in time."""


class CommandError(MonitorError):
    """QEMU refused a command."""

    def __init__(self, command: str, kind: str, text: str) -> None:
        """Keep the class of the error."""
        super().__init__(f"{command}: {text}")
        self.kind = kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event of QEMU."""

    name: str
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    at: float = 0.0
    """QEMU's time of the event, in seconds since 1970."""


class Monitor:
    """A connection to a monitor, ready for commands; one task uses it."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Take over a connection; `open_monitor` makes one."""
        self._reader, self._writer = reader, writer
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._last_id = 0
        self._events: list[Event] = []
        self._news = asyncio.Event()
        """Set when there is another event, or the stream has ended."""
        self._has_ended = False
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Return the monitor."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connection."""
        await self.close()

    @property
    def has_ended(self) -> bool:
        """Return whether QEMU has ended or closed the connection."""
        return self._has_ended

    async def greet(self) -> None:
        """Read the greeting and leave the negotiation mode; raises MonitorError."""
        first = _parsed(await self._line())
        if first is None or "QMP" not in first:
            raise ClosedError("the socket is not a QMP monitor")
        self._task = asyncio.create_task(self._read())
        await self.execute("qmp_capabilities")

    async def execute(
        self,
        command: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        seconds: float = COMMAND_SECONDS,
    ) -> Any:
        """Return the answer to a command; raises MonitorError."""
        if self._has_ended:
            raise ClosedError("QEMU has closed the monitor")
        self._last_id += 1
        number = self._last_id
        message: dict[str, Any] = {"execute": command, "id": number}
        if arguments:
            message["arguments"] = dict(arguments)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            async with asyncio.timeout(seconds):
                self._writer.write(json.dumps(message).encode() + b"\n")
                await self._writer.drain()
                response = await answer
        except TimeoutError:
            raise SlowError(f"{command}: no answer within {seconds:g} s") from None
        except OSError as error:
            raise ClosedError("QEMU has closed the monitor") from error
        finally:
            del self._waiting[number]
            if answer.done() and not answer.cancelled():
                # Otherwise asyncio logs an error that came after the deadline.
                answer.exception()
        if "error" in response:
            error = response["error"]
            raise CommandError(
                command, str(error.get("class", "")), str(error.get("desc", ""))
            )
        return response["return"]

    def take_events(self) -> list[Event]:
        """Return the events that have come since the last call."""
        taken, self._events = self._events, []
        return taken

    async def wait_for(self, names: Collection[str], *, seconds: float) -> Event | None:
        """Return the next event with one of these names; None: it did not come in time.

        Other events are dropped. Raises ClosedError if QEMU ends first.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    self._news.clear()
                    while self._events:
                        event = self._events.pop(0)
                        if event.name in names:
                            return event
                    if self._has_ended:
                        raise ClosedError("QEMU has closed the monitor")
                    await self._news.wait()
        return None

    async def news(self) -> None:
        """Return when there are events that were not taken; raises ClosedError.

        The events that came before the end of QEMU can be taken after it.
        """
        while not self._has_ended:
            self._news.clear()
            if self._events:
                return
            await self._news.wait()
        raise ClosedError("QEMU has closed the monitor")

    async def close(self) -> None:
        """Close the connection; QEMU runs on. A cancellation leaves nothing open."""
        self._writer.close()
        self._end()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    # The reader

    async def _line(self) -> bytes:
        try:
            return await self._reader.readline()
        except (OSError, ValueError) as error:
            # A ValueError is a message that is too long.
            raise ClosedError("QEMU has closed the monitor") from error

    async def _read(self) -> None:
        try:
            while line := await self._line():
                message = _parsed(line)
                if message is None:
                    return
                self._take(message)
        except ClosedError:
            return
        finally:
            self._end()

    def _take(self, message: dict[str, Any]) -> None:
        if "event" in message:
            self._events.append(_event(message))
            del self._events[:-EVENTS_KEPT]
            self._news.set()
            return
        answer = self._waiting.get(message.get("id", 0))
        if answer is not None and not answer.done():
            answer.set_result(message)

    def _end(self) -> None:
        self._has_ended = True
        self._news.set()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(ClosedError("QEMU has closed the monitor"))


async def open_monitor(path: Path, *, seconds: float = COMMAND_SECONDS) -> Monitor:
    """Return a monitor that is ready for commands; raises MonitorError."""
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_unix_connection(
                path, limit=LINE_BYTES_MAX
            )
            monitor = Monitor(reader, writer)
            try:
                await monitor.greet()
            except BaseException:
                await monitor.close()
                raise
            return monitor
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise NoMonitorError(f"no QEMU listens on {path}") from error
    except TimeoutError:
        raise SlowError(
            f"{path} did not answer within {seconds:g} s: another client may use it"
        ) from None
    except OSError as error:
        raise MonitorError(f"{path}: {error.strerror or error}") from error


def _parsed(line: bytes) -> dict[str, Any] | None:
    """Return the message of a line; None: it is not one."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _event(message: dict[str, Any]) -> Event:
    data, stamp = message.get("data"), message.get("timestamp", {})
    return Event(
        name=str(message["event"]),
        data=cast("dict[str, Any]", data) if isinstance(data, dict) else {},
        at=stamp.get("seconds", 0) + stamp.get("microseconds", 0) / 1e6,
    )
