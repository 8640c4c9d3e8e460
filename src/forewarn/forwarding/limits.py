"""The limits of requests that are passed on to the service, and of its streams."""

LINE_BYTES_MAX = 16 * 1024 * 1024
"""Maximum bytes of a line of the stream, and of the file: 2,000 VMs with many events
have two million."""

ANSWER_BYTES_MAX = 1024 * 1024
"""Maximum bytes of an answer to a request: 64 refusals have some thousands."""

READ_BYTES = 64 * 1024
"""Bytes that are read from the service at once."""

CONNECT_SECONDS = 5.0
"""Timeout of a connection with its handshake, and of the first bytes of an answer."""

SILENCE_SECONDS = 15.0
"""Silence after which a stream is given up: the service sends a line every 5 seconds."""

POST_SECONDS = 8.0
"""Timeout of a request, less than the time that a VM waits (10 s)."""

POSITION_SECONDS = 2.0
"""Maximum wait until the stream has the result of a request, usually milliseconds. A
durable approval is answered then in any case."""

APPROVALS_TOGETHER_MAX = 64
"""Maximum approvals of one request, as the service allows."""

ENABLINGS_TOGETHER_MAX = 64
"""Maximum VMs of one request that enables them, as the service allows."""

EVENTS_TOGETHER_MAX = 1_000
"""Maximum events in the approvals of one request: as many as one VM can approve at once,
some 40 KiB."""

BODY_BYTES_MAX = 60 * 1024
"""Maximum bytes of the JSON of several VMs in one request: the service takes 64 KiB. A
name of 128 characters can have 768 bytes, so 80 names can fill it."""

SEEN_TOGETHER_MAX = 2_000
"""Maximum VMs of one such report, as the service allows."""

LOG_SECONDS = 60.0
"""Minimum seconds between log lines about requests that the service did not take."""
