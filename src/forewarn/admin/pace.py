"""How often a tenant may order: a bucket of tokens each, by I/O time.

What an order leaves in the store stays there as long as the retention, so who may
order without end could fill the disk. Operators have no limit.
"""

import math
from collections.abc import Callable

from forewarn.admin import limits
from forewarn.admin.problems import TooManyError

_SHORT = 0.001
"""Tokens that may be missing from a whole one: what adding fractions loses."""


class Pace:
    """The buckets of all tenants; each begins full."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        """Let `monotonic` tell the I/O time in seconds."""
        self._monotonic = monotonic
        self._full_at: dict[str, float] = {}
        """When each bucket will be full again."""

    def take(self, tenant: str) -> None:
        """Count an order; raises TooManyError where none is left."""
        interval = 1 / limits.TENANT_ORDERS_PER_SECOND
        now = self._monotonic()
        full_at = max(now, self._full_at.get(tenant, now))
        # Seconds to full at which there is one token still.
        longest = (limits.TENANT_ORDERS_AT_ONCE - 1 + _SHORT) * interval
        wait = full_at - now - longest
        if wait > 0:
            raise TooManyError(
                f"tenant {tenant} orders too often",
                hint=f"{limits.TENANT_ORDERS_AT_ONCE} at once are taken, and "
                f"{limits.TENANT_ORDERS_PER_SECOND:g} a second after that; one order "
                "may name many VMs",
                retry_seconds=math.ceil(wait),
            )
        if len(self._full_at) >= limits.PACES_MAX:
            self._full_at = {
                name: instant
                for name, instant in self._full_at.items()
                if instant > now
            }
        self._full_at[tenant] = full_at + interval
