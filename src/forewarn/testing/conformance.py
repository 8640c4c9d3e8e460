"""Does a server keep the protocol? Every clause, what was expected, what was seen.

It joins the checks, the watch over time and what cannot be tried from outside into
one report. Values in, values out, but for the endpoint that is asked.
"""

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from forewarn.testing import checks
from forewarn.testing.checks import Result
from forewarn.testing.client import Client
from forewarn.testing.watching import WatchingClient

UNTRIED = {
    "3.5": "needs several VMs of one event",
    "3.6": "needs several VMs that are deleted together",
    "4.3": "needs a hypervisor to look at",
    "4.5": "needs orders to the platform",
    "4.6": "is about usual timing, and no rule",
    "4.7": "needs a hypervisor to look at",
    "5": "needs orders to the platform",
    "6": "needs VMs of several scopes and tenants",
    "7": "needs a day of silence, and VMs that never asked",
}
"""What no question from one VM can find out, and why."""


class Verdict(enum.Enum):
    """What came of an expectation."""

    PASSED = "pass"
    FAILED = "fail"
    NOT_TRIED = "not tried"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A line of the report."""

    clause: str
    expected: str
    verdict: Verdict
    seen: str = ""
    """What came instead, or why it was not tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was found of a server."""

    url: str
    findings: tuple[Finding, ...]

    def count(self, verdict: Verdict) -> int:
        """Return how many findings have this verdict."""
        return sum(each.verdict is verdict for each in self.findings)

    @property
    def passed(self) -> bool:
        """Tell whether nothing failed, and something was tried."""
        return not self.count(Verdict.FAILED) and self.count(Verdict.PASSED) > 0


def examine(
    client: Client, *, approve: bool, polls: int, pause: Callable[[], object]
) -> Iterator[Finding]:
    """Yield findings as they are made, then what cannot be tried.

    After the checks the document is read `polls` times more, with `pause` before
    each. Raises OSError if the endpoint cannot be reached.
    """
    watching = WatchingClient(client)
    # What approves comes last, since it may use up the only event there is.
    ordered = sorted(
        checks.CHECKS, key=lambda check: (check.approves, not check.needs_scheduled)
    )
    for result in checks.run_checks(watching, ordered, approve=approve):
        yield _finding(result)
    watching.watch(polls, pause)
    for result in checks.run_checks(watching, checks.LIFE_CHECKS, approve=approve):
        yield _finding(result)
    for clause, why in UNTRIED.items():
        yield Finding(
            clause=clause, expected="", verdict=Verdict.NOT_TRIED, seen=f"it {why}"
        )


def report(url: str, findings: Sequence[Finding]) -> Report:
    """Return the findings in the order of the clauses."""
    return Report(url=url, findings=tuple(sorted(findings, key=_order)))


def _finding(result: Result) -> Finding:
    verdict = Verdict.FAILED
    if result.skipped:
        verdict = Verdict.NOT_TRIED
    elif result.passed:
        verdict = Verdict.PASSED
    return Finding(
        clause=result.check.clause,
        expected=result.check.title,
        verdict=verdict,
        seen=result.note,
    )


def _order(finding: Finding) -> tuple[int, ...]:
    return tuple(int(part) for part in finding.clause.split("."))
