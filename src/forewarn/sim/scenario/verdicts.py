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
class Finding:
    """What became of an expectation, or a step that was refused."""

    line: int
    """Of the step or client, in the scenario's file; 0: the file does not have it."""
    what: str
    """The step, or what is demanded of a client, in words."""
    outcome: Outcome
    sentence: str
    is_of_client: bool = False
    """Only a client can have it pass or fail."""
    at: Micros = 0
    """From the start of the scenario."""
    took: Micros = 0
    """How long it was waited for."""

    @property
    def passed(self) -> bool:
        """Tell whether it was seen to be as expected."""
        return self.outcome is Outcome.PASSED

    @property
    def failed(self) -> bool:
        """Tell whether the scenario fails by it."""
        return self.outcome in {Outcome.FAILED, Outcome.ERROR}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How an expectation was decided."""

    outcome: Outcome
    sentence: str

    def about(self, what: str, *, line: int = 0, is_of_client: bool = True) -> Finding:
        """Return it as a finding: what it is about, and where the file says that."""
        return Finding(
            line=line,
            what=what,
            outcome=self.outcome,
            sentence=self.sentence,
            is_of_client=is_of_client,
        )


def good(sentence: str) -> Verdict:
    """Return that it was met."""
    return Verdict(outcome=Outcome.PASSED, sentence=sentence)


def bad(sentence: str) -> Verdict:
    """Return that it was not met."""
    return Verdict(outcome=Outcome.FAILED, sentence=sentence)


def untried(sentence: str) -> Verdict:
    """Return that it could not be tried."""
    return Verdict(outcome=Outcome.ERROR, sentence=sentence)


def skipped(sentence: str) -> Verdict:
    """Return that it was not judged."""
    return Verdict(outcome=Outcome.SKIPPED, sentence=sentence)


def length(duration: Micros) -> str:
    """Return a length of time for a sentence: `12 s`, `0.4 s`, `7 m 12 s`."""
    if 0 <= duration < EXACT_BELOW and duration % SECOND:
        return f"{duration / SECOND:.1f} s"
    return describe_duration(duration)
