"""The two kinds of checks: questions send requests, rules judge recorded answers."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from forewarn.testing.conformance.inquiry import Inquiry
from forewarn.testing.conformance.transcript import Transcript
from forewarn.testing.conformance.verdicts import Verdict, Witness, judge


@dataclass(frozen=True, slots=True)
class Question:
    """A check that sends requests and judges the answers."""

    clause: str
    title: str
    """Short description of an endpoint that follows the clause."""
    witnesses: Callable[[Inquiry], Iterable[Witness]]
    """Sends the requests and yields witnesses; raises UntriedError or NoAnswerError."""
    needs: str = "nothing but an endpoint"
    """Condition that was missing if the check yields no witness."""
    approves: bool = False
    """Whether it approves an event, or could do so at a faulty endpoint. Such a check
    needs the user's consent."""
    waits: bool = False
    """Whether to read the document again after a pause. A faulty endpoint may start an
    event although it refused the approval; a rule looks for that."""

    def ask(self, inquiry: Inquiry) -> Verdict:
        """Send the requests and return the verdict.

        Raises UntriedError or NoAnswerError.
        """
        verdict = judge(self.witnesses(inquiry), needs=self.needs)
        if self.waits:
            inquiry.wait()
            inquiry.read()
        return verdict


@dataclass(frozen=True, slots=True)
class Rule:
    """A check that judges all recorded answers, whichever check requested them."""

    clause: str
    title: str
    witnesses: Callable[[Transcript], Iterable[Witness]]
    needs: str

    def judge(self, seen: Transcript) -> Verdict:
        """Return the verdict on a transcript."""
        return judge(self.witnesses(seen), needs=self.needs)


Check: TypeAlias = Question | Rule
