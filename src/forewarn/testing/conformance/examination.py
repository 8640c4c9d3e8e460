"""The whole examination of an endpoint: questions, a watch, and then the rules.

A question that could not be tried, usually because there was no event, is asked again
each time the document changes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from forewarn.instants import Micros
from forewarn.testing.answers import How
from forewarn.testing.client import Client
from forewarn.testing.conformance.check import (
    Failed,
    NotTried,
    Question,
    Verdict,
    Witness,
)
from forewarn.testing.conformance.checks import QUESTIONS, RULES, UNTRIED
from forewarn.testing.conformance.documents import Exchange, target
from forewarn.testing.conformance.inquiry import (
    INSTANCE_TARGET,
    Inquiry,
    NoAnswerError,
    UntriedError,
)
from forewarn.testing.conformance.transcript import Transcript

SLOW_MAX = 4
"""Maximum number of answers that do not end within ten seconds. After that, no more
requests are sent: a slow endpoint could block the examination for half an hour."""

_QUICK = "an endpoint whose answers end in time"

LEAVE = "--approve"
"""The option that questions with approvals need."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A line of the report: the expectation of a check, and its verdict."""

    clause: str
    expected: str
    verdict: Verdict


class Examination:
    """One examination of one endpoint."""

    def __init__(
        self,
        client: Client,
        *,
        approve: bool,
        now: Callable[[], Micros],
        pause: Callable[[], object] = lambda: None,
        wait: Callable[[], object] = lambda: None,
        others_approve: bool = False,
        speed: float = 1.0,
    ) -> None:
        """Send requests through `client`; `now` returns the current time.

        `pause` waits for one second before each read of the watch, and returns true to
        end the watch. `wait` waits for one second between two questions.
        """
        self._approve = approve
        self._pause = pause
        self._inquiry = Inquiry(
            client, now=now, wait=wait, others_approve=others_approve, speed=speed
        )
        self._waiting: dict[Question, NotTried] = {}
        self.polls = 0
        """Number of reads of the watch."""
        self.ended = ""
        """Reason why the watch ended early; empty if it did not."""

    @property
    def seen(self) -> Transcript:
        """Return the record so far."""
        return self._inquiry.seen

    def run(self, polls: int) -> Iterator[Finding]:
        """Yield each finding as soon as it is known.

        After the questions, read the document `polls` times, with a pause before each
        read. Raises OSError if the endpoint does not answer the questions at all.
        """
        inquiry = self._inquiry
        try:
            inquiry.read_document()
            inquiry.ask("GET", INSTANCE_TARGET)
            inquiry.look_around()
        except UntriedError:
            # A rule reports later that the document is invalid.
            pass
        except NoAnswerError as error:
            self._need_answer(error.exchange)
        yield from self._ask(QUESTIONS)
        for _ in range(polls):
            if self._is_too_slow:
                self.ended = f"{SLOW_MAX} answers did not end in time"
                break
            if self._pause():
                self.ended = "it was interrupted"
                break
            self.polls += 1
            if inquiry.watch_once():
                yield from self._ask(tuple(self._waiting))
            if inquiry.seen.deleted_by:
                self.ended = f"this VM was deleted: {inquiry.seen.deleted_by}"
                break
            if inquiry.seen.is_full:
                self.ended = "the memory for documents is full"
                break
        for question, verdict in self._waiting.items():
            yield Finding(question.clause, question.title, verdict)
        for rule in RULES:
            yield Finding(rule.clause, rule.title, rule.judge(inquiry.seen))
        for clause, title, needs in UNTRIED:
            yield Finding(clause, title, NotTried(needs=needs))

    def _ask(self, questions: tuple[Question, ...]) -> Iterator[Finding]:
        for question in questions:
            verdict = self._verdict(question)
            if isinstance(verdict, NotTried):
                self._waiting[question] = verdict
            else:
                self._waiting.pop(question, None)
                yield Finding(question.clause, question.title, verdict)

    def _verdict(self, question: Question) -> Verdict:
        if question.approves and not self._approve:
            return NotTried(needs=LEAVE)
        if self._is_too_slow:
            return NotTried(needs=_QUICK)
        try:
            return question.ask(self._inquiry)
        except UntriedError as error:
            return NotTried(needs=error.needs)
        except NoAnswerError as error:
            exchange = error.exchange
        try:
            self._need_answer(exchange)
        except OSError:
            if not self.polls:
                raise
            return NotTried(needs="an endpoint that answers until the end of the watch")
        wrong = f"{exchange.method} {exchange.target} got {exchange.outcome}"
        return Failed(
            witness=Witness(saw=wrong, exchanges=(exchange,), complaint=wrong)
        )

    def _need_answer(self, unanswered: Exchange) -> None:
        """Raise OSError unless a plain GET gets at least a part of an answer."""
        try:
            self._inquiry.ask("GET", target())
        except UntriedError:
            return
        except NoAnswerError as error:
            if error.exchange.broken is None:
                raise OSError(unanswered.failure) from error

    @property
    def _is_too_slow(self) -> bool:
        slow = (exchange.broken is How.TOO_SLOW for exchange in self.seen.exchanges)
        return sum(slow) >= SLOW_MAX
