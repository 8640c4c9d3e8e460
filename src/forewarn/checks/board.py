"""The last results of checks, in memory: a decision reads them without any question.

One thread writes. Others may read: each change replaces a whole value. After a start,
every check is unknown until it was asked.
"""

from collections.abc import Collection, Mapping

from forewarn.checks.model import CheckResult, Outcome
from forewarn.instants import Micros, describe_duration


class Board:
    """The last result of each configured check, and which checks are needed."""

    def __init__(
        self, ages_max: Mapping[str, Micros], fails: Mapping[str, int] | None = None
    ) -> None:
        """Start without results.

        `ages_max` has the maximum age of each check's results, and `fails` how many times
        in a row a check must fail to count as failed; 1 for the others.
        """
        self._ages_max = ages_max
        self._fails = fails or {}
        self._failed: dict[str, int] = {}
        """Failures of each check since it passed last."""
        self._results: Mapping[str, CheckResult] = {}
        self.needed: frozenset[str] = frozenset()
        """The checks that are asked regularly."""

    @property
    def names(self) -> Collection[str]:
        """Return the names of the configured checks."""
        return self._ages_max.keys()

    def need(self, names: Collection[str]) -> None:
        """Ask these checks regularly from now on, and no others."""
        self.needed = frozenset(names) & self._ages_max.keys()

    def take(self, result: CheckResult) -> bool:
        """Store a result, unless a later question has one; return whether it is news.

        It is news if the outcome differs from the last one, or has become one that counts,
        or if the last one was too old to count.
        """
        name = result.name
        last = self._results.get(name)
        if name not in self._ages_max or (last and last.at > result.at):
            return False
        before = self._failed.get(name, 0)
        if result.outcome is Outcome.PASS:
            self._failed[name] = 0
        elif result.outcome is Outcome.FAIL:
            self._failed[name] = before + 1
        self._results = {**self._results, name: result}
        # The last failure that was needed counts from now on.
        has_failed = before + 1 == self._fails.get(name, 1) == self._failed.get(name)
        if last is None or result.at - last.at > self._ages_max[name]:
            return True
        return last.outcome is not result.outcome or has_failed

    def last(self, name: str) -> CheckResult | None:
        """Return the last result, however old; None: there is none."""
        return self._results.get(name)

    def latest(self, name: str, *, now: Micros) -> CheckResult:
        """Return the result that counts now.

        It is unknown if the last one is too old, or has not failed often enough.
        """
        if name not in self._ages_max:
            return _unknown(name, f"there is no check {name} in the settings", now)
        last = self._results.get(name)
        if last is None:
            return _unknown(name, "it was not asked since the start", now)
        age, most = now - last.at, self._ages_max[name]
        if age > most:
            old = describe_duration(age)
            return _unknown(
                name, f"its last answer is {old} old: {last.reason}", last.at
            )
        failed, needed = self._failed.get(name, 0), self._fails.get(name, 1)
        if last.outcome is Outcome.FAIL and failed < needed:
            return _unknown(
                name, f"it failed {failed} of {needed} times: {last.reason}", last.at
            )
        return last


NO_CHECKS = Board({})
"""The board of a service without checks. It never changes."""


def _unknown(name: str, reason: str, at: Micros) -> CheckResult:
    return CheckResult(name=name, outcome=Outcome.UNKNOWN, reason=reason, at=at)
