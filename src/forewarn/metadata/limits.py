"""The limits of the metadata server."""

import math
from dataclasses import dataclass

PIPELINE_MAX = 16
"""Maximum requests of one connection that are processed in one iteration of the event
loop, and that are queued. Pollers send one at a time. Further data is read in the next
iterations, after the other connections."""

READ_STEPS_MAX = 64
"""Maximum heads, lines before chunks and pieces of bodies that are parsed for one
connection in one iteration of the event loop: about 0.2 ms."""

TURN_BYTES_MAX = 64 * 1024
"""Bytes of one read after which reading stops for this iteration of the event loop,
which would otherwise read up to 32 times as much."""

VERB_BYTES_MAX = 64
"""Maximum bytes of a verb; the longest registered one has 17."""

HEADERS_MAX = 100
"""Maximum headers of one request; clients send about five."""

HEAD_BYTES_MAX = 32 * 1024
"""Maximum bytes of a request's headers, as in common servers."""

TARGET_BYTES_MAX = 8 * 1024
"""Maximum bytes of a request's target; the longest useful one has about 100."""

BODY_BYTES_MAX = 128 * 1024
"""Maximum bytes of a body: a thousand approvals, pretty-printed, have 90 KiB."""

BODY_BYTES_OF_REQUEST = 8 * 1024
"""Bytes of a body that count as one more request against the rate limit, because
reading them takes about as much time."""

ALWAYS_READ_BYTES_MAX = 1024
"""Maximum bytes of a body that is read even after too many invalid requests of the VM:
an approval of one event has 75, of ten 600. Reading it costs as much as refusing it."""

LINE_BYTES_MAX = 8 * 1024
"""Maximum bytes of the line before a chunk, and of a trailer: clients send neither."""

CHUNKS_MAX = 256
"""Maximum chunks of one body: the longest body in chunks of 512 bytes. Each chunk costs
5 µs at any size, so reading a hostile body takes about a millisecond. An approval of
one event in chunks of one byte has 75; usual chunks have kilobytes."""

MESSAGE_BYTES_MAX = 8 * BODY_BYTES_MAX
"""Maximum bytes of a whole body with its chunk lines and trailers: extensions can make
the line before each chunk long."""

CACHED_REQUESTS_MAX = 256
"""Maximum number of cached requests: a fleet's pollers send about ten different ones."""

SEEN_ONCE_MAX = 4096
"""Maximum number of remembered requests that arrived once, some 60 bytes each. Even if
a thousand clients put a unique ID into each request, the requests of other clients are
cached from their second arrival on."""

CACHED_REQUEST_BYTES_MAX = 1024
"""Maximum bytes of a cached request, so that a hostile client can use little memory."""

QUESTIONS_MAX = 4
"""Maximum number of questions for one request: enabling, the delay of the first
response, and both again if the view was disabled meanwhile."""

REFUSED_LOG_SECONDS = 60.0
"""Minimum seconds between log lines about refused connections: they can be frequent."""

BACKLOG = 4096
"""Maximum connections that the kernel queues while the loop is busy: all VMs of a host
may start in the same second."""

CONGESTION = b"reno"
"""The congestion control of the kernel that is always available and cheapest."""

HOLD_CHECK_SECONDS = 0.05
"""Interval of the clock checks for delayed responses: a simulator may move the clock."""

WAITERS_MAX = 100_000
"""Maximum number of waiting requests: one for each VM of a large fleet. Each uses a
connection, so this leaves a third of the connections for other requests."""

WAITERS_PER_VM_MAX = 8
"""Maximum number of waiting requests of one VM: an agent and a few other programs. A
connection that a VM does not close ends with its wait."""

WAITERS_TOGETHER_MAX = 200
"""Maximum number of waiting requests that are processed in one iteration of the event
loop: this takes some milliseconds."""

WAIT_DIGITS_MAX = 9
"""Maximum digits of a wait in seconds: three decades, and cheap to read."""

KEEPALIVE_IDLE_SECONDS = 30
KEEPALIVE_INTERVAL_SECONDS = 10
KEEPALIVE_PROBES = 3
"""A VM that disappeared is noticed after a minute; until then it counts as waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits that tests shorten and large installations raise."""

    head_seconds: float = 10.0
    """Timeout of a request's head, which is usually one packet."""
    body_seconds: float = 30.0
    """Timeout of a body."""
    idle_seconds: float = 120.0
    """Minimum time that an idle connection stays open. Before its first request, the
    timeout of the head applies. Both may take `head_seconds` longer, which is the
    interval of the sweeps."""
    write_seconds: float = 30.0
    """Timeout of a client that does not read its responses."""
    linger_seconds: float = 1.0
    """Time for a refused client to read its refusal while it still sends."""
    throttle_seconds: float = 0.1
    """Pause in reading after a request that was refused with 429, so that at most 10
    requests a second are refused on one connection."""
    gateway_seconds: float = 10.0
    """Timeout of control: after it, the client gets 503 and can retry."""
    connections: int = 150_000
    """Maximum open connections: one poller for each of 100,000 VMs, and half as many
    again. The process's limit of open files must be higher."""
    connections_per_source: int = 256
    """Maximum open connections from one address, so that one VM cannot use them all. A
    metadata proxy is one address for many VMs. It is exempt from its first request
    with a valid signature until its last connection closes."""

    @property
    def sweep_seconds(self) -> float:
        """Return the interval of the idle sweeps."""
        return min(self.head_seconds, self.idle_seconds)

    @property
    def idle_sweeps(self) -> int:
        """Return the number of sweeps without a request after which a connection closes."""
        return math.ceil(self.idle_seconds / self.sweep_seconds)
