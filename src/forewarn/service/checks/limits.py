"""All limits of checks, each with its unit and its reason."""

from forewarn.instants import HOUR, MINUTE, SECOND

AT_ONCE = 8
"""Maximum checks that are asked at once: each needs a thread. A service has few checks,
and most are answered within milliseconds."""

GRACE_SECONDS = 5.0
"""Time after its timeout at which a thread is abandoned. Only a name server or a kernel
that hangs can keep one so long."""

ROUND_SECONDS = 1.0
"""Time between two looks at what is due: a check is at most this much late."""

BODY_BYTES_MAX = 256 * 1024
"""Maximum size of an answer: a few thousand samples, which take some milliseconds to parse.
A query for a check returns a few."""

OUTPUT_BYTES_KEPT = 2048
"""Maximum output of a program that is kept, for its last line; the rest is discarded."""

REAP_SECONDS = 2.0
"""Maximum time for a killed program to end; a longer one hangs in the kernel."""

TIMEOUT_MAX = 5 * MINUTE
"""Maximum of `timeout`: a campaign should not wait longer for a question."""

EVERY_MIN, EVERY_MAX = 5 * SECOND, HOUR
"""Bounds of `every`: more often is a load for the other system, and a rarer check says
nothing about the host that was just worked on."""

FAILS_MAX = 20
"""Maximum of `fails`: with the usual `every` ten minutes, in which hosts could be harmed."""

ANSWERS_MISSED = 2
"""Periods after which an answer is too old: one lost answer does not stop a campaign."""
