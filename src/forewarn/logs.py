"""The log of a process: text for people, JSON for programs, never in the way.

Whoever logs only puts the line into a queue; a thread of its own writes. If what
reads standard error stops reading, lines are dropped and counted, and nothing
waits: a blocked log must not hold up an approval. Lines that a client could
cause in great numbers are let through a few at a time.
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
"""Lines that wait to be written: some seconds of a busy service, a few MiB."""

STOP_SECONDS = 2.0
"""For the last lines to be written at the end; then they are given up."""

LINES_AT_ONCE = 20
"""Lines of one kind that are let through at once."""

LINES_PER_SECOND = 1.0
"""Lines of one kind that are let through for ever."""

KINDS_MAX = 1_000
"""Kinds of line that are counted apart: the program's own sentences are fewer."""

UNLIMITED = "forewarn.audit"
"""What was committed is bounded by the orders that caused it, and is told whole."""

_FIELD = "fields"


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

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
    """A line for a person: short on a terminal, dated in a file."""

    def __init__(self, *, short: bool) -> None:
        """Write the time of day only where `short`."""
        if short:
            super().__init__("%(asctime)s %(message)s", "%H:%M:%S")
        else:
            super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """Return the line; nothing in it steers a terminal."""
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
    """Return what a line is about, besides its sentence."""
    return getattr(record, _FIELD, {})


class Flood(logging.Filter):
    """Lets lines of one kind through a few at a time, and says what it left out."""

    def __init__(self, clock: Clock) -> None:
        """Begin with every kind at its best."""
        super().__init__()
        self._clock = clock
        self._kinds: dict[tuple[str, str], tuple[float, float, int]] = {}
        """Of each kind: lines in hand, when that was so, lines left out."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether the line is let through.

        What clients cause are warnings and errors; the rest is the service's own.
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
    """The log of a running process: a bounded queue, and the thread that writes it.

    The library's own handler for a queue would bring sockets and pickles into the agent.
    """

    def __init__(self, to: logging.Handler, *, process: str, flood: Flood) -> None:
        """Have `to` write in a thread what `flood` lets through."""
        super().__init__()
        self.addFilter(flood)
        self._process = process
        self._waiting: queue.Queue[logging.LogRecord | None] = queue.Queue(
            LINES_WAITING_MAX
        )
        self._to = to
        self.dropped = 0
        """How many lines were dropped."""
        self._thread = threading.Thread(
            target=self._write, name="forewarn-log", daemon=True
        )
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Put a line in as it is, unless too many wait."""
        if self._process:
            record.fields = {**fields_of(record), "process": self._process}
        try:
            self._waiting.put_nowait(record)
        except queue.Full:
            self.dropped += 1

    def _write(self) -> None:
        while (record := self._waiting.get()) is not None:
            self._to.handle(record)

    def stop(self) -> None:
        """Write what waits, for so long; end although nobody reads it any more."""
        with contextlib.suppress(queue.Full):
            self._waiting.put(None, timeout=STOP_SECONDS)
            self._thread.join(STOP_SECONDS)


class _ShownFormatter(logging.Formatter):
    """Another formatter's lines, as whoever logs wants them shown."""

    def __init__(self, made: logging.Formatter, shown: Callable[[str], str]) -> None:
        super().__init__()
        self._made = made
        self._shown = shown

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, with its traceback if it has one."""
        return self._shown(self._made.format(record))


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
    """Have the log written to `stream` until the end of the context.

    `form` is `json`, `text`, or `auto`: text on a terminal. `level` is the least
    that is told: `debug`, `info`, `warning` or `error`. Each line names the `process`,
    where several write to one stream. `shown` returns each line as it is to be written,
    with its traceback: without what nobody is to see.
    """
    is_terminal = stream.isatty()
    if form == "json" or (form == "auto" and not is_terminal):
        formatter: logging.Formatter = JsonFormatter()
    else:
        formatter = TextFormatter(short=is_terminal)
    writer = logging.StreamHandler(stream)
    writer.setFormatter(_ShownFormatter(formatter, shown))
    log = Log(writer, process=process, flood=Flood(clock or SystemClock()))
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
