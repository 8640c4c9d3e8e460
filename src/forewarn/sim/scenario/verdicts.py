"""How an expectation was decided, and in which words."""

import enum
from dataclasses import dataclass

from forewarn.instants import SECOND, Micros, describe_duration

EXACT_BELOW: Micros = 10 * SECOND
"""Shorter times are told to a tenth of a second."""


class Outcome(enum.Enum):
    """What became of an expectation, or of a whole scenario."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    """It could not be tried: a step was refused, or no client asked."""
    SKIPPED = "skipped"
    """It was not judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How an expectation was decided."""

    outcome: Outcome
    sentence: str


def good(sentence: str) -> Verdict:
    """Return that it was met."""
    return Verdict(outcome=Outcome.PASSED, sentence=sentence)


def bad(sentence: str) -> Verdict:
    """Return that it was not met."""
    return Verdict(outcome=Outcome.FAILED, sentence=sentence)


def skipped(sentence: str) -> Verdict:
    """Return that it was not judged."""
    return Verdict(outcome=Outcome.SKIPPED, sentence=sentence)


def length(duration: Micros) -> str:
    """Return a length of time for a sentence: `12 s`, `0.4 s`, `7 m 12 s`."""
    if 0 <= duration < EXACT_BELOW and duration % SECOND:
        return f"{duration / SECOND:.1f} s"
    return describe_duration(duration)
