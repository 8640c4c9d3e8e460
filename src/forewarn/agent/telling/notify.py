"""Notifications: what was told, told again to whoever wants to hear, in its own time.

The main loop only writes them into the journal's queue, in the transaction of the
decision, and rings; for each receiver that has something waiting there is a thread,
as long as that is so. A crash leaves them waiting, and one that was delivered and not
forgotten is delivered again, with the same `id`. Nothing ever waits for a receiver:
of too many that wait, the oldest are dropped.
"""

import json
import logging
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from forewarn.agent import forms
from forewarn.agent.core.model import Memory, Note, NoteKind
from forewarn.agent.handlers.posting import Post, PostError, Template, faults, unreached
from forewarn.agent.journal import codec
from forewarn.agent.journal.port import Journal, JournalError, Outgoing, Queued
from forewarn.agent.values import NotifySettings
from forewarn.agent.wire.urls import parse_url
from forewarn.clock import Clock
from forewarn.instants import SECOND, Micros, format_instant

logger = logging.getLogger("forewarn.agent.notify")

BATCH_ROWS = 20
"""Read from the journal at once."""

PAUSE_FIRST_SECONDS = 1.0
PAUSE_MOST_SECONDS = 60.0
"""After a failure; it doubles from one to the other, for ever."""

STOP_SECONDS = 2.0
"""For what is being delivered when the agent ends; the rest waits in the journal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What happened, and in which VM."""

    vm: str
    note: Note

    @classmethod
    def read(cls, body: str) -> "Told":
        """Return it from the queue; raises JournalError."""
        members = json.loads(body)
        return cls(vm=members["vm"], note=codec.load(Note, members["note"]))

    def as_json(self, number: int) -> dict[str, Any]:
        """Return it as receivers get it."""
        event = forms.event_json(self.note.notice) or {"EventId": self.note.event_id}
        return {
            "id": number,
            "at": format_instant(self.note.at),
            "kind": self.note.kind.value,
            "vm": self.vm,
            "handler": self.note.handler,
            "detail": self.note.detail,
            "event": event,
        }

    def words(self, number: int) -> dict[str, str]:
        """Return the placeholders of a body."""
        words = forms.event_words(self.note.notice)
        words["id"] = self.note.event_id
        plain = {
            name: str(value)
            for name, value in self.as_json(number).items()
            if name not in {"id", "event"}
        }
        named = {f"event_{name}": text for name, text in words.items()}
        return {**words, **named, **plain, "number": str(number)}


class SinkError(Exception):
    """The receiver did not take it."""

    def __init__(self, message: str, *, may_pass: bool = True) -> None:
        """Say why, and whether it may take it later."""
        super().__init__(message)
        self.message = message
        self.may_pass = may_pass


class Sink(Protocol):
    """A receiver; used by one thread at a time."""

    def deliver(self, number: int, told: "Told") -> None:
        """Hand one notification over; raises SinkError."""
        ...

    def check(self) -> Sequence[str]:
        """Return what is wrong with it, one sentence each."""
        ...


class FileSink:
    """Appends a line of JSON; the file is opened anew for each, so it may be moved."""

    def __init__(self, path: str) -> None:
        """Append to `path`."""
        self._path = path

    def deliver(self, number: int, told: "Told") -> None:
        """Append one line; raises SinkError."""
        line = json.dumps(told.as_json(number)) + "\n"
        try:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
            opened = os.open(self._path, flags, 0o640)
            try:
                os.write(opened, line.encode())
            finally:
                os.close(opened)
        except OSError as error:
            raise SinkError(f"{self._path}: {error.strerror}") from error

    def check(self) -> Sequence[str]:
        """Return whether its folder is there and may be written."""
        path = os.path.abspath(self._path)
        is_there = os.path.exists(path)
        if not os.access(path if is_there else os.path.dirname(path), os.W_OK):
            return (f"{self._path} cannot be written",)
        return ()


class WebhookSink:
    """Posts each notification; an answer of 2xx takes it."""

    def __init__(self, template: Template, *, timeout: Micros, clock: Clock) -> None:
        """Send nothing yet."""
        self._template = template
        self._timeout = timeout
        self._clock = clock

    def deliver(self, number: int, told: "Told") -> None:
        """Post it once; raises SinkError."""
        usual = json.dumps(told.as_json(number))
        try:
            post = Post(
                self._template, told.words(number), usual=usual, clock=self._clock
            )
            post.send(seconds=self._timeout / SECOND)
        except PostError as error:
            raise SinkError(error.message, may_pass=error.may_pass) from error

    def check(self) -> Sequence[str]:
        """Return what is wrong with the template, or who is not there.

        Nothing is sent.
        """
        return [
            *faults(self._template, PLACES),
            *unreached(self._template, clock=self._clock),
        ]


class Notifier:
    """Makes notifications, and has them delivered."""

    def __init__(self, sinks: Mapping[str, tuple[Sink, frozenset[str]]]) -> None:
        """Tell each sink of the kinds of note that it wants; an empty set: of all."""
        self._sinks = sinks
        self._journal: Journal | None = None
        self._lock = threading.Lock()
        self._threads: dict[str, threading.Thread] = {}
        self._is_rung: set[str] = set()
        self._stopping = threading.Event()
        self._failing: dict[str, str] = {}

    def make(self, note: Note, memory: Memory) -> Sequence[Outgoing]:
        """Return the notifications of a note: the journal's `Teller`."""
        wanting = [
            name
            for name, (_, kinds) in self._sinks.items()
            if not kinds or note.kind.value in kinds
        ]
        if not wanting:
            return ()
        body = json.dumps({"vm": memory.name, "note": codec.dump(note)})
        return [Outgoing(sink=name, body=body) for name in wanting]

    def attach(self, journal: Journal) -> None:
        """Deliver what waits in the journal, now and whenever it is rung."""
        self._journal = journal
        self.ring()

    def ring(self) -> None:
        """Look whether something waits; never waits itself."""
        if self._journal is None or self._stopping.is_set():
            return
        for name in self._sinks:
            with self._lock:
                self._is_rung.add(name)
                if name in self._threads:
                    continue
                thread = threading.Thread(
                    target=self._deliver,
                    args=(name, self._journal),
                    name=f"notify-{name}",
                    daemon=True,
                )
                self._threads[name] = thread
            try:
                thread.start()
            except RuntimeError:
                # There are too many threads; what waits is found at the next ring.
                with self._lock:
                    del self._threads[name]

    def faults(self) -> Mapping[str, str]:
        """Return why each receiver that fails did not take the last one."""
        return dict(self._failing)

    def stop(self) -> None:
        """End: what is not delivered waits in the journal."""
        self._stopping.set()
        with self._lock:
            threads = tuple(self._threads.values())
        for thread in threads:
            if thread.is_alive():
                thread.join(STOP_SECONDS)

    def check(self) -> Sequence[str]:
        """Return what is wrong with the receivers, one sentence each."""
        return [
            f"{name}: {fault}"
            for name, (sink, _) in self._sinks.items()
            for fault in sink.check()
        ]

    # In a receiver's thread

    def _deliver(self, name: str, journal: Journal) -> None:
        pause = PAUSE_FIRST_SECONDS
        while not self._stopping.is_set():
            with self._lock:
                self._is_rung.discard(name)
            is_done = True
            try:
                queued = journal.queued(name, limit=BATCH_ROWS)
                is_done = self._hand_over(name, queued, journal)
            except JournalError as error:
                logger.warning("notifications wait: %s", error)
                queued, is_done = (), False
            if is_done:
                pause = PAUSE_FIRST_SECONDS
            else:
                self._stopping.wait(pause)
                pause = min(2 * pause, PAUSE_MOST_SECONDS)
                continue
            with self._lock:
                if not queued and name not in self._is_rung:
                    del self._threads[name]
                    return

    def _hand_over(self, name: str, queued: Sequence[Queued], journal: Journal) -> bool:
        """Deliver in order, as far as the receiver takes them; tell whether it did."""
        sink, _ = self._sinks[name]
        done: list[int] = []
        fault = ""
        try:
            for each in queued:
                if self._stopping.is_set():
                    break
                try:
                    sink.deliver(each.number, Told.read(each.body))
                except SinkError as error:
                    self._complain(name, error)
                    fault = error.message
                    if error.may_pass:
                        break
                done.append(each.number)
        finally:
            if done:
                journal.delivered(done)
        if not fault and self._failing.pop(name, ""):
            logger.info("%s takes notifications again", name)
        return not fault or len(done) == len(queued)

    def _complain(self, name: str, error: SinkError) -> None:
        if self._failing.get(name) != error.message:
            what = "waits" if error.may_pass else "is dropped"
            logger.warning("a notification for %s %s: %s", name, what, error.message)
        self._failing[name] = error.message


PLACES = Told(vm="", note=Note(at=0, kind=NoteKind.SEEN)).words(0)
"""Every placeholder of a body."""


def make_notifier(settings: Sequence[NotifySettings], *, clock: Clock) -> Notifier:
    """Return the notifier of the settings.

    Receivers are called by their file or host: a whole URL may hold a secret.
    """
    sinks: dict[str, tuple[Sink, frozenset[str]]] = {}
    for each in settings:
        if each.kind == "file":
            sink: Sink = FileSink(each.path)
            name = each.path
        else:
            template = Template(
                url=each.url,
                headers=each.headers,
                body=each.body,
                secret_file=each.secret_file,
                ca_file=each.ca_file,
            )
            sink = WebhookSink(template, timeout=each.timeout, clock=clock)
            name = parse_url(each.url).host
        while name in sinks:
            name += "'"
        sinks[name] = sink, frozenset(each.on)
    return Notifier(sinks)
