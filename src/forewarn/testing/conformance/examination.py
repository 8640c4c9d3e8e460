"""The whole examination of an endpoint: questions, a watch, and then the rules.

A question that could not be tried, for want of an event mostly, is asked again
whenever the document has changed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from forewarn.instants import Micros
from forewarn.testing.answers import How
from forewarn.testing.client import Client
from forewarn.testing.conformance.check import Question
from forewarn.testing.conformance.checks import QUESTIONS, RULES, UNTRIED
from forewarn.testing.conformance.exchanges import Exchange, target
from forewarn.testing.conformance.inquiry import (
    INSTANCE_TARGET,
    Inquiry,
    NoAnswerError,
    UntriedError,
)
from forewarn.testing.conformance.transcript import Transcript
from forewarn.testing.conformance.verdicts import Failed, NotTried, Verdict, Witness

SLOW_MAX = 4
"""Answers that begin and do not end in their time, each of which takes ten seconds,
before nothing more is asked: an endpoint that drips would hold us for half an hour."""

_QUICK = "an endpoint whose answers end in their time"

LEAVE = "--approve"
"""What a question needs that approves."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A line of the report: what was expected of a clause, and what came of it."""

    clause: str
    expected: str
    verdict: Verdict


class Examination:
    """One endpoint, examined once."""

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
        """Ask through `client`; `now` is the time of the world.

        `pause` lets a second of it pass before each read of the watch, and returns
        true to end it; `wait` does so between two questions.
        """
        self._approve = approve
        self._pause = pause
        self._inquiry = Inquiry(
            client, now=now, wait=wait, others_approve=others_approve, speed=speed
        )
        self._waiting: dict[Question, NotTried] = {}
        self.polls = 0
        """Reads of the watch."""
        self.ended = ""
        """Why the watch ended before its time; empty: it did not."""

    @property
    def seen(self) -> Transcript:
        """Return what was seen so far."""
        return self._inquiry.seen

    def run(self, polls: int) -> Iterator[Finding]:
        """Yield findings as they are made.

        After the questions the document is read `polls` times, with a pause before
        each. Raises OSError if the endpoint does not answer the questions at all.
        """
        inquiry = self._inquiry
        try:
            inquiry.look()
            inquiry.ask("GET", INSTANCE_TARGET)
            inquiry.look_around()
        except UntriedError:
            # Whatever is wrong with the document, rules will say.
            pass
        except NoAnswerError as error:
            self._need_answer(error.exchange)
        yield from self._ask(QUESTIONS)
        for _ in range(polls):
            if self._is_too_slow:
                self.ended = f"{SLOW_MAX} answers did not end in their time"
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
                self.ended = "there is no memory for more documents"
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
        """Raise OSError unless a plain GET is answered, if only in part."""
        try:
            self._inquiry.ask("GET", target())
        except UntriedError:
            return
        except NoAnswerError as error:
            if error.exchange.broken is None:
                raise OSError(unanswered.failure) from error

    @property
    def _is_too_slow(self) -> bool:
        slow = (each.broken is How.TOO_SLOW for each in self.seen.exchanges)
        return sum(slow) >= SLOW_MAX
