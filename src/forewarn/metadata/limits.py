"""Every limit of the metadata server, with its unit and its reason."""

import math
from dataclasses import dataclass

PIPELINE_MAX = 16
"""Maximum requests of one connection that are read and answered in one iteration of
the event loop, and that wait for an answer. Pollers send one at a time. The rest of
what came is read in the next iterations, behind the other connections."""

READ_STEPS_MAX = 64
"""Maximum heads, lines before chunks and pieces of bodies that are parsed for one
connection in one iteration of the event loop: about 0.2 ms."""

TURN_BYTES_MAX = 64 * 1024
"""Bytes of one read after which the connection is read no further in this iteration
of the event loop, which would read up to 32 times as much at once."""

VERB_BYTES_MAX = 64
"""Bytes of a verb; the longest registered one has 17."""

HEADERS_MAX = 100
"""Headers of one request; clients send about five."""

HEAD_BYTES_MAX = 32 * 1024
"""Bytes of a request's headers: what common servers allow."""

TARGET_BYTES_MAX = 8 * 1024
"""Bytes of a request's target; the longest useful one has about a hundred."""

BODY_BYTES_MAX = 128 * 1024
"""Bytes of a body: a thousand approvals, pretty-printed, are 90 KiB."""

BODY_BYTES_OF_REQUEST = 8 * 1024
"""Bytes of a body that cost as much of the rate limit as one more request: to take
and to read them costs about as much time."""

SPARED_BYTES_MAX = 1024
"""Bytes of a body that is read even though the VM sends too many bad requests: an
approval of one event has 75, of ten 600. To read it costs as much as to refuse it."""

LINE_BYTES_MAX = 8 * 1024
"""Bytes of the line before a chunk, and of a trailer: nobody sends either."""

CHUNKS_MAX = 256
"""Maximum chunks of one body: the longest one in chunks of 512 bytes. Each costs 5 µs
whatever its size, so reading a hostile body takes about a millisecond. An approval of
one event that is written byte by byte has 75; a client's chunks have kilobytes."""

MESSAGE_BYTES_MAX = 8 * BODY_BYTES_MAX
"""Bytes of a whole body, with its chunk lines and trailers: an extension may make the
line before each chunk long."""

KNOWN_MAX = 256
"""Requests that are known by their bytes: a fleet's pollers send about ten."""

SEEN_ONCE_MAX = 4096
"""Requests that came once and may become known, some 60 bytes each. Where a thousand
clients give each request an id of its own, others are known from their second on."""

KNOWN_BYTES_MAX = 1024
"""Bytes of such a request, so that a hostile client fills little with them."""

ROUNDS_MAX = 4
"""Questions that one request may lead to: enabling, a wait for the first answer,
and both again when the view was disabled meanwhile."""

REFUSED_LOG_SECONDS = 60.0
"""Between two log lines about refused connections: there may be thousands a second."""

BACKLOG = 4096
"""Connections that the kernel keeps while the loop is busy: a host's worth of VMs
may start at the same second."""

CONGESTION = b"reno"
"""The kernel's way to send that is always there and costs least."""

HOLD_CHECK_SECONDS = 0.05
"""How often held answers look at the clock, which a simulator may move."""

WAITERS_MAX = 100_000
"""Requests that wait for a change at once: one of each VM of a large fleet. Each is
a connection too, so this keeps a third of those for whoever does not wait."""

WAITERS_PER_VM_MAX = 8
"""Of one VM: an agent, and a few programs that know of waiting; what a VM forgets
to close ends with its wait."""

WAITERS_TOGETHER_MAX = 200
"""Of those that a change concerns, how many are answered before others have their
turn: some milliseconds' worth."""

WAIT_DIGITS_MAX = 9
"""Digits of a wait in seconds: three decades, and still no work to read."""

KEEPALIVE_IDLE_SECONDS = 30
KEEPALIVE_INTERVAL_SECONDS = 10
KEEPALIVE_PROBES = 3
"""A VM that went without a word is noticed after a minute: until then it has a
place among those that wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What tests shorten, and large installations raise."""

    head_seconds: float = 10.0
    """For the whole of a request's head: one packet, unless somebody stalls."""
    body_seconds: float = 30.0
    """For the whole of a body."""
    idle_seconds: float = 120.0
    """Least time that an idle connection stays, but for its first request: whoever
    connects and asks nothing is given up like whoever stalls. Either may stay longer
    by `head_seconds`, which is how often all are looked at."""
    write_seconds: float = 30.0
    """For a client that does not read to begin reading again."""
    linger_seconds: float = 1.0
    """For a refused client to read its refusal while it still sends."""
    throttle_seconds: float = 0.1
    """How long a connection is not read after a request that was refused with 429,
    so that at most 10 requests a second are refused on it."""
    gateway_seconds: float = 10.0
    """For control to answer: beyond it, a client is better told to retry."""
    connections: int = 150_000
    """Open at once: one poller for each of 100k VMs, and half as many again. The
    process's limit of open files must be above it."""
    connections_per_source: int = 256
    """Open at once from one address, so that one VM cannot take them all. A metadata
    proxy, which is one address for many VMs, is exempt as soon as one of its requests
    had a good signature, and as long as it has a connection."""

    @property
    def round_seconds(self) -> float:
        """Return how often all connections are looked at."""
        return min(self.head_seconds, self.idle_seconds)

    @property
    def idle_rounds(self) -> int:
        """Return after how many rounds without a request a connection is idle."""
        return math.ceil(self.idle_seconds / self.round_seconds)
