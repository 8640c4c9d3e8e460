"""Rate limits for the POSTs and the GETs of tenants: a token bucket for each.

A bucket is stored as the time at which it will be full again, as in `throttle` and in
`metadata.ratelimit`. The three share two lines of arithmetic and differ otherwise. A
tenant that continues after a refusal is charged for that too, up to a limit, and the
response has the time to wait.

The records of a request stay in the store for the retention time, so a caller without a
limit could fill the disk. Operators have no limit.
"""

import math
from collections.abc import Callable

from forewarn.admin import limits
from forewarn.admin.errors import TooManyError

_SHORT = 0.001
"""Tolerance in tokens, because of rounding."""


class Pace:
    """The buckets of all tenants; each begins full."""

    what = "requests"
    hint = "One request can name many VMs."

    def __init__(self, monotonic: Callable[[], float]) -> None:
        """Use `monotonic` as the time in seconds."""
        self._monotonic = monotonic
        self._full_at: dict[str, float] = {}
        """The time at which each bucket will be full again."""

    def bounds(self) -> tuple[int, float]:
        """Return the burst, and the rate per second."""
        return limits.TENANT_ORDERS_AT_ONCE, limits.TENANT_ORDERS_PER_SECOND

    def take(self, tenant: str) -> None:
        """Count a request; raises TooManyError if the bucket is empty.

        A refused request counts as well, up to a limit.
        """
        at_once, per_second = self.bounds()
        interval = 1 / per_second
        now = self._monotonic()
        full_at = max(now, self._full_at.get(tenant, now))
        # Seconds until full at which one token is left.
        longest = (at_once - 1 + _SHORT) * interval
        wait = full_at - now - longest
        if wait > 0:
            most = now + longest + limits.TENANT_REFUSED_MAX * interval
            full_at = max(full_at, min(full_at + interval, most))
            self._full_at[tenant] = full_at
            wait = full_at - now - longest
            raise TooManyError(
                f"too many {self.what} from tenant {tenant}",
                hint=f"Send at most {per_second:g} a second after a burst of {at_once}. "
                f"{self.hint}",
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
    """The rate limit for GETs, which take processor time but store nothing."""

    what = "reads"
    hint = "A stream (--watch) sends every change."

    def bounds(self) -> tuple[int, float]:
        """Return the burst, and the rate per second."""
        return limits.TENANT_READS_AT_ONCE, limits.TENANT_READS_PER_SECOND
