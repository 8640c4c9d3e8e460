"""The limits of a relay."""

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

FIRST_PAUSE_SECONDS = 1.0
"""Maximum of the random pause before the first attempt to connect again. After a restart
of the service, the relays of all hosts come back spread over this time."""

PAUSE_SECONDS_MAX = 5.0
"""Maximum of the random pause while the service is away: so long, all relays together
need to notice its return. 1,000 of them then try 400 times a second."""

APPROVALS_TOGETHER_MAX = 64
"""Maximum approvals of one request, as the service allows."""

EVENTS_TOGETHER_MAX = 1_000
"""Maximum events in the approvals of one request: as many as one VM can approve at once,
some 40 KiB."""

BODY_BYTES_MAX = 60 * 1024
"""Maximum bytes of the JSON of several VMs in one request: the service takes 64 KiB. A
name of 128 characters can have 768 bytes, so 80 names can fill it."""

SEEN_SECONDS = 30.0
"""Time between two reports of the last requests of VMs, or confirmations if there were
none. The shortest useful `disable_after` of a service is minutes, and a relay that sends
nothing for 75 seconds counts as silent."""

CONFIRM_SPREAD_SECONDS = 10.0
"""Maximum of the random pause before a confirmation. The relays of all hosts confirm a
change of all of them spread over this time, and changes that follow soon are confirmed
together. The service waits three times as long before a relay counts as silent."""

CONFIRM_SECONDS = 1.0
"""Pause before a confirmation is sent again that the service did not take."""

SEEN_TOGETHER_MAX = 2_000
"""Maximum VMs of one such report, as the service allows."""

CHECK_SECONDS = 1.0
"""Time between two checks whether the service was silent for too long."""

GRACE_SECONDS = 2.0
"""Time for the current requests when the relay stops."""

LOG_SECONDS = 60.0
"""Minimum seconds between log lines about requests that the service did not take."""

TOKEN_CHARACTERS_MAX = 200
"""Maximum characters of a token; those of the service have about 50."""

CONNECTIONS_MAX = 20_000
"""Maximum open connections of VMs: a hundred for each of 200 VMs."""

GARBAGE_OBJECTS = 20_000
"""New objects, minus freed ones, after which Python collects garbage, as in the service."""
