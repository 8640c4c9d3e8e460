"""What a check is: a question that asks an endpoint, or a rule for what was seen."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from forewarn.testing.conformance.inquiry import Inquiry
from forewarn.testing.conformance.transcript import Transcript
from forewarn.testing.conformance.verdicts import Verdict, Witness, judge


@dataclass(frozen=True, slots=True)
class Question:
    """It sends requests, and judges what they get."""

    clause: str
    title: str
    """What an endpoint that keeps the clause does, in a few words."""
    witnesses: Callable[[Inquiry], Iterable[Witness]]
    """Sends the requests; raises UntriedError or NoAnswerError."""
    needs: str = "nothing but an endpoint"
    """What was not there if there are no witnesses."""
    approves: bool = False
    """It approves an event, or would at an endpoint with a fault: ask first."""
    waits: bool = False
    """What was refused may start an event a moment later: a rule looks for that."""

    def ask(self, inquiry: Inquiry) -> Verdict:
        """Return what comes of it; raises UntriedError or NoAnswerError."""
        verdict = judge(self.witnesses(inquiry), needs=self.needs)
        if self.waits:
            inquiry.wait()
            inquiry.read()
        return verdict


@dataclass(frozen=True, slots=True)
class Rule:
    """It judges everything that was seen, whoever asked for it."""

    clause: str
    title: str
    witnesses: Callable[[Transcript], Iterable[Witness]]
    needs: str

    def judge(self, seen: Transcript) -> Verdict:
        """Return what comes of it."""
        return judge(self.witnesses(seen), needs=self.needs)


Check: TypeAlias = Question | Rule
