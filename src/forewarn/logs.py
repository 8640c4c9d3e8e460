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


class _Named(logging.Filter):
    """Adds the name of the process to each line."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def filter(self, record: logging.LogRecord) -> bool:
        record.fields = {**fields_of(record), "process": self._process}
        return True


class _Hand(logging.Handler):
    """Puts lines into the queue as they are, or drops them.

    The library's own handler would bring sockets and pickles into the agent.
    """

    def __init__(self, waiting: queue.Queue[Any]) -> None:
        super().__init__()
        self._waiting = waiting
        self.dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Put it in, unless too many wait."""
        try:
            self._waiting.put_nowait(record)
        except queue.Full:
            self.dropped += 1


class _ShownFormatter(logging.Formatter):
    """Another formatter's lines, as whoever logs wants them shown."""

    def __init__(self, made: logging.Formatter, shown: Callable[[str], str]) -> None:
        super().__init__()
        self._made = made
        self._shown = shown

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, with its traceback if it has one."""
        return self._shown(self._made.format(record))


class _Writer:
    """Writes what is in the queue, and ends although nobody reads it any more."""

    def __init__(
        self, waiting: queue.Queue[logging.LogRecord | None], to: logging.Handler
    ) -> None:
        self._waiting = waiting
        self._to = to
        self._thread = threading.Thread(
            target=self._write, name="forewarn-log", daemon=True
        )
        self._thread.start()

    def _write(self) -> None:
        while (record := self._waiting.get()) is not None:
            self._to.handle(record)

    def stop(self) -> None:
        """Write what waits, for so long."""
        with contextlib.suppress(queue.Full):
            self._waiting.put(None, timeout=STOP_SECONDS)
            self._thread.join(STOP_SECONDS)


class Log:
    """The log of a running process."""

    def __init__(self, hand: _Hand) -> None:
        """Count what `hand` drops."""
        self._hand = hand

    def lines_dropped(self) -> int:
        """Return how many lines were dropped."""
        return self._hand.dropped


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
    waiting: queue.Queue[logging.LogRecord | None] = queue.Queue(LINES_WAITING_MAX)
    hand = _Hand(waiting)
    hand.addFilter(Flood(clock or SystemClock()))
    if process:
        hand.addFilter(_Named(process))
    thread = _Writer(waiting, writer)
    root, ours = logging.getLogger(), logging.getLogger("forewarn")
    before = ours.level
    root.addHandler(hand)
    ours.setLevel(level.upper())
    try:
        yield Log(hand)
    finally:
        root.removeHandler(hand)
        ours.setLevel(before)
        thread.stop()
