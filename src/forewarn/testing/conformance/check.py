"""What a check is: a question that asks an endpoint, or a rule for what was seen."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from forewarn.testing.conformance.inquiry import Inquiry
from forewarn.testing.conformance.transcript import Transcript
from forewarn.testing.conformance.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class Question:
    """It sends requests, and judges what they get."""

    clause: str
    title: str
    """What an endpoint that keeps the clause does, in a few words."""
    ask: Callable[[Inquiry], Verdict]
    """Raises UntriedError or NoAnswerError."""
    approves: bool = False
    """It approves an event, or would at an endpoint with a fault: ask first."""


@dataclass(frozen=True, slots=True)
class Rule:
    """It judges everything that was seen, whoever asked for it."""

    clause: str
    title: str
    judge: Callable[[Transcript], Verdict]


Check: TypeAlias = Question | Rule
