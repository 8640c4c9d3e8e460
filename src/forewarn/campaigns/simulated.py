"""The chances of a simulated campaign, and the course that it took, as values.

A chance is a digest of the seed and of a name. A host therefore has the same fate in
each simulation with this seed, whatever the other hosts do.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from forewarn.campaigns.model import Expectation
from forewarn.instants import SECOND, Micros

_BITS = 64

_NINETIETH = 1.2815515655446004
"""The 90th percentile of the normal distribution, in standard deviations."""

SEED_MAX = (1 << 53) - 1
"""Maximum of a seed: every reader of JSON keeps such a number exactly."""

TIMES_SLOW_MAX = 2
"""Maximum duration of the work on one host, as a multiple of a slow host's."""


USUAL_APPROVAL = 0.7
"""Share of the scopes that approve, if neither given nor measured: some tenants automate
their approvals, and some let the notice pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """The assumptions of a simulation about tenants and hosts."""

    approve: float | None = None
    """Share of the scopes that approve, after a random part of the notice. None: tenants
    approve as fast as was measured, or a usual share if it was not."""
    failures: float = 0.0
    """Share of the hosts whose work fails."""
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Chances:
    """The fates of scopes and hosts: a function of the assumptions and their names."""

    assumed: Assumptions

    def approves(self, scope: str) -> bool:
        """Return whether a scope approves its events."""
        share = self.assumed.approve
        return self._share("approves", scope) < (
            USUAL_APPROVAL if share is None else share
        )

    def passes(self, host: str, notices: Sequence[Micros]) -> Micros:
        """Return which part of its notice passes until all tenants on a host approve.

        It is that of one of the hosts of past work, `notices`.
        """
        return notices[int(self._share("notice", host) * len(notices))]

    def approval_after(self, scope: str, operation: str) -> float:
        """Return the part of the notice after which a scope approves."""
        return self._share("approval", scope, operation)

    def fails(self, host: str) -> bool:
        """Return whether the work on a host fails."""
        return self._share("fails", host) < self.assumed.failures

    def work(self, host: str, expect: Expectation) -> Micros:
        """Return how long the work on a host takes, without its notice.

        Durations are log-normal: half of the hosts take at most the typical time, nine of
        ten at most the slow one.
        """
        if expect.slow <= expect.typical:
            return expect.typical
        # Box and Muller: a normal number from two uniform ones.
        radius = math.sqrt(-2 * math.log(1 - self._share("work", host)))
        turned = radius * math.cos(2 * math.pi * self._share("turn", host))
        spread = math.log(expect.slow / expect.typical) / _NINETIETH
        length = round(expect.typical * math.exp(spread * turned))
        return min(max(length, SECOND), TIMES_SLOW_MAX * expect.slow)

    def _share(self, *names: str) -> float:
        """Return a number from 0 up to 1, without 1."""
        text = "\n".join((str(self.assumed.seed), *names)).encode()
        digest = blake2b(text, digest_size=_BITS // 8).digest()
        # 53 bits are a float's precision: more could round up to 1.
        return (int.from_bytes(digest) >> (_BITS - 53)) / (1 << 53)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCourse:
    """The course of one host, in its last attempt."""

    host: str
    stage: int
    """Number of its stage, from 1."""
    vms: int
    tenants: Mapping[str, int]
    """Its VMs of each tenant."""
    domains: frozenset[tuple[str, int]]
    """Scopes with the fault domains of its VMs."""
    groups: Mapping[str, str]
    """Its value of each label with a budget."""
    announced: Micros
    not_before: Micros
    """End of the notice."""
    started: Micros = 0
    """0: its work has not begun."""
    ended: Micros = 0
    """0: it has not ended."""
    freed: Micros = 0
    """When it left its place in the budgets of hosts: the VMs of a host that is verified
    and open can still recover. 0: it has not."""
    undisturbed: Micros = 0
    """When its VMs were in service again: the work on a host can fail after that. 0: they
    are not."""
    failed_at: Micros = 0
    """When it failed, in its last attempt; 0: it has not."""
    cluster: str = ""
    rack: str = ""
    was_approved: bool = False
    """Whether all of its events were approved before the end of the notice."""

    @property
    def has_failed(self) -> bool:
        """Return whether it has failed."""
        return self.failed_at != 0

    @property
    def settled(self) -> Micros:
        """Return when it was done or failed; 0: it has done neither."""
        return self.failed_at or self.ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """The worst moment of a budget."""

    subject: str
    """The group or tenant; empty: the budget has none."""
    used: int
    most: int | None
    """None: there is no limit."""
    at: Micros


def joined(
    spans: Iterable[tuple[Micros, Micros]],
) -> Iterator[tuple[Micros, Micros]]:
    """Yield the spans in their order, with overlapping and adjacent ones as one."""
    begins = ends = -1
    for span in sorted(spans):
        if begins >= 0 and span[0] <= ends:
            ends = max(ends, span[1])
            continue
        if begins >= 0:
            yield begins, ends
        begins, ends = span
    if begins >= 0:
        yield begins, ends


def peak(
    uses: Iterable[tuple[Micros, Micros, str, int]],
    limits: Mapping[str, int | None],
    *,
    base: int = 0,
) -> Peak | None:
    """Return the moment at which a budget was used most, measured by its limit.

    Each use has its begin, its end, its subject and its amount. `base` is used all the
    time. None: it was not used.
    """
    steps: list[tuple[Micros, int, str]] = []
    for begins, ends, subject, amount in uses:
        steps += [(begins, amount, subject), (ends, -amount, subject)]
    # Ends come before begins of the same instant.
    steps.sort(key=lambda step: (step[0], step[1]))
    used: dict[str, int] = {}
    worst: Peak | None = None
    rate = -1.0
    for at, amount, subject in steps:
        now = used[subject] = used.get(subject, base) + amount
        most = limits.get(subject)
        reached = now / most if most else float(now)
        if amount > 0 and reached > rate:
            rate = reached
            worst = Peak(subject=subject, used=now, most=most, at=at)
    return worst
