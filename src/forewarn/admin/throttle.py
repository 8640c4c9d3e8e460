"""Failed authentication: slowed down for its source, and logged within limits.

A token that was good before is always judged, so that no source can lock out a known
caller, not even one behind the same proxy. Wrong tokens of a source use up its bucket;
then the source is answered 429 without a look at the store.

A bucket is kept as in `pace`, but the question and the charge are apart: only a failure
is charged, whether or not the bucket is empty, and the number of sources is bounded,
since anybody can have many addresses.
"""

import hashlib
import ipaddress
import logging
import math
from collections import OrderedDict
from collections.abc import Callable

from forewarn.admin import limits
from forewarn.admin.errors import TooManyError

logger = logging.getLogger("forewarn.admin")


def source_of(peer: str) -> str:
    """Return what failures are counted by: an IPv4 address, or an IPv6 network.

    Whoever has one IPv6 address mostly has the whole /64.
    """
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        # The process at a Unix socket: `pid 7, uid 1000`.
        return peer.rpartition(", ")[2]
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))


class Throttle:
    """Counts failed authentications by source, and remembers good tokens."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        """Let `monotonic` tell the I/O time in seconds."""
        self._monotonic = monotonic
        self._full_at: OrderedDict[str, float] = OrderedDict()
        """When each source's bucket will be full again; the oldest failure first."""
        self._known: OrderedDict[bytes, None] = OrderedDict()
        """Digests of tokens that were good."""

    def check(self, source: str, token: str) -> None:
        """Raise TooManyError for a source that has failed too often.

        A token that was good before passes.
        """
        if _digest(token) in self._known:
            return
        now = self._monotonic()
        used = self._full_at.get(source, now) - now
        # Seconds to full at which there is one attempt still.
        longest = (limits.FAILURES_AT_ONCE - 1) * limits.FAILURE_SECONDS
        if used > longest:
            raise TooManyError(
                "too many wrong tokens came from this address",
                hint=f"Wait, and send a good token: one attempt in "
                f"{limits.FAILURE_SECONDS:g} seconds is judged.",
                retry_seconds=max(1, math.ceil(used - longest)),
            )

    def failed(self, source: str, token: str) -> None:
        """Count a token that was wrong."""
        self._known.pop(_digest(token), None)
        now = self._monotonic()
        full_at = max(now, self._full_at.pop(source, now)) + limits.FAILURE_SECONDS
        self._full_at[source] = full_at
        while len(self._full_at) > limits.SOURCES_MAX:
            self._full_at.popitem(last=False)

    def succeeded(self, token: str) -> None:
        """Remember a token that was good."""
        digest = _digest(token)
        self._known[digest] = None
        self._known.move_to_end(digest)
        while len(self._known) > limits.KNOWN_TOKENS_MAX:
            self._known.popitem(last=False)


class RefusalLog:
    """Logs who was refused: a line for each source and minute, and few in all."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        """Let `monotonic` tell the I/O time in seconds."""
        self._monotonic = monotonic
        self._begun = -math.inf
        self._told: set[tuple[str, str]] = set()
        self._left_out = 0

    def note(self, what: str, *, peer: str, who: str = "") -> None:
        """Log that a request was refused, unless that was logged in this minute."""
        now = self._monotonic()
        if now - self._begun >= limits.REFUSED_LOG_SECONDS:
            self._begun = now
            self._told.clear()
        key = (source_of(peer), what)
        if key in self._told or len(self._told) >= limits.REFUSED_LOG_LINES:
            self._left_out += 1
            return
        self._told.add(key)
        left_out, self._left_out = self._left_out, 0
        logger.warning(
            "the operator API refused %s from %s: %s%s",
            f"a request of {who}" if who else "a request",
            peer or "an unknown address",
            what,
            f" ({left_out} more were not logged)" if left_out else "",
        )


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
