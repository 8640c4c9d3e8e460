"""Query a driver outside the control thread: in parallel and with deadlines.

Each kind of query has its own threads. If many probes hang after a start, they delay
neither the reports of finished calls nor the abort of a call.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from forewarn.clock import Clock
from forewarn.control.transactions.inquiries import (
    AbilityQuestion,
    Answer,
    ClearQuestion,
    LookQuestion,
    ProbeQuestion,
    Question,
    StopQuestion,
    answer_of,
    no_answer,
)
from forewarn.drivers.errands import Errand, Errands
from forewarn.drivers.port import Driver
from forewarn.instants import Micros
from forewarn.service import limits

logger = logging.getLogger("forewarn.service")

_Key = tuple[str, int, type[Question]]

_THREADS: Mapping[type[Question], str] = {
    ProbeQuestion: "forewarn-probe",
    LookQuestion: "forewarn-look",
    StopQuestion: "forewarn-stop",
    ClearQuestion: "forewarn-clear",
    AbilityQuestion: "forewarn-abilities",
}
"""Names of the threads for each kind of query."""


class ThreadedInquirer:
    """The plane's inquirer for a driver that can block (inquiries.Inquirer)."""

    def __init__(self, driver: Driver, *, clock: Clock) -> None:
        """Query `driver`; any thread can call its `probe`, `observe`, `abort` and
        `abilities`."""
        self._driver = driver
        self._clock = clock
        self._wake: Callable[[], None] = lambda: None
        self._lock = threading.Lock()
        self._asked: dict[_Key, tuple[Question, Errand]] = {}
        self._answers: deque[Answer] = deque()
        self._errands = {
            kind: Errands(
                at_once=limits.INQUIRIES_AT_ONCE, name=name, monotonic=clock.monotonic
            )
            for kind, name in _THREADS.items()
        }

    def on_answer(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from any thread, when an answer has arrived."""
        self._wake = wake

    def ask(self, question: Question, *, now: Micros) -> None:
        """Start a query, unless the same one is running."""
        key = _key(question)
        with self._lock:
            if key in self._asked:
                return
            errand = self._errands[key[2]].run(lambda: self._answer(key, question, now))
            self._asked[key] = question, errand

    def answers(self) -> Sequence[Answer]:
        """Return the new answers, including those for queries past their deadline."""
        self._give_up_late()
        with self._lock:
            taken = tuple(self._answers)
            self._answers.clear()
        return taken

    @property
    def waiting(self) -> int:
        """Return the number of queries without an answer."""
        return len(self._asked)

    def _answer(self, key: _Key, question: Question, now: Micros) -> None:
        try:
            answer = answer_of(self._driver, question, now=now)
        except Exception as error:
            logger.exception("a driver query failed")
            answer = no_answer(question, f"the driver query failed: {error}")
        self._take(key, question, answer)

    def _take(self, key: _Key, question: Question, answer: Answer) -> None:
        with self._lock:
            if key not in self._asked or self._asked[key][0] is not question:
                # The query was abandoned, or started again since.
                return
            del self._asked[key]
            self._answers.append(answer)
        self._wake()

    def _give_up_late(self) -> None:
        late = self._clock.monotonic() - limits.INQUIRY_SECONDS
        with self._lock:
            overdue = [
                (key, question, errand)
                for key, (question, errand) in self._asked.items()
                if errand.began is not None and errand.began < late
            ]
        for key, question, errand in overdue:
            self._errands[key[2]].give_up(errand)
            reason = f"the driver did not answer within {limits.INQUIRY_SECONDS:.0f} s"
            logger.warning("%s: %s", key[0], reason)
            self._take(key, question, no_answer(question, reason))


def _key(question: Question) -> _Key:
    if isinstance(question, AbilityQuestion):
        # The plane asks one at a time.
        return "abilities", 0, AbilityQuestion
    if isinstance(question, ClearQuestion):
        return question.visit_id, 0, ClearQuestion
    named = question.report if isinstance(question, LookQuestion) else question
    return named.operation_id, named.generation, type(question)
