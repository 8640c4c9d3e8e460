"""How often one VM may ask (clause 1.9): a bucket of tokens each.

A bucket is kept as the time at which it will be full again: taking a token moves
that time on, and waiting comes to it. That is two comparisons and an addition for
a request, with nothing to refill.

`admin.pace` and `admin.throttle` keep their buckets in the same way. This one is apart
because it is on the path of every GET: the bucket is found with its VM and not by a
name, a refusal changes nothing, and a request can cost more than one token and get
tokens back.
"""

import math

_ROUNDING = 0.001
"""Tokens that may be missing from a whole one: what adding fractions loses."""


class Bucket:
    """What one VM has left; full when it is new."""

    __slots__ = ("full_at",)

    def __init__(self) -> None:
        """Begin full, since ever."""
        self.full_at = -math.inf


class RateLimit:
    """So many requests a second, and as many at once."""

    __slots__ = ("_interval", "_longest")

    def __init__(self, per_second: float) -> None:
        """Set the limit; 0 is none."""
        # A limit below one a second must still let a single request through.
        burst = max(1.0, per_second)
        self._interval = 1 / per_second if per_second else 0.0
        self._longest = (burst - 1.0 + _ROUNDING) * self._interval
        """Seconds to full at which there is one token still."""

    def has(self, bucket: Bucket, monotonic: float) -> bool:
        """Tell whether `allows` would take a token."""
        return bucket.full_at - monotonic <= self._longest

    def allows_cost(self, bucket: Bucket, monotonic: float, cost: float) -> bool:
        """Take `cost` tokens, or none; False: too few were left.

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
        """Take a token at the I/O time `monotonic`; False: none was left."""
        full_at = bucket.full_at
        if full_at < monotonic:
            full_at = monotonic
        elif full_at - monotonic > self._longest:
            return False
        bucket.full_at = full_at + self._interval
        return True
