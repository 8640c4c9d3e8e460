"""A cache of whole requests by their bytes.

A fleet's pollers repeat the same few requests, on open and on new connections.
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
    """A parsed request, which does not depend on the caller."""

    data: bytes
    received: Received
    route: Read


class RequestCache:
    """The cached requests of all connections of a server."""

    __slots__ = ("_once", "_requests", "find")

    def __init__(self) -> None:
        """Start empty."""
        self._requests: dict[bytes, CachedRequest] = {}
        self._once: set[int] = set()
        """Hashes of requests that arrived once."""
        self.find = self._requests.get
        """Return the cached request with these bytes, or None."""

    def store(self, request: CachedRequest) -> None:
        """Store a request that arrives for the second time; if full, remove the oldest."""
        if len(request.data) > limits.CACHED_REQUEST_BYTES_MAX:
            return
        digest = hash(request.data)
        if digest not in self._once:
            if len(self._once) >= limits.SEEN_ONCE_MAX:
                self._once.clear()
            self._once.add(digest)
            return
        self._once.discard(digest)
        if len(self._requests) >= limits.CACHED_REQUESTS_MAX:
            del self._requests[next(iter(self._requests))]
        self._requests[request.data] = request
