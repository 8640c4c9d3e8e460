"""How often one VM may ask (clause 1.9): a bucket of tokens each."""

import math


class Bucket:
    """What one VM has left; full when it is new."""

    __slots__ = ("stamp", "tokens")

    def __init__(self) -> None:
        """Begin full: an endless time has passed since the last request."""
        self.tokens = 0.0
        self.stamp = -math.inf


class RateLimit:
    """So many requests a second, and as many at once."""

    def __init__(self, per_second: float) -> None:
        """Set the limit; 0 is none."""
        self._rate = per_second
        # A limit below one a second must still let a single request through.
        self._burst = max(1.0, per_second)

    def allows(self, bucket: Bucket, *, monotonic: float) -> bool:
        """Take a token at the I/O time `monotonic`; False: none was left."""
        if not self._rate:
            return True
        tokens = min(
            self._burst, bucket.tokens + (monotonic - bucket.stamp) * self._rate
        )
        bucket.stamp = monotonic
        if tokens < 1.0:
            bucket.tokens = tokens
            return False
        bucket.tokens = tokens - 1.0
        return True
