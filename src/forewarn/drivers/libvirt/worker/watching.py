"""One host of a worker that watches: its connection, its events, and questions about it.

Everything about a host is done in its own thread, so one that hangs delays no other.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from . import abilities, states
from .domains import Domain, Domains
from .hosts import Hosts, within
from .orders import UnreachableError, WorkError
from .states import GuestState, Memory

EVENT_LIFECYCLE = 0
"""VIR_DOMAIN_EVENT_ID_LIFECYCLE."""

CHECK_SECONDS = 5.0
"""Seconds between two checks of a connection without questions."""

AGAIN_SECONDS = 1.0
"""Seconds until a host that cannot be reached is tried again, at first. Each failure
doubles it."""
AGAIN_SECONDS_MAX = 30.0
"""Maximum seconds until then, so that a host that was restarted is noticed soon."""

ITEMS_MAX = 1_000
"""Maximum questions and events that wait for a host before a question gets no answer: the
service has given the older ones up. Events are few, and none is dropped."""

CALL_SECONDS = 30.0
"""Maximum seconds of the calls about one question: keepalive ends a connection earlier,
unless libvirt itself hangs."""

BUSY_SECONDS = 2.0
"""Seconds after which a host that does not answer one question is not asked another."""

T = TypeVar("T")

Say = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Event:
    """A lifecycle event of a domain."""

    vm: str
    event: int
    detail: int


class HostThread:
    """The thread of one host."""

    def __init__(self, host: str, hosts: Hosts, say: Say) -> None:
        """Connect to nothing yet; `say` gets each line, from any thread."""
        self.host = host
        self._hosts = hosts
        self._send = say
        self._over = threading.Event()
        self._domains = Domains(hosts, self._over)
        self._items: queue.Queue[dict[str, Any] | Event] = queue.Queue()
        """Questions, and events, which come in the thread of all hosts: it may not wait."""
        self._memory = Memory()
        self._conn: Any = None
        """The connection whose events are heard."""
        self._told: str | None = None
        """The last line about the connection."""
        self._busy_since = 0.0
        """When the call that runs now began; 0: none runs."""
        self._thread = threading.Thread(target=self._main, name=host, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def end(self) -> None:
        """End the thread as soon as it does not hang."""
        self._over.set()

    def ask(self, question: dict[str, Any]) -> None:
        """Let the thread answer a question, unless too many wait."""
        busy = self._busy_since
        if self._told:
            self._answer_nothing(question, self._told)
            return
        if busy and time.monotonic() - busy > BUSY_SECONDS:
            self._answer_nothing(question, f"{self.host} hangs")
            return
        if self._items.qsize() > ITEMS_MAX:
            self._answer_nothing(question, "too many questions wait for this host")
        else:
            self._items.put(question)

    # The thread

    def _main(self) -> None:
        wait = AGAIN_SECONDS
        while not self._over.is_set():
            try:
                self._connect()
                wait = AGAIN_SECONDS
                self._serve()
            except (WorkError, TimeoutError) as error:
                # Waiting questions get an answer without a state.
                self._hosts.drop(self.host)
                self._busy_since = 0.0
                text = str(error) or f"{self.host} hangs"
                self._tell_connection(text)
                self._answer_all(text)
                self._over.wait(wait)
                wait = min(2 * wait, AGAIN_SECONDS_MAX)

    def _connect(self) -> None:
        """Connect, listen to events, and tell the state of each domain."""
        conn = self._conn = self._hosts.get(self.host)
        self._within(lambda: self._begin(conn))
        self._tell_connection("")

    def _begin(self, conn: Any) -> None:
        api = self._hosts.api
        try:
            conn.domainEventRegisterAny(None, EVENT_LIFECYCLE, self._on_event, None)
            states_by_vm: dict[str, GuestState] = {}
            for domain in conn.listAllDomains(0):
                try:
                    state, reason = domain.state()[:2]
                except api.libvirtError:
                    # It has ended meanwhile, and its event comes.
                    continue
                states_by_vm[domain.name()] = states.guest_state(state, reason)
        except api.libvirtError as error:
            raise self._hosts.failure(self.host, error) from None
        for vm, guest in self._memory.list(states_by_vm).items():
            self._report(vm, guest)

    def _on_event(
        self, conn: Any, domain: Any, event: int, detail: int, opaque: Any
    ) -> None:
        del conn, opaque
        self._items.put(Event(str(domain.name()), event, detail))

    def _note(self, event: Event) -> None:
        news = self._memory.observe(event.vm, event.event, event.detail)
        if news is not None:
            self._report(event.vm, news)

    def _serve(self) -> None:
        """Answer questions until the connection is lost; raises WorkError then."""
        while not self._over.is_set():
            try:
                question = self._items.get(timeout=CHECK_SECONDS)
            except queue.Empty:
                self._within(self._check)
                continue
            if isinstance(question, Event):
                self._note(question)
                continue
            try:
                lines = self._within(partial(self._found, question))
            except (WorkError, TimeoutError) as error:
                self._answer_nothing(question, str(error) or f"{self.host} hangs")
                if isinstance(error, (UnreachableError, TimeoutError)):
                    raise
                continue
            self._send({"id": question["id"], "host": self.host, "found": lines})

    def _within(self, work: Callable[[], T]) -> T:
        """Return the result of calls to the host; raises TimeoutError if it hangs."""
        self._busy_since = time.monotonic()
        result = within(CALL_SECONDS, work, name=self.host)
        self._busy_since = 0.0
        return result

    def _check(self) -> None:
        conn = self._hosts.get(self.host)
        if conn is not self._conn:
            raise UnreachableError(f"the connection to {self.host} was lost")
        try:
            conn.getLibVersion()
        except self._hosts.api.libvirtError as error:
            raise UnreachableError(
                f"the connection to {self.host} was lost: {error}"
            ) from None

    # Answers

    def _found(self, question: dict[str, Any]) -> list[dict[str, Any]]:
        self._check()
        lines: list[dict[str, Any]] = []
        places = question.get("places")
        vms = question["vms"] if places is None else places.get(self.host, [])
        for vm in vms:
            try:
                domain = self._domains.find(vm, self.host)
                if domain is not None:
                    lines.append(self._line(vm, domain, with_mark=question["marks"]))
                if domain is not None and places is not None:
                    lines[-1]["cannot"] = abilities.limits_of(self._domains, domain)
            except UnreachableError:
                raise
            except WorkError:
                # Others can be known.
                lines.append({"vm": vm, "presence": "unknown"})
        return lines

    def _line(self, vm: str, domain: Domain, *, with_mark: bool) -> dict[str, Any]:
        line: dict[str, Any] = {"vm": vm, "presence": domain.guest.presence}
        if with_mark:
            mark = self._domains.read_mark(domain)
            line["mark"] = None if mark is None else mark.text
            if mark is not None:
                line["state"] = mark.state
        return line

    def _answer_all(self, text: str) -> None:
        while True:
            try:
                question = self._items.get_nowait()
            except queue.Empty:
                return
            if isinstance(question, Event):
                self._note(question)
            else:
                self._answer_nothing(question, text)

    def _answer_nothing(self, question: dict[str, Any], text: str) -> None:
        self._send({"id": question["id"], "host": self.host, "error": text})

    def _report(self, vm: str, state: GuestState) -> None:
        line = {"vm": vm, "running": state.presence == states.HERE, "host": self.host}
        if state.presence != states.HERE:
            line["cause"] = state.cause
            line["text"] = f"libvirt: {state.text}"
        self._send({"seen": line})

    def _tell_connection(self, trouble: str) -> None:
        if trouble != self._told:
            self._told = trouble
            self._send({"connection": self.host, "trouble": trouble})
