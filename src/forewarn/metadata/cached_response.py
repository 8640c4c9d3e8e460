"""The last answer of a connection, for as long as it is sure to stand.

A poller's next answer is almost always its last one. Identity, route and document
need not be looked up again where they cannot have changed: all three belong to one
*edition* of what is published, and whatever changes any of them begins the next.
Left to do for a request are one comparison of its bytes, the rate limit and the
count.
"""

from forewarn.metadata.http import Response
from forewarn.metadata.ratelimit import Bucket, RateLimit

STANDING_SECONDS = 10.0
"""After them an answer is looked up nevertheless, which notes too that its view was
asked for (7.1). So a sighting is this much older than the last request at most, of
the day for which a silent view stays enabled."""


class Edition:
    """Counts the changes to who is known, what is served, and what was seen."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        """Begin with the first."""
        self.number = 0

    def end(self) -> None:
        """Begin the next one: no answer stands any longer."""
        self.number += 1


class CachedResponse:
    """An answer to some bytes from one VM, and until when it stands."""

    __slots__ = ("_bucket", "_edition", "_limit", "_number", "_until", "response")

    def __init__(
        self,
        response: Response,
        *,
        edition: Edition,
        limit: RateLimit,
        bucket: Bucket,
        monotonic: float,
    ) -> None:
        """Stand in this edition, from the I/O time `monotonic`."""
        self.response = response
        self._edition = edition
        self._number = edition.number
        self._limit = limit
        self._bucket = bucket
        self._until = monotonic + STANDING_SECONDS

    def holds(self, monotonic: float) -> bool:
        """Tell whether it may be given now; if so, it counts against the limit."""
        return (
            self._number == self._edition.number
            and monotonic < self._until
            and self._limit.allows(self._bucket, monotonic)
        )
