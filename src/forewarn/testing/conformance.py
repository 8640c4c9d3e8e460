"""Does a server keep the protocol? Every clause, what was expected, what was seen.

It joins the checks, the watch over time and what cannot be tried from outside into
one report. Values in, values out, but for the endpoint that is asked.
"""

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from forewarn.instants import Micros
from forewarn.testing import checks
from forewarn.testing.checks import Result
from forewarn.testing.client import Client
from forewarn.testing.watching import WatchingClient

_SEVERAL = "it needs several VMs of one event"
_ORDERS = "it needs orders to the platform"
_HYPERVISOR = "it needs a hypervisor to look at"
_SCOPES = "it needs VMs of several scopes and tenants"
_SILENCE = "it needs VMs that never asked, or a day of silence"
_CLIENT = "it is about clients, and not about endpoints"
_AIDS = "it is about aids for tests, and not about endpoints"

UNTRIED = (
    ("3.5", "Several events of one operation", _SEVERAL),
    (
        "3.6",
        "Deletions that belong together",
        "it needs several VMs that are deleted together",
    ),
    ("4.3", "After the removal", _HYPERVISOR),
    ("4.5", "Rollouts that stop", _ORDERS),
    ("4.6", "Usual times", "it is about usual timing, and no rule"),
    ("4.7", "Nothing without an event", _HYPERVISOR),
    ("5.1", "Least notice", _ORDERS),
    ("5.2", "Maintenance by the platform", _ORDERS),
    ("5.3", "Orders of a user", _ORDERS),
    ("5.4", "A host that will fail", _ORDERS),
    ("5.5", "A host that has failed", _ORDERS),
    ("5.6", "Eviction", _ORDERS),
    ("5.7", "Deletion", _ORDERS),
    ("5.8", "OS upgrade and reimage", _ORDERS),
    ("5.9", "What each order shows", _ORDERS),
    ("6.1", "Who sees an event", _SCOPES),
    ("6.2", "GPU scale sets", _SCOPES),
    ("6.3", "The guard", _SCOPES),
    ("7.1", "The first request", _SILENCE),
    ("7.2", "What is enabled together", _SILENCE),
    ("7.3", "Silence", _SILENCE),
    ("7.4", "When nobody listens", _SILENCE),
    ("8.1", "It asks, and never dies of an answer", _CLIENT),
    ("8.2", "It finds the endpoint", _CLIENT),
    ("8.3", "Whose event it is", _CLIENT),
    ("8.4", "What it does unless told otherwise", _CLIENT),
    ("8.5", "It approves when it has prepared", _CLIENT),
    ("8.6", "One may approve for all", _CLIENT),
    ("8.7", "It goes on watching", _CLIENT),
    ("8.8", "It remembers", _CLIENT),
    ("9.1", "Events by hand", _AIDS),
    ("9.2", "Ready scenarios", _AIDS),
    ("9.3", "Events in one place", _AIDS),
    ("9.4", "The past", _AIDS),
)
"""What no question from one VM can find out: the clause, its title, and why."""


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
    client: Client,
    *,
    approve: bool,
    polls: int,
    pause: Callable[[], object],
    now: Callable[[], Micros],
) -> Iterator[Finding]:
    """Yield findings as they are made, then what cannot be tried.

    After the checks the document is read `polls` times more, with `pause` before
    each; `now` is the time of the world. Raises OSError if the endpoint cannot be
    reached.
    """
    watching = WatchingClient(client, now=now)
    # What approves comes last, since it may use up the only event there is.
    ordered = sorted(
        checks.CHECKS, key=lambda check: (check.approves, not check.needs_scheduled)
    )
    for result in checks.run_checks(watching, ordered, approve=approve):
        yield _finding(result)
    watching.watch(polls, pause)
    for result in checks.run_checks(watching, checks.LIFE_CHECKS, approve=approve):
        yield _finding(result)
    for clause, title, why in UNTRIED:
        yield Finding(
            clause=clause, expected=title, verdict=Verdict.NOT_TRIED, seen=why
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
