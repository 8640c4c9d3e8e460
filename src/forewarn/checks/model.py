"""The values of checks: rules to judge by, and results."""

import enum
from dataclasses import dataclass

from forewarn.instants import Micros

REASON_CHARACTERS_MAX = 300
"""Maximum length of a reason, which can quote another system: three lines of a terminal."""


class Kind(enum.Enum):
    """The kind of a check's question."""

    PROMQL = "promql"
    """The value of a query of Prometheus."""
    HTTP = "http"
    """The status, and perhaps the text, of a web page."""
    COMMAND = "command"
    """The exit status of a program."""


class Outcome(enum.Enum):
    """The outcome of a check."""

    PASS = "pass"  # noqa: S105 - not a password
    FAIL = "fail"
    UNKNOWN = "unknown"
    """The question has no usable answer. It never counts as pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """An outcome and its reason, for operators."""

    outcome: Outcome
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The answer to one question of a check."""

    name: str
    outcome: Outcome
    reason: str
    at: Micros
    """The time of the question, so that a late answer is not newer than it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The values of a query that pass; at least one of the bounds is given."""

    below: float | None = None
    above: float | None = None

    def contains(self, value: float) -> bool:
        """Return whether a value is within the bounds, which it must not reach."""
        is_below = self.below is None or value < self.below
        return is_below and (self.above is None or value > self.above)

    @property
    def text(self) -> str:
        """Return the bounds as text: `below 0.01`."""
        both = (("above", self.above), ("below", self.below))
        return " and ".join(
            f"{name} {bound:g}" for name, bound in both if bound is not None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The answer of a web page that passes."""

    status: int = 200
    contains: str = ""
    """A text that the page must contain; empty: any page."""


def passed(reason: str) -> Judged:
    """Return the outcome `PASS`."""
    return Judged(outcome=Outcome.PASS, reason=reason)


def failed(reason: str) -> Judged:
    """Return the outcome `FAIL`."""
    return Judged(outcome=Outcome.FAIL, reason=reason)


def unknown(reason: str) -> Judged:
    """Return the outcome `UNKNOWN`."""
    return Judged(outcome=Outcome.UNKNOWN, reason=reason)
