"""A cache of the last response on a connection, valid while it cannot have changed.

A poller's next response is almost always the same as its last one. Identity, route and
document need no look-up if they cannot have changed. All three belong to one *edition*
of the published state, and any change of them begins the next edition. A request then
costs only a comparison of its bytes, the rate limit and the counter.
"""

from forewarn.metadata.http import Response
from forewarn.metadata.ratelimit import Bucket, RateLimit

VALID_SECONDS = 10.0
"""Maximum seconds of a cached response. The look-up after it also updates the last-seen
time of the view (7.1). That time is therefore at most this much older than the last
request, which is little compared with the day for which an idle view stays enabled."""


class Edition:
    """Counts the changes of known VMs, served documents and last-seen times."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        """Begin with the first edition."""
        self.number = 0

    def end(self) -> None:
        """Begin the next edition: no cached response is valid any longer."""
        self.number += 1


class CachedResponse:
    """A response to certain bytes from one VM, and the limit of its validity."""

    __slots__ = ("_bucket", "_edition", "_limit", "_number", "_until", "response")

    def __init__(
        self,
        response: Response,
        *,
        edition: Edition,
        limit: RateLimit,
        bucket: Bucket,
        until: float,
    ) -> None:
        """Be valid in this edition, before the I/O time `until`."""
        self.response = response
        self._edition = edition
        self._number = edition.number
        self._limit = limit
        self._bucket = bucket
        self._until = until

    def may_send(self, monotonic: float) -> bool:
        """Return whether the response can be sent now; if so, count the request against
        the rate limit."""
        return (
            self._number == self._edition.number
            and monotonic < self._until
            and self._limit.allows(self._bucket, monotonic)
        )
