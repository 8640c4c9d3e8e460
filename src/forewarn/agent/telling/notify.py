"""Notifications: what was told, told again to whoever wants to hear, in its own time.

The main loop only writes them into the journal's queue, in the transaction of the
decision, and rings; for each receiver that has something waiting there is a thread,
as long as that is so. A crash leaves them waiting, and one that was delivered and not
forgotten is delivered again, with the same `id`. Nothing ever waits for a receiver:
of too many that wait, the oldest are dropped.
"""

import json
import logging
import threading
from collections.abc import Mapping, Sequence

from forewarn.agent.core.model import Memory, Note
from forewarn.agent.handlers.posting import Template
from forewarn.agent.integrations.catalog import sink_kind
from forewarn.agent.journal import codec
from forewarn.agent.journal.port import Journal, JournalError, Outgoing, Queued
from forewarn.agent.sinks.file import FileSink
from forewarn.agent.sinks.port import Sink, SinkError, Told
from forewarn.agent.sinks.webhook import WebhookSink
from forewarn.agent.values import NotifySettings
from forewarn.agent.wire.urls import parse_url
from forewarn.clock import Clock

logger = logging.getLogger("forewarn.agent.notify")

BATCH_ROWS = 20
"""Read from the journal at once."""

PAUSE_FIRST_SECONDS = 1.0
PAUSE_MOST_SECONDS = 60.0
"""After a failure; it doubles from one to the other, for ever."""

STOP_SECONDS = 2.0
"""For what is being delivered when the agent ends; the rest waits in the journal."""


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


def make_notifier(settings: Sequence[NotifySettings], *, clock: Clock) -> Notifier:
    """Return the notifier of the settings.

    Receivers are called by their file or host: a whole URL may hold a secret.
    """
    sinks: dict[str, tuple[Sink, frozenset[str]]] = {}
    for each in settings:
        name, sink = _sink(each, clock)
        while name in sinks:
            name += "'"
        sinks[name] = sink, frozenset(each.on)
    return Notifier(sinks)


def _sink(settings: NotifySettings, clock: Clock) -> tuple[str, Sink]:
    """Return a receiver and what it is called."""
    kind = sink_kind(settings.kind)
    if kind is not None:
        return kind.name(settings), kind.make(settings, clock)
    if settings.kind == "file":
        return settings.path, FileSink(settings.path)
    template = Template(
        url=settings.url,
        headers=settings.headers,
        body=settings.body,
        secret_file=settings.secret_file,
        ca_file=settings.ca_file,
    )
    sink = WebhookSink(template, timeout=settings.timeout, clock=clock)
    return parse_url(settings.url).host, sink
