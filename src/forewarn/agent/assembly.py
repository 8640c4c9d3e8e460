"""Assemble one running agent from its settings.

All parts are created before any of them starts, so that problems of the machine (a
foreign journal, a missing token) are reported at once. If an address is in use, the
agent reports it, keeps trying, and works meanwhile. At the end, handlers keep running,
and the next start resumes them.
"""

from __future__ import annotations

import enum
import logging
import os
import queue
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from forewarn.agent.agent import WAKE, Agent, Dispatch, Entry
from forewarn.agent.core import gating, locking, underway
from forewarn.agent.core.model import (
    AskPeers,
    Command,
    Memory,
    Note,
    Run,
    Send,
    Stage,
    Stop,
    Tighten,
)
from forewarn.agent.core.permits import AskGate, ReleaseLock, TakeLock
from forewarn.agent.core.policy import Policy
from forewarn.agent.core.polling import WAIT, Pace
from forewarn.agent.core.recovering import missing_handlers
from forewarn.agent.dry import DryRun
from forewarn.agent.endpoint_lock import EndpointLock, place_of
from forewarn.agent.handlers.making import make_workers, memos_beside, records_next_to
from forewarn.agent.handlers.port import Ground
from forewarn.agent.handlers.records import RunRecords
from forewarn.agent.handlers.runner import Runner
from forewarn.agent.handlers.secret import SecretError, read_token
from forewarn.agent.journal.opening import Opened, boot_id, can_be_opened, open_journal
from forewarn.agent.journal.port import JournalError, Limits, MemoryJournal
from forewarn.agent.observability.feeding import Feeder
from forewarn.agent.observability.metrics import Metrics
from forewarn.agent.observability.notify import Notifier, make_notifier
from forewarn.agent.observability.pages import Pages, PeerPages
from forewarn.agent.observability.server import Listeners, Server
from forewarn.agent.outbound import Sender, asker_of_gate, asker_of_lock, peers_of
from forewarn.agent.renewing import Renewal
from forewarn.agent.settings_model import AUTO, PeerSettings, Settings
from forewarn.agent.watcher import Watched, Watcher, renamed
from forewarn.agent.wire.dhcp import SearchResult
from forewarn.agent.wire.discovery import (
    DEFAULT,
    Discovery,
    places,
    seek,
    seek_here,
    urls_of,
)
from forewarn.agent.wire.endpoint import Endpoint
from forewarn.clock import Clock, SystemClock
from forewarn.logs import Log
from forewarn.protocol.errors import ForewarnError
from forewarn.supervisor import supervisor_of, unsupervised

logger = logging.getLogger("forewarn.agent")

REOPEN_SECONDS = 5.0
"""Pause between attempts to open a journal that failed at the start. Pending work
should not wait long after the disk works again."""

STATUS_LINES = 100
"""Maximum number of history entries in `/status`."""


class Ending(enum.Enum):
    """Why an agent has ended."""

    STOPPED = "stopped"
    REOPENED = "reopened"
    """The journal can be opened now."""
    RENEWED = "renewed"
    """The settings have changed: `Renewal.settings`."""


class Parts:
    """All parts of one agent."""

    def __init__(
        self,
        settings: Settings,
        *,
        environ: Mapping[str, str],
        clock: Clock,
        log: Log | None = None,
        renewal: Renewal | None = None,
        known: Watched | None = None,
        listeners: Listeners | None = None,
    ) -> None:
        """Create the parts without starting them; raises ForewarnError.

        `known` is the state of the previous agent in this process, for the same
        endpoint. `listeners` has its listening sockets, and gets those of this agent.
        """
        self._renewal = renewal
        self._settings = settings
        self._clock = clock
        self._looks_again = clock.monotonic() + REOPEN_SECONDS
        self._inbox: queue.SimpleQueue[Entry] = queue.SimpleQueue()
        self._endpoint = endpoint_of(settings, clock)
        self._notifier = make_notifier(settings.notify, clock=clock)
        self._opened = _journal(settings, self._notifier)
        self._server = Server(clock=clock, listeners=listeners)
        self._place: EndpointLock | None = None
        try:
            self._place = place_of(settings)
            name = settings.watch.vm_name
            records = (
                None
                if settings.watch.dry_run
                else records_next_to(settings.watch.state)
            )
            self.agent = Agent(
                settings.policy,
                journal=self._opened.journal,
                dispatch=self._dispatch(environ, clock, records),
                clock=clock,
                inbox=self._inbox,
                on_notes=self._noted,
                name=name,
                journal_fault=self._opened.fault,
            )
            memory = self.agent.status.memory
            self.metrics = Metrics(memory, handlers=settings.policy.by_name)
            self._watcher = Watcher(
                self._endpoint,
                pace=pace_of(settings),
                clock=clock,
                tell=self._inbox.put,
                name=name,
                has_answered=bool(memory.name) and not name,
                wanted=lambda: self.agent.status.wants_answers,
                known=known,
                called=memory.name,
            )
            self.pages = self._pages(clock, log)
            self._feeder = Feeder(
                supervisor_of(environ),
                is_alive=self.pages.is_alive,
                status=self.pages.summary,
                clock=clock,
            )
            self.address = self._listen()
        except BaseException:
            self.close()
            raise

    @property
    def watched(self) -> Watched:
        """Return the state of polling."""
        return self._watcher.view

    def run(self) -> Ending:
        """Work until `stop` is called, or until a restart is needed."""
        self._server.start()
        self._watcher.start()
        self._notifier.attach(self._opened.journal)
        self._feeder.begin()
        if self._opened.was_rebooted:
            logger.info("this VM was rebooted since an agent last ran")
        for problem in self._unrecoverable():
            logger.warning("%s", problem)
        logger.info("watching %s", self._endpoint.url)
        self.agent.begin()
        ending = Ending.STOPPED
        while ending is Ending.STOPPED and self.agent.turn():
            self.metrics.decided(self.agent.status.memory)
            self._feeder.tick()
            if self._place is not None:
                self._place.tick()
            if self._may_restart():
                logger.warning("the journal can be opened now; restarting with it")
                ending = Ending.REOPENED
            elif self._renewal is not None and self._renewal.is_due(
                self.agent.status.memory
            ):
                ending = Ending.RENEWED
        if ending is Ending.STOPPED:
            logger.info("stopping")
            self._feeder.end()
        self._watcher.stop()
        return ending

    def _may_restart(self) -> bool:
        """Return whether the journal can be opened now, and no work is in progress.

        Work that was done without the journal is only in memory, so it must end first.
        """
        now = self._clock.monotonic()
        if not self._opened.fault or now < self._looks_again:
            return False
        self._looks_again = now + REOPEN_SECONDS
        is_idle = not underway.what(self.agent.status.memory)
        return is_idle and can_be_opened(self._settings.watch.state, self._opened)

    def stop(self) -> None:
        """Make `run` end; may be called from any thread and from handlers of signals."""
        self._inbox.put(None)

    def wake(self) -> None:
        """End the wait of `run`; may be called like `stop`."""
        self._inbox.put(WAKE)

    def close(self) -> None:
        """Close all parts."""
        self._server.stop()
        self._endpoint.close()
        self._notifier.stop()
        self._opened.close()
        if self._place is not None:
            self._place.release()

    def _dispatch(
        self, environ: Mapping[str, str], clock: Clock, records: RunRecords | None
    ) -> Dispatch:
        settings, tell = self._settings, self._inbox.put
        ask = asker_of_gate(settings, clock, tell)
        ask_gate: Dispatch = {AskGate: ask} if ask else {}
        if records is None:
            return {**DryRun(tell).dispatch, **ask_gate}
        runner = Runner(
            make_workers(settings.handlers, ground_of(settings, environ, clock)),
            finish=tell,
            vm=lambda: self.agent.status.memory.name,
            clock=clock,
            records=records,
        )
        approve = partial(self._endpoint.approve, timeout=settings.watch.timeout)
        senders: dict[type[Command], Callable[[Any], None]] = {
            Run: runner.start,
            Stop: runner.stop,
            Tighten: runner.tighten,
            Send: Sender(lambda: approve, tell).ask,
            **ask_gate,
        }
        if settings.policy.has_peers:
            token = token_in(settings, settings.peers)
            senders[AskPeers] = peers_of(settings, token, clock, tell).ask
        if ask_lock := asker_of_lock(settings, environ, clock, tell):
            senders[TakeLock] = senders[ReleaseLock] = ask_lock
        return senders

    def _noted(self, notes: Sequence[Note]) -> None:
        self.metrics.decided(self.agent.status.memory, notes)
        self._notifier.ring()

    def _pages(self, clock: Clock, log: Log | None) -> Pages:
        watch, journal = self._settings.watch, self._opened.journal
        observes = "observe" if watch.observe else "normal"
        return Pages(
            agent=lambda: self.agent.status,
            watched=lambda: self._watcher.view,
            is_watching=self._watcher.is_alive,
            age=self._watcher.age,
            history=lambda: journal.history(limit=STATUS_LINES),
            metrics=self.metrics,
            clock=clock,
            began=clock.now(),
            state=os.path.realpath(watch.state),
            mode="dry run" if watch.dry_run else observes,
            problems=self._problems,
            has_old_settings=self._has_old_settings,
            notifications_dropped=journal.dropped,
            lines_dropped=(lambda: log.dropped) if log else int,
        )

    def _has_old_settings(self) -> bool:
        renewal = self._renewal
        return self._settings.is_copy or (renewal is not None and bool(renewal.fault))

    def _problems(self) -> Sequence[str]:
        problems = list(self._settings.warnings)
        if self._renewal is not None and self._renewal.fault:
            problems.append(self._renewal.fault)
        watched = self._watcher.view
        if watched.former:
            problems.append(renamed(watched.former, watched.name))
        if self._opened.fault:
            problems.append(f"the journal cannot be used: {self._opened.fault}")
        problems += self._server.faults.values()
        problems += self._unrecoverable()
        problems += [
            f"{name} accepts no notifications: {fault}"
            for name, fault in self._notifier.faults().items()
        ]
        return problems

    def _unrecoverable(self) -> Sequence[str]:
        memory, policy = self.agent.status.memory, self._settings.policy
        return (
            *unrecoverable(memory, policy),
            *locking.problems(memory, policy),
            *gating.problems(memory),
        )

    def _listen(self) -> str:
        """Listen at all addresses; return the address of the pages, HOST:PORT.

        If an address is not available, the agent still prepares for events. To its
        peers, it counts as an agent that has not prepared.
        """
        watch, peers = self._settings.watch, self._settings.peers
        listen, place = self._server.listen_when_free, None
        if watch.listen:
            place = listen(watch.listen, self.pages.answer)
        if peers.listen:
            token = token_in(self._settings, peers)
            pages = PeerPages(lambda: self.agent.status, token=token)
            listen(peers.listen, pages.answer)
        if place is None:
            return ""
        host, port = place
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def unrecoverable(memory: Memory, policy: Policy) -> list[str]:
    """Return the pending recoveries that no handler in the settings can do."""
    return [
        f"the recovery of handler {name} is pending for {task.event_id}, but the settings "
        "have no such handler of its kind; restore it"
        for task in memory.tasks
        if task.stage is Stage.RECOVERING
        for name in missing_handlers(task, policy)
    ]


def endpoint_of(settings: Settings, clock: Clock) -> Endpoint:
    """Return the endpoint that the settings name."""
    url = settings.watch.endpoint
    if url != AUTO:
        return _endpoint_at(settings, clock, url)
    places_of = Discovery(clock=clock, seek=_seek_of(settings)).places
    return Endpoint(places_of, clock=clock, ca_file=settings.watch.ca_file)


def elsewhere_of(
    settings: Settings, clock: Clock
) -> Iterator[tuple[Sequence[Endpoint], Sequence[str]]]:
    """Yield other possible endpoints with the results of the search, for `check`.

    Addresses from leases come first. The search runs only if they are not enough.
    """
    if settings.watch.endpoint != AUTO:
        return
    leased = [url for url in places(clock) if url != DEFAULT]
    if leased:
        yield [_endpoint_at(settings, clock, url) for url in leased], ()
    heard = _seek_of(settings)(clock)
    urls = [url for url in urls_of(heard) if url not in leased]
    yield [_endpoint_at(settings, clock, url) for url in urls], heard.sentences


def _seek_of(settings: Settings) -> Callable[[Clock], SearchResult]:
    return seek if settings.watch.dhcp else seek_here


def _endpoint_at(settings: Settings, clock: Clock, url: str) -> Endpoint:
    return Endpoint(lambda: (url,), clock=clock, ca_file=settings.watch.ca_file)


def pace_of(settings: Settings) -> Pace:
    """Return the settings for polling."""
    watch = settings.watch
    return Pace(
        interval=watch.poll,
        timeout=watch.timeout,
        first_timeout=watch.first_timeout,
        wait=WAIT if watch.push else 0,
    )


def ground_of(settings: Settings, environ: Mapping[str, str], clock: Clock) -> Ground:
    """Return the environment of handlers."""
    return Ground(
        records=records_next_to(settings.watch.state),
        environment=unsupervised(environ),
        clock=clock,
        memos=memos_beside(settings.watch.state),
    )


def checks_of(
    settings: Settings, environ: Mapping[str, str]
) -> Sequence[tuple[str, Callable[[str], Sequence[str]]]]:
    """Return the checks of the handlers and receivers, which take this VM's name."""
    clock = SystemClock()
    workers = make_workers(settings.handlers, ground_of(settings, environ, clock))
    checks: list[tuple[str, Callable[[str], Sequence[str]]]] = [
        (f"handler {name}", worker.check) for name, worker in workers.items()
    ]
    if settings.notify:
        notifier = make_notifier(settings.notify, clock=clock)
        checks.append(("notify", lambda _vm: notifier.check()))
    return checks


def token_in(settings: Settings, peers: PeerSettings) -> str:
    """Return the token that the peers share; raises AgentSettingsError."""
    try:
        return read_token(peers.token_file)
    except SecretError as error:
        # A running agent has unloaded the modules for settings.
        from forewarn.agent.settings import problem  # noqa: PLC0415

        raise problem(settings, "peers.token_file", error.message) from error


def _journal(settings: Settings, notifier: Notifier) -> Opened:
    limits = Limits(
        history_rows=settings.history.rows, history_age=settings.history.keep
    )
    if settings.watch.dry_run:
        # The next start must not believe that anything was done.
        return Opened(
            journal=MemoryJournal(create_notifications=notifier.make, limits=limits),
            lock=None,
        )
    try:
        return open_journal(
            settings.watch.state,
            boot=boot_id(),
            create_notifications=notifier.make,
            limits=limits,
        )
    except JournalError as error:
        raise ForewarnError(error.message, hint=error.hint) from error
