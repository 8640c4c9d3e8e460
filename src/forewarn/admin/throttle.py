"""Limits of rates: failed authentication by source, and requests by tenant.

A token that was valid before is always checked, so no source can lock out a known
caller, even behind the same proxy. Invalid tokens of a source use up its bucket. Then
the source gets 429 without a read of the store.

Each bucket is stored as the time at which it will be full again, as in
`metadata.ratelimit`. `Throttle` charges only a failure, even if the bucket is empty. The
number of sources is limited, since a client can have many addresses.

The records of a request stay in the store for the retention time, so a caller without a
limit could fill the disk. A tenant that continues after a refusal is charged for that
too, up to a limit, and the response has the time to wait. Requests that a token has no
right to send count only against this token. Operators have no limit.
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
    """Return the key by which failures are counted: an IPv4 address, or an IPv6
    network.

    The owner of one IPv6 address usually has the whole /64.
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
    """Counts failed authentications by source, and remembers valid tokens."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        """Use `monotonic` as the time in seconds."""
        self._monotonic = monotonic
        self._full_at: OrderedDict[str, float] = OrderedDict()
        """The time at which each source's bucket will be full again; the oldest failure
        first."""
        self._known: OrderedDict[bytes, None] = OrderedDict()
        """Digests of valid tokens."""

    def check(self, source: str, token: str) -> None:
        """Raise TooManyError for a source with too many failures.

        A token that was valid before passes.
        """
        if _digest(token) in self._known:
            return
        now = self._monotonic()
        used = self._full_at.get(source, now) - now
        # Seconds until full at which one attempt is left.
        longest = (limits.FAILURES_AT_ONCE - 1) * limits.FAILURE_SECONDS
        if used > longest:
            raise TooManyError(
                "too many invalid tokens from this address",
                hint=f"Wait, and send a valid token: one attempt in "
                f"{limits.FAILURE_SECONDS:g} seconds is checked.",
                retry_seconds=max(1, math.ceil(used - longest)),
            )

    def failed(self, source: str, token: str) -> None:
        """Count an invalid token."""
        self._known.pop(_digest(token), None)
        now = self._monotonic()
        full_at = max(now, self._full_at.pop(source, now)) + limits.FAILURE_SECONDS
        self._full_at[source] = full_at
        while len(self._full_at) > limits.SOURCES_MAX:
            self._full_at.popitem(last=False)

    def succeeded(self, token: str) -> None:
        """Remember a valid token."""
        digest = _digest(token)
        self._known[digest] = None
        self._known.move_to_end(digest)
        while len(self._known) > limits.KNOWN_TOKENS_MAX:
            self._known.popitem(last=False)


class RefusalLog:
    """Logs refused requests: a line for each source and minute, with a limit for
    all."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        """Use `monotonic` as the time in seconds."""
        self._monotonic = monotonic
        self._begun = -math.inf
        self._told: set[tuple[str, str]] = set()
        self._left_out = 0

    def note(self, what: str, *, peer: str, who: str = "") -> None:
        """Log a refused request, unless this source was logged in the last minute."""
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


_SHORT = 0.001
"""Tolerance in tokens, because of rounding."""


class Pace:
    """The buckets of all tenants; each begins full."""

    what = "requests"
    sender = "tenant"
    hint = "One request can name many VMs."

    def __init__(self, monotonic: Callable[[], float]) -> None:
        """Use `monotonic` as the time in seconds."""
        self._monotonic = monotonic
        self._full_at: dict[str, float] = {}
        """The time at which each bucket will be full again."""

    def bounds(self) -> tuple[int, float]:
        """Return the burst, and the rate per second."""
        return limits.TENANT_ORDERS_AT_ONCE, limits.TENANT_ORDERS_PER_SECOND

    def take(self, key: str) -> None:
        """Count a request of a sender; raises TooManyError if its bucket is empty.

        A refused request counts as well, up to a limit.
        """
        at_once, per_second = self.bounds()
        interval = 1 / per_second
        now = self._monotonic()
        full_at = max(now, self._full_at.get(key, now))
        # Seconds until full at which one token is left.
        longest = (at_once - 1 + _SHORT) * interval
        wait = full_at - now - longest
        if wait > 0:
            most = now + longest + limits.TENANT_REFUSED_MAX * interval
            full_at = max(full_at, min(full_at + interval, most))
            self._full_at[key] = full_at
            wait = full_at - now - longest
            raise TooManyError(
                f"too many {self.what} from {self.sender} {key}",
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
        self._full_at[key] = full_at + interval


class ReadPace(Pace):
    """The rate limit for GETs, which take processor time but store nothing."""

    what = "reads"
    hint = "A stream (--watch) sends every change."

    def bounds(self) -> tuple[int, float]:
        """Return the burst, and the rate per second."""
        return limits.TENANT_READS_AT_ONCE, limits.TENANT_READS_PER_SECOND


class RefusedPace(Pace):
    """The rate limit for a tenant token's requests to routes that it may not use."""

    what = "refused requests"
    sender = "token"
    hint = "See /docs for all routes, and use a token that has the right."


class Paces:
    """The rate limits of tenants."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        """Use `monotonic` as the time in seconds."""
        self.writes = Pace(monotonic)
        """By tenant: POSTs that the token may send."""
        self.reads = ReadPace(monotonic)
        """By tenant: GETs that the token may send."""
        self.refused = RefusedPace(monotonic)
        """By token: all other requests."""
