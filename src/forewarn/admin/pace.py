"""How often a tenant may order and ask: a bucket of tokens each, by I/O time.

A bucket is kept as the time at which it will be full again, as in `throttle` and in
`metadata.ratelimit`. The three share two lines of arithmetic and differ in the rest: a
tenant that goes on when it is refused is charged for that too, up to a bound, and is
told how long to wait.

What an order leaves in the store stays there as long as the retention, so who may
order without end could fill the disk. Operators have no limit.
"""

import math
from collections.abc import Callable

from forewarn.admin import limits
from forewarn.admin.errors import TooManyError

_SHORT = 0.001
"""Tokens that may be missing from a whole one: what adding fractions loses."""


class Pace:
    """The buckets of all tenants; each begins full."""

    what = "orders"
    hint = "one order may name many VMs"

    def __init__(self, monotonic: Callable[[], float]) -> None:
        """Let `monotonic` tell the I/O time in seconds."""
        self._monotonic = monotonic
        self._full_at: dict[str, float] = {}
        """When each bucket will be full again."""

    def bounds(self) -> tuple[int, float]:
        """Return how many are taken at once, and how many a second."""
        return limits.TENANT_ORDERS_AT_ONCE, limits.TENANT_ORDERS_PER_SECOND

    def take(self, tenant: str) -> None:
        """Count an order; raises TooManyError where none is left.

        A refused order counts as well, up to a bound.
        """
        at_once, per_second = self.bounds()
        interval = 1 / per_second
        now = self._monotonic()
        full_at = max(now, self._full_at.get(tenant, now))
        # Seconds to full at which there is one token still.
        longest = (at_once - 1 + _SHORT) * interval
        wait = full_at - now - longest
        if wait > 0:
            most = now + longest + limits.TENANT_REFUSED_MAX * interval
            full_at = max(full_at, min(full_at + interval, most))
            self._full_at[tenant] = full_at
            wait = full_at - now - longest
            raise TooManyError(
                f"tenant {tenant} {self.what} too often",
                hint=f"{at_once} at once are taken, and {per_second:g} a "
                f"second after that; {self.hint}",
                retry_seconds=math.ceil(wait),
            )
        if len(self._full_at) >= limits.PACES_MAX:
            self._full_at = {
                name: instant
                for name, instant in self._full_at.items()
                if instant > now
            }
        self._full_at[tenant] = full_at + interval


class ReadPace(Pace):
    """The same of questions, which cost a processor and leave nothing."""

    what = "asks"
    hint = "a stream (--watch) tells of every change"

    def bounds(self) -> tuple[int, float]:
        """Return how many are taken at once, and how many a second."""
        return limits.TENANT_READS_AT_ONCE, limits.TENANT_READS_PER_SECOND
