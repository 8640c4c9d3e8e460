"""The log of a process: text for people or JSON for programs, without blocking.

Logging only puts a record into a queue; a separate thread writes it. If the reader of
standard error stops reading, lines are dropped and counted. A blocked log must never
delay an approval. Lines that clients can cause in large numbers are rate-limited.
"""

from __future__ import annotations

import contextlib
import logging
import math
import queue
import threading
from collections.abc import Callable, Generator, Mapping
from typing import Any, TextIO, cast

from forewarn.clock import Clock, SystemClock
from forewarn.instants import format_instant
from forewarn.texts import json_text, printable

LINES_WAITING_MAX = 10_000
"""Maximum queued lines: a few seconds of a busy service, a few MiB."""

WRITE_CHARACTERS = 4_096
"""Maximum characters of lines that are written together: POSIX keeps so many bytes of one
write together in a pipe, which several processes may share."""

STOP_SECONDS = 2.0
"""Maximum time to write the last lines at the end; the rest is dropped."""

LINES_AT_ONCE = 20
"""Maximum burst of lines of one kind."""

LINES_PER_SECOND = 1.0
"""Sustained rate of lines of one kind."""

KINDS_MAX = 1_000
"""Maximum kinds of lines counted separately: the program has fewer message templates."""

UNLIMITED = "forewarn.audit"
"""The logger without a rate limit: the requests that cause its lines are limited."""

_FIELD = "fields"


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        members: dict[str, Any] = {
            "time": format_instant(round(record.created * 1_000_000)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **fields_of(record),
        }
        if record.exc_info:
            members["traceback"] = self.formatException(record.exc_info)
        return json_text(members)


class TextFormatter(logging.Formatter):
    """Formats a record for people: short for a terminal, with the date for a file."""

    def __init__(self, *, short: bool) -> None:
        """With `short`, write only the time of day."""
        if short:
            super().__init__("%(asctime)s %(message)s", "%H:%M:%S")
        else:
            super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """Return the line without characters that control a terminal."""
        line = super().formatMessage(record)
        fields = ", ".join(
            f"{name} {_shown(value)}" for name, value in fields_of(record).items()
        )
        whole = f"{line} ({fields})" if fields else line
        return printable(whole)


def _shown(value: object) -> str:
    if isinstance(value, list):
        return " ".join(map(str, cast("list[object]", value)))
    return str(value)


def fields_of(record: logging.LogRecord) -> Mapping[str, Any]:
    """Return the structured fields of a record."""
    return getattr(record, _FIELD, {})


class Flood(logging.Filter):
    """Limits the rate of lines of each kind, and reports how many it dropped."""

    def __init__(self, clock: Clock) -> None:
        """Start with a full burst for every kind."""
        super().__init__()
        self._clock = clock
        self._kinds: dict[tuple[str, str], tuple[float, float, int]] = {}
        """The state of each kind: lines allowed, the time of that count, lines dropped."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log the record.

        Only warnings and errors are limited, since clients cause no other lines.
        """
        if record.name == UNLIMITED or record.levelno < logging.WARNING:
            return True
        kind = (record.name, str(record.msg))
        now = self._clock.monotonic()
        in_hand, then, left_out = self._kinds.get(kind, (LINES_AT_ONCE, -math.inf, 0))
        in_hand = min(LINES_AT_ONCE, in_hand + (now - then) * LINES_PER_SECOND)
        if in_hand < 1:
            self._kinds[kind] = (in_hand, now, left_out + 1)
            return False
        if kind not in self._kinds and len(self._kinds) >= KINDS_MAX:
            self._kinds.clear()
        self._kinds[kind] = (in_hand - 1, now, 0)
        if left_out:
            record.fields = {**fields_of(record), "left_out": left_out}
        return True


class Log(logging.Handler):
    """The log of a running process: a bounded queue and the thread that writes it.

    The standard library's `QueueHandler` would load sockets and pickle in the agent.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        form: Callable[[logging.LogRecord], str],
        process: str,
        flood: Flood,
    ) -> None:
        """Start a thread that writes the records that pass `flood` as `form` formats
        them."""
        super().__init__()
        self.addFilter(flood)
        self._process = process
        self._waiting: queue.SimpleQueue[logging.LogRecord | None] = queue.SimpleQueue()
        self._stream = stream
        self._form = form
        self.dropped = 0
        """Number of lines dropped because the queue was full."""
        self._thread = threading.Thread(
            target=self._write, name="forewarn-log", daemon=True
        )
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue the record, or drop it if the queue is full."""
        if self._process:
            record.fields = {**fields_of(record), "process": self._process}
        if self._waiting.qsize() < LINES_WAITING_MAX:
            self._waiting.put(record)
        else:
            self.dropped += 1

    def _write(self) -> None:
        """Write the queued records, those that are queued together in one piece."""
        text, record = "", self._waiting.get()
        while record is not None:
            line = self._line(record)
            if text and len(text) + len(line) > WRITE_CHARACTERS:
                self._send(text)
                text = ""
            text += line
            try:
                record = self._waiting.get_nowait()
            except queue.Empty:
                self._send(text)
                text, record = "", self._waiting.get()
        self._send(text)

    def _line(self, record: logging.LogRecord) -> str:
        try:
            return f"{self._form(record)}\n"
        except Exception:  # noqa: BLE001 - any argument may fail to become text
            self.handleError(record)
            return ""

    def _send(self, text: str) -> None:
        # The log has no other place to report that its stream is broken.
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()

    def stop(self) -> None:
        """Write the queued lines, at most for STOP_SECONDS, and end the thread."""
        self._waiting.put(None)
        self._thread.join(STOP_SECONDS)


@contextlib.contextmanager
def logging_to(
    stream: TextIO,
    *,
    form: str,
    level: str,
    clock: Clock | None = None,
    process: str = "",
    shown: Callable[[str], str] = str,
) -> Generator[Log]:
    """Write the log to `stream` until the end of the context.

    `form` is `json`, `text`, or `auto` (text on a terminal). `level` is the minimum
    level: `debug`, `info`, `warning` or `error`. If several processes write to one
    stream, `process` names this one in each line. `shown` transforms each line with its
    traceback before it is written, for example to mask secrets.
    """
    is_terminal = stream.isatty()
    if form == "json" or (form == "auto" and not is_terminal):
        formatter: logging.Formatter = JsonFormatter()
    else:
        formatter = TextFormatter(short=is_terminal)
    log = Log(
        stream,
        form=lambda record: shown(formatter.format(record)),
        process=process,
        flood=Flood(clock or SystemClock()),
    )
    root, ours = logging.getLogger(), logging.getLogger("forewarn")
    before = ours.level
    root.addHandler(log)
    ours.setLevel(level.upper())
    try:
        yield log
    finally:
        root.removeHandler(log)
        ours.setLevel(before)
        log.stop()
