"""Verdicts on expectations."""

import enum
from dataclasses import dataclass

from forewarn.instants import SECOND, Micros, describe_duration

EXACT_BELOW: Micros = 10 * SECOND
"""Shorter times are shown in tenths of a second."""


class Outcome(enum.Enum):
    """The outcome of an expectation or of a scenario."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    """The demand could not be checked: a step was refused, or no client asked."""
    SKIPPED = "skipped"
    """The demand was not judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The outcome of an expectation, or a refused step."""

    line: int
    """Line of the step or client in the scenario file; 0: not in the file."""
    what: str
    """The step or the demand, as text."""
    outcome: Outcome
    sentence: str
    is_of_client: bool = False
    """Whether the finding depends on a client."""
    at: Micros = 0
    """Time from the start of the scenario."""
    took: Micros = 0
    """How long the runner waited for the expected action."""

    @property
    def passed(self) -> bool:
        """Return whether the expectation was met."""
        return self.outcome is Outcome.PASSED

    @property
    def failed(self) -> bool:
        """Return whether the finding fails the scenario."""
        return self.outcome in {Outcome.FAILED, Outcome.ERROR}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The decision about an expectation."""

    outcome: Outcome
    sentence: str

    def about(self, what: str, *, line: int = 0, is_of_client: bool = True) -> Finding:
        """Return a finding about `what`, at a line of the file."""
        return Finding(
            line=line,
            what=what,
            outcome=self.outcome,
            sentence=self.sentence,
            is_of_client=is_of_client,
        )


def good(sentence: str) -> Verdict:
    """Return a verdict: the demand was met."""
    return Verdict(outcome=Outcome.PASSED, sentence=sentence)


def bad(sentence: str) -> Verdict:
    """Return a verdict: the demand was not met."""
    return Verdict(outcome=Outcome.FAILED, sentence=sentence)


def untried(sentence: str) -> Verdict:
    """Return a verdict: the demand could not be checked."""
    return Verdict(outcome=Outcome.ERROR, sentence=sentence)


def skipped(sentence: str) -> Verdict:
    """Return a verdict: the demand was not judged."""
    return Verdict(outcome=Outcome.SKIPPED, sentence=sentence)


def length(duration: Micros) -> str:
    """Return a duration for a sentence: `12 s`, `0.4 s`, `7 m 12 s`."""
    is_exact = 0 <= duration < EXACT_BELOW and duration % SECOND
    return f"{duration / SECOND:.1f} s" if is_exact else describe_duration(duration)
