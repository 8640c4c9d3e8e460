"""A cache of whole requests by their bytes.

A fleet's pollers send the same few requests all day, on kept and on new connections.
The bytes are enough to find the route of such a request, without the parser. Caller,
rate limit and response are decided for each request. The cache stores a request when it
arrives for the second time. Otherwise clients that put a unique ID into each request
would displace the requests of all others.
"""

from typing import NamedTuple

from forewarn.metadata import limits
from forewarn.metadata.reader import Received
from forewarn.metadata.routes import Read


class CachedRequest(NamedTuple):
    """A cached request, which holds for any source."""

    data: bytes
    received: Received
    route: Read


class RequestCache:
    """The cached requests of all connections of a server."""

    __slots__ = ("_known", "_once", "find")

    def __init__(self) -> None:
        """Start empty."""
        self._known: dict[bytes, CachedRequest] = {}
        self._once: set[int] = set()
        """Hashes of requests that arrived once."""
        self.find = self._known.get
        """Return the cached request with these bytes, or None."""

    def store(self, known: CachedRequest) -> None:
        """Store a request that arrives for the second time; if full, remove the oldest."""
        if len(known.data) > limits.CACHED_REQUEST_BYTES_MAX:
            return
        seen = hash(known.data)
        if seen not in self._once:
            if len(self._once) >= limits.SEEN_ONCE_MAX:
                self._once.clear()
            self._once.add(seen)
            return
        self._once.discard(seen)
        if len(self._known) >= limits.CACHED_REQUESTS_MAX:
            del self._known[next(iter(self._known))]
        self._known[known.data] = known
