"""The rate limit of each VM (clause 1.9), as a token bucket.

A bucket stores the time at which it will be full again. Taking a token moves that
time forward. A request costs two comparisons and an addition, and nothing is refilled.

`admin.throttle` stores its buckets in the same way. This module is separate because it
is on the path of every GET. The bucket belongs to its VM instead of a name, a refusal
changes nothing, and a request can cost several tokens and get them back.
"""

import math

_ROUNDING = 0.001
"""Tolerance in tokens, for the rounding of added fractions."""


class Bucket:
    """The remaining tokens of one VM; a new bucket is full."""

    __slots__ = ("full_at",)

    def __init__(self) -> None:
        """Start full."""
        self.full_at = -math.inf


class RateLimit:
    """A limit of requests per second, with a burst of the same number."""

    __slots__ = ("_interval", "_longest")

    def __init__(self, per_second: float) -> None:
        """Set the limit; 0: unlimited."""
        # A limit below one per second must still allow a single request.
        burst = max(1.0, per_second)
        self._interval = 1 / per_second if per_second else 0.0
        self._longest = (burst - 1.0 + _ROUNDING) * self._interval
        """Maximum seconds to full at which one token is left."""

    def has(self, bucket: Bucket, monotonic: float) -> bool:
        """Return whether `allows` would take a token."""
        return bucket.full_at - monotonic <= self._longest

    def allows_cost(self, bucket: Bucket, monotonic: float, cost: float) -> bool:
        """Take `cost` tokens, or none; False: there are too few.

        A full bucket is enough for any cost.
        """
        taken = (cost - 1) * self._interval
        full_at = max(bucket.full_at, monotonic)
        if full_at > monotonic and full_at - monotonic + taken > self._longest:
            return False
        bucket.full_at = full_at + self._interval + taken
        return True

    def give_back(self, bucket: Bucket, cost: float) -> None:
        """Put back the tokens that `allows_cost` has just taken."""
        bucket.full_at -= cost * self._interval

    def allows(self, bucket: Bucket, monotonic: float) -> bool:
        """Take a token at the I/O time `monotonic`; False: there is none."""
        full_at = bucket.full_at
        if full_at < monotonic:
            full_at = monotonic
        elif full_at - monotonic > self._longest:
            return False
        bucket.full_at = full_at + self._interval
        return True
