"""All workers of the driver: which hosts each has, questions to all, and sightings."""

import contextlib
import itertools
import logging
import threading
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from forewarn.clock import Clock
from forewarn.drivers.libvirt.answers import HostAnswer, answer_in, running_in
from forewarn.drivers.libvirt.worker_process import Line, WorkerProcess
from forewarn.drivers.port import NOWHERE, Expected, Sighting
from forewarn.drivers.programs import Words
from forewarn.drivers.watch import sighting_of

HOSTS_PER_WORKER = 50
"""Maximum hosts of one worker: each has a thread, and a worker that dies loses sight of
its hosts for a second."""

ASK_SECONDS = 8.0
"""Maximum seconds of a question to all hosts. Only hosts that hang need as much."""

EXPECTED_SECONDS = 2.0
"""Maximum seconds for which only the hosts are asked on which VMs are expected. A host
answers in milliseconds, and after this time the others can still be asked."""

TROUBLES_MAX = 20
"""Maximum troubles in `forewarn problems`; the log has all."""

logger = logging.getLogger("forewarn.drivers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The answers to one question."""

    hosts: dict[str, HostAnswer]
    missing: frozenset[str]
    """The hosts that have not answered, or cannot."""


@dataclass(slots=True)
class _Question:
    """A question whose answers come in."""

    vms: frozenset[str]
    """The VMs, if it is over when all of them were found to run."""
    waiting: set[str] = field(default_factory=set[str])
    """The hosts that were asked and have not answered."""
    sent_to: set[str] = field(default_factory=set[str])
    found: dict[str, HostAnswer] = field(default_factory=dict[str, HostAnswer])
    is_over: threading.Event = field(default_factory=threading.Event)

    def add(self, hosts: Collection[str]) -> None:
        """Note hosts that are asked now."""
        self.sent_to.update(hosts)
        self.waiting.update(hosts)
        if self.waiting:
            self.is_over.clear()
        else:
            self.is_over.set()

    def note(self, host: str, answer: HostAnswer | None) -> None:
        """Note the answer of a host; None: it cannot answer."""
        self.waiting.discard(host)
        if answer is not None:
            self.found[host] = answer
        if not self.waiting or (self.vms and not self.open_vms):
            self.is_over.set()

    @property
    def open_vms(self) -> frozenset[str]:
        """Return the VMs that were not found to run."""
        return self.vms - running_in(self.found)

    @property
    def answers(self) -> Answers:
        """Return what has come."""
        return Answers(
            hosts=dict(self.found), missing=frozenset(self.sent_to - self.found.keys())
        )


class Workers:
    """The workers; any thread may use them."""

    def __init__(
        self, command: Words, *, clock: Clock, wake: Callable[[], None]
    ) -> None:
        """Start none yet; `wake` is called when there are new sightings."""
        self._words = command
        self._clock = clock
        self._wake = wake
        self._changing = threading.Lock()
        """Held while the workers change."""
        self._lock = threading.Lock()
        """Held while a line is noted, which never blocks."""
        self._workers: list[WorkerProcess] = []
        self._numbers = itertools.count(1)
        self._questions: dict[int, _Question] = {}
        self._sightings: dict[str, Sighting] = {}
        self._troubles: dict[str, str] = {}
        self._wanted: frozenset[str] = frozenset()
        self._assigned = threading.Event()
        """Set while each wanted host has a worker."""
        self._assigned.set()
        self._is_over = False

    def watch_hosts(self, hosts: Collection[str]) -> None:
        """Watch these hosts from now on; return at once."""
        self._assigned.clear()
        self._wanted = frozenset(hosts)
        # A worker that hangs may not delay the caller.
        threading.Thread(
            target=self._assign, name="forewarn-libvirt-hosts", daemon=True
        ).start()

    def _assign(self) -> None:
        """Give each wanted host a worker. A host that stays keeps its worker."""
        with self._changing:
            if self._is_over:
                return
            # The last thread of several gets the newest hosts.
            wanted = self._wanted
            news = sorted(
                wanted.difference(*(process.hosts for process in self._workers))
            )
            for worker in self._workers:
                still_wanted = [host for host in worker.hosts if host in wanted]
                room = HOSTS_PER_WORKER - len(still_wanted)
                more, news = news[:room], news[room:]
                if more or len(still_wanted) < len(worker.hosts):
                    worker.watch([*still_wanted, *more])
            while news:
                self._begin(news[:HOSTS_PER_WORKER])
                news = news[HOSTS_PER_WORKER:]
            with self._lock:
                for host in self._troubles.keys() - wanted:
                    del self._troubles[host]
            if wanted is self._wanted:
                self._assigned.set()

    def ask(
        self,
        vms: Sequence[str],
        *,
        expected: Expected = NOWHERE,
        with_marks: bool = False,
    ) -> Answers:
        """Ask hosts about VMs; a host that hangs has not answered in time.

        First, only the hosts are asked on which the VMs are `expected`; then all others
        about the VMs that do not run there.
        """
        hosts = self._hosts()
        until = self._clock.monotonic() + ASK_SECONDS
        first = hosts.intersection(host for vm in vms for host in expected.get(vm, ()))
        question = _Question(vms=frozenset(vms))
        line = {"vms": list(vms), "marks": with_marks}
        with self._open(question) as number:
            if first:
                self._send({**line, "id": number}, question, first)
                question.is_over.wait(min(EXPECTED_SECONDS, ASK_SECONDS))
            with self._lock:
                line["vms"] = sorted(question.open_vms)
            if line["vms"]:
                self._send({**line, "id": number}, question, hosts - first)
                question.is_over.wait(max(0.0, until - self._clock.monotonic()))
            with self._lock:
                return question.answers

    def ask_abilities(self, places: Mapping[str, Sequence[str]]) -> Answers:
        """Ask some hosts about the VMs on each."""
        hosts = self._hosts() & places.keys()
        question = _Question(vms=frozenset())
        line: dict[str, Any] = {"vms": [], "marks": False}
        line["places"] = {host: list(places[host]) for host in hosts}
        with self._open(question) as number:
            self._send({**line, "id": number}, question, hosts)
            question.is_over.wait(ASK_SECONDS)
            with self._lock:
                return question.answers

    def _hosts(self) -> frozenset[str]:
        """Return the hosts that can be asked."""
        self._assigned.wait(ASK_SECONDS)
        return frozenset(
            host for worker in list(self._workers) for host in worker.hosts
        )

    @contextlib.contextmanager
    def _open(self, question: _Question) -> Generator[int]:
        """Take answers to a question; yield its number."""
        number = next(self._numbers)
        with self._lock:
            self._questions[number] = question
        try:
            yield number
        finally:
            with self._lock:
                del self._questions[number]

    def _send(
        self, line: dict[str, Any], question: _Question, hosts: Collection[str]
    ) -> None:
        """Send a question to the workers of some hosts, for these hosts only."""
        with self._lock:
            question.add(hosts)
        for worker in list(self._workers):
            some = sorted(host for host in worker.hosts if host in hosts)
            if some and not worker.send({**line, "of": some}):
                self._give_up(question, worker)

    def take(self) -> list[Sighting]:
        """Return the new sightings."""
        with self._lock:
            taken = list(self._sightings.values())
            self._sightings.clear()
        return taken

    def troubles(self) -> list[str]:
        """Return the troubles with hosts and workers, for operators."""
        with self._lock:
            troubles = [self._troubles[host] for host in sorted(self._troubles)]
        troubles = [
            *(worker.trouble for worker in self._workers if worker.trouble),
            *troubles,
        ]
        more = len(troubles) - TROUBLES_MAX
        sentences = [
            f"libvirt: {text}" for text in dict.fromkeys(troubles[:TROUBLES_MAX])
        ]
        return [*sentences, f"libvirt: {more} more"] if more > 0 else sentences

    def unreachable(self) -> dict[str, str]:
        """Return why hosts cannot be reached now, by host."""
        with self._lock:
            return dict(self._troubles)

    def stop(self) -> None:
        """End all workers."""
        with self._changing:
            self._is_over = True
            for worker in self._workers:
                worker.stop()

    def _begin(self, hosts: Sequence[str]) -> None:
        worker = WorkerProcess(
            self._words, clock=self._clock, on_line=self._on_line, ended=self._note_end
        )
        worker.hosts = tuple(hosts)
        self._workers.append(worker)
        worker.start()

    # In the threads of workers

    def _on_line(self, line: Line) -> None:
        try:
            if "seen" in line:
                self._see(line)
            elif "connection" in line:
                self._note_connection(str(line["connection"]), str(line["trouble"]))
            else:
                self._note_answer(line)
        except (ValueError, KeyError, TypeError) as error:
            logger.warning("libvirt: invalid line %.200r: %s", line, error)

    def _see(self, line: Line) -> None:
        sighting = sighting_of(line["seen"], now=self._clock.now())
        with self._lock:
            if sighting.is_without_reason and sighting.vm in self._sightings:
                # An old definition of a VM that another host has told about.
                return
            # A repeated VM goes to the end, so that the order is that of the lines.
            self._sightings.pop(sighting.vm, None)
            self._sightings[sighting.vm] = sighting
        self._wake()

    def _note_connection(self, host: str, trouble: str) -> None:
        with self._lock:
            known = self._troubles.pop(host, "")
            if trouble:
                self._troubles[host] = trouble
        if trouble and not known:
            logger.warning("libvirt: %s", trouble)
        elif known and not trouble:
            logger.info("libvirt: %s is connected", host)

    def _note_answer(self, line: Line) -> None:
        answer = answer_in(line["found"]) if "found" in line else None
        with self._lock:
            question = self._questions.get(line["id"])
            if question is not None:
                question.note(line["host"], answer)

    def _note_end(self, worker: WorkerProcess) -> None:
        with self._lock:
            open_questions = list(self._questions.values())
        for question in open_questions:
            self._give_up(question, worker)

    def _give_up(self, question: _Question, worker: WorkerProcess) -> None:
        """Do not wait for the hosts of a worker that has ended."""
        with self._lock:
            for host in set(worker.hosts) & question.waiting:
                question.note(host, None)
