"""Limits of rates: failed authentication by source, and requests by tenant.

Every token is checked, so no source can lock out a valid token, even behind the same
proxy. Invalid tokens of a source use up its bucket. Then its invalid tokens get 429, and
its tokens are checked one after the other, except those that were valid before.

Each bucket is stored as the time at which it will be full again, as in
`metadata.ratelimit`. The number of sources is limited, since a client can have many
addresses.

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
    """Return the key by which connections and failures are counted: an IPv4 address, or
    an IPv6 network.

    The owner of one IPv6 address usually has the whole /64. Of a loopback address, only
    this machine is the owner.
    """
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        # The process at a Unix socket: `pid 7, uid 1000`.
        return peer.rpartition(", ")[2]
    if isinstance(address, ipaddress.IPv4Address) or address.is_loopback:
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))


class _Sources:
    """The buckets of sources; each begins full."""

    def __init__(
        self, monotonic: Callable[[], float], *, at_once: int, seconds: float
    ) -> None:
        """Allow a burst of `at_once`, then one each `seconds`."""
        self._monotonic = monotonic
        self._seconds = seconds
        self._longest = (at_once - 1) * seconds
        """Seconds until full at which one is left."""
        self._full_at: OrderedDict[str, float] = OrderedDict()
        """The time at which each bucket will be full again; the oldest charge first."""

    def wait_of(self, source: str) -> int:
        """Return the seconds until a source has one left; 0 if it has one now."""
        now = self._monotonic()
        used = self._full_at.get(source, now) - now
        return max(0, math.ceil(used - self._longest))

    def charge(self, source: str) -> None:
        """Take one of a source, even if it has none left."""
        now = self._monotonic()
        full_at = max(now, self._full_at.pop(source, now)) + self._seconds
        self._full_at[source] = full_at
        while len(self._full_at) > limits.SOURCES_MAX:
            self._full_at.popitem(last=False)


class Throttle:
    """Counts failed authentications and requests without a token by source, and
    remembers valid tokens."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        """Use `monotonic` as the time in seconds."""
        self._failures = _Sources(
            monotonic, at_once=limits.FAILURES_AT_ONCE, seconds=limits.FAILURE_SECONDS
        )
        self._pages = _Sources(
            monotonic, at_once=limits.PAGES_AT_ONCE, seconds=limits.PAGE_SECONDS
        )
        self._files = _Sources(
            monotonic, at_once=limits.FILES_AT_ONCE, seconds=limits.FILE_SECONDS
        )
        self._known: OrderedDict[bytes, None] = OrderedDict()
        """Digests of valid tokens."""

    def is_known(self, token: str) -> bool:
        """Return whether a token was valid before."""
        return _digest(token) in self._known

    def is_exhausted(self, source: str) -> bool:
        """Return whether a source has sent too many invalid tokens."""
        return self._failures.wait_of(source) > 0

    def failed(self, source: str, token: str) -> None:
        """Count an invalid token; raises TooManyError for a source with too many."""
        self._known.pop(_digest(token), None)
        if wait := self._failures.wait_of(source):
            raise TooManyError(
                "too many invalid tokens from this address",
                hint="Send a valid token, or wait.",
                retry_seconds=wait,
            )
        self._failures.charge(source)

    def read_page(self, source: str) -> None:
        """Count a request without a token for a page; raises TooManyError."""
        if wait := self._pages.wait_of(source):
            raise TooManyError(
                "too many requests without a token from this address",
                hint="Send a valid token, or wait.",
                retry_seconds=wait,
            )
        self._pages.charge(source)

    def read_file(self, source: str) -> None:
        """Count a request for a file of the console; raises TooManyError."""
        if wait := self._files.wait_of(source):
            raise TooManyError(
                "too many requests for the console from this address",
                hint="Wait.",
                retry_seconds=wait,
            )
        self._files.charge(source)

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


class RelayPace(Pace):
    """The rate limit for the relay of a host, which sends what many VMs ask."""

    sender = "the relay of"
    hint = "One request can have the approvals of many VMs."

    def bounds(self) -> tuple[int, float]:
        """Return the burst, and the rate per second."""
        return limits.RELAY_REQUESTS_AT_ONCE, limits.RELAY_REQUESTS_PER_SECOND


class Paces:
    """The rate limits of tenants."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        """Use `monotonic` as the time in seconds."""
        self.writes = Pace(monotonic)
        """POSTs of a tenant that the token may send."""
        self.reads = ReadPace(monotonic)
        """GETs of a tenant that the token may send."""
        self.refused = RefusedPace(monotonic)
        """All other requests of a token."""
        self.relays = RelayPace(monotonic)
        """Requests of the relay of a host."""
