"""Deliver notifications to their receivers in the background.

The main loop only writes notifications to the journal, in the transaction of the
decision, and wakes this module. Each receiver with waiting notifications has a thread.
After a crash, they still wait. A notification that was delivered but not yet removed is
delivered again with the same `id`. Nothing ever waits for a receiver. If too many
notifications wait, the oldest are dropped. A notification that its receiver never
accepts does not block the others.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping, Sequence

from forewarn.agent.core.model import Memory, Note
from forewarn.agent.foreign import told
from forewarn.agent.handlers.run_context import DeliveryError, doubling
from forewarn.agent.integrations.registry import sink_kind
from forewarn.agent.journal import codec
from forewarn.agent.journal.port import Journal, JournalError, Outgoing, Queued
from forewarn.agent.settings_model import NotifySettings
from forewarn.agent.sinks.port import Notification, Sink
from forewarn.agent.wire.urls import parse_url
from forewarn.clock import Clock
from forewarn.instants import SECOND

logger = logging.getLogger("forewarn.agent.notify")

BATCH_ROWS = 20
"""Notifications read from the journal at once."""

PAUSE_FIRST_SECONDS = 1.0
PAUSE_SECONDS_MAX = 60.0
"""Maximum pause after a failure; it doubles from PAUSE_FIRST_SECONDS. The number of
attempts has no limit."""

WAIT_SECONDS_MAX = 900.0
"""Maximum pause that a receiver can ask for."""

HELD_TRIES = 10
"""Attempts to deliver one notification, over about five minutes, before the next one is
tried. If that one is accepted, the first is at fault and is dropped."""

STOP_SECONDS = 2.0
"""Time for deliveries in progress when the agent ends. The rest waits in the
journal."""


class Notifier:
    """Creates notifications, and delivers them."""

    def __init__(self, sinks: Mapping[str, tuple[Sink, frozenset[str]]]) -> None:
        """Store each receiver with the kinds of note for it; an empty set means all."""
        self._sinks = sinks
        self._journal: Journal | None = None
        self._lock = threading.Lock()
        self._threads: dict[str, threading.Thread] = {}
        self._is_rung: set[str] = set()
        self._stopping = threading.Event()
        self._failing: dict[str, str] = {}
        self._held: dict[str, tuple[int, int]] = {}
        """For each receiver, the last notification that it refused, and how often."""

    def make(self, note: Note, memory: Memory) -> Sequence[Outgoing]:
        """Return the notifications of a note: the journal's `CreateNotifications`."""
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
        """Deliver the notifications in the journal, now and after each `ring`.

        Notifications for receivers that were removed or renamed are dropped.
        """
        try:
            gone = journal.drop_others(self._sinks)
        except JournalError as error:
            logger.warning("notifications wait: %s", error)
        else:
            if gone:
                logger.warning(
                    "%d notifications were dropped, since their receivers are no longer in "
                    "the settings",
                    gone,
                )
        self._journal = journal
        self.ring()

    def ring(self) -> None:
        """Start delivering new notifications; never waits."""
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
                # There are too many threads. The next ring tries again.
                with self._lock:
                    del self._threads[name]

    def faults(self) -> Mapping[str, str]:
        """Return the receivers that fail, each with the reason."""
        return dict(self._failing)

    def stop(self) -> None:
        """Stop; notifications that were not delivered wait in the journal."""
        self._stopping.set()
        with self._lock:
            threads = tuple(self._threads.values())
        for thread in threads:
            if thread.is_alive():
                thread.join(STOP_SECONDS)

    def check(self) -> Sequence[str]:
        """Return the problems of the receivers, one sentence each."""
        return [
            f"{name}: {fault}"
            for name, (sink, _) in self._sinks.items()
            for fault in sink.check()
        ]

    # In the thread of a receiver

    def _deliver(self, name: str, journal: Journal) -> None:
        pauses = doubling(PAUSE_FIRST_SECONDS, PAUSE_SECONDS_MAX)
        while not self._stopping.is_set():
            with self._lock:
                self._is_rung.discard(name)
            fault, wait = "", 0.0
            try:
                queued = journal.queued(name, limit=BATCH_ROWS)
                error = self._hand_over(name, queued, journal)
                if error is not None:
                    fault, wait = error.message, error.wait / SECOND
            except JournalError as error:
                logger.warning("notifications wait: %s", error)
                queued, fault = (), error.message
            if fault:
                self._stopping.wait(max(next(pauses), min(wait, WAIT_SECONDS_MAX)))
                continue
            pauses = doubling(PAUSE_FIRST_SECONDS, PAUSE_SECONDS_MAX)
            with self._lock:
                if not queued and name not in self._is_rung:
                    del self._threads[name]
                    return

    def _hand_over(
        self, name: str, queued: Sequence[Queued], journal: Journal
    ) -> DeliveryError | None:
        """Deliver notifications in order until one is refused; return the reason."""
        done: list[int] = []
        faults = 0
        try:
            for index, message in enumerate(queued):
                if self._stopping.is_set():
                    break
                if message.number in done:
                    continue
                error = self._offer(name, message)
                if error is not None and error.may_pass:
                    behind = queued[index + 1 : index + 2]
                    is_held = self._is_held(name, message)
                    if is_held and behind and self._offer(name, behind[0]) is None:
                        done.append(behind[0].number)
                        error = self._given_up(name, message)
                if error is not None:
                    faults += 1
                    self._complain(name, error)
                    if error.may_pass:
                        return error
                done.append(message.number)
        finally:
            if done:
                journal.delivered(done)
        if not faults and self._failing.pop(name, ""):
            logger.info("%s accepts notifications again", name)
        return None

    def _offer(self, name: str, queued: Queued) -> DeliveryError | None:
        """Deliver one notification; return why it was refused, or None."""
        sink, _ = self._sinks[name]
        try:
            sink.deliver(queued.number, Notification.read(queued.body))
        except DeliveryError as error:
            return error
        except JournalError as error:
            return DeliveryError(error.message, may_pass=False)
        except Exception as error:
            # A bug with one notification must not block the others.
            logger.exception("a notification for %s", name)
            return DeliveryError(f"a bug: {type(error).__name__}", may_pass=False)
        return None

    def _is_held(self, name: str, queued: Queued) -> bool:
        """Return whether this notification was refused so often that it may be at
        fault."""
        number, tries = self._held.get(name, (queued.number, 0))
        tries = tries + 1 if number == queued.number else 1
        self._held[name] = queued.number, tries
        return tries >= HELD_TRIES

    def _given_up(self, name: str, queued: Queued) -> DeliveryError | None:
        """Try once more, since the receiver works; return why it is dropped, or
        None."""
        error = self._offer(name, queued)
        if error is None:
            return None
        return DeliveryError(
            f"{error.message} ({HELD_TRIES} times, while the next one was taken)",
            may_pass=False,
        )

    def _complain(self, name: str, error: DeliveryError) -> None:
        why = told(error.message)
        if self._failing.get(name) != why:
            outcome = "waits" if error.may_pass else "is dropped"
            logger.warning("a notification for %s %s: %s", name, outcome, why)
        self._failing[name] = why


def make_notifier(settings: Sequence[NotifySettings], *, clock: Clock) -> Notifier:
    """Return the notifier for the settings.

    A receiver's name is its file or host, since a whole URL may contain a secret.
    """
    sinks: dict[str, tuple[Sink, frozenset[str]]] = {}
    for entry in settings:
        name, sink = _sink(entry, clock)
        while name in sinks:
            name += "'"
        sinks[name] = sink, frozenset(entry.on)
    return Notifier(sinks)


def _sink(settings: NotifySettings, clock: Clock) -> tuple[str, Sink]:
    """Return the name of a receiver, and the receiver."""
    kind = sink_kind(settings.kind)
    if kind is not None:
        return kind.name(settings), kind.make(settings, clock)
    # Only modules that the settings need are loaded.
    if settings.kind == "file":
        from forewarn.agent.sinks.file import FileSink  # noqa: PLC0415

        return settings.path, FileSink(settings.path)
    from forewarn.agent.handlers.posting import Template  # noqa: PLC0415
    from forewarn.agent.sinks.webhook import WebhookSink  # noqa: PLC0415

    template = Template(
        url=settings.url,
        headers=settings.headers,
        body=settings.body,
        secret_file=settings.secret_file,
        ca_file=settings.ca_file,
    )
    sink = WebhookSink(template, timeout=settings.timeout, clock=clock)
    return parse_url(settings.url).host, sink
