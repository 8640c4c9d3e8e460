"""Decide when to poll the endpoint again, and how long to wait for its answer. Pure.

Everything here is designed for a Preempt, which gives 30 seconds. If an endpoint that
has answered before fails, the agent soon polls again, with short timeouts. Two failures
in a row therefore cost only a few seconds (clause 8.1).
"""

from __future__ import annotations

from forewarn.instants import MINUTE, SECOND, Micros
from forewarn.protocol.frozen import frozen_dataclass

STEPS: tuple[Micros, ...] = (1 * SECOND, 1 * SECOND, 2 * SECOND, 3 * SECOND)
"""Times from the start of a failed poll to the next one, for an endpoint that answered
recently; the last value repeats. The first two equal the normal interval: after a
Preempt that begins with two errors, the handlers still have 24 s."""

STEPS_UNKNOWN: tuple[Micros, ...] = (
    *(1 * SECOND, 2 * SECOND, 4 * SECOND, 8 * SECOND, 16 * SECOND),
    30 * SECOND,
)
"""Times from the start of a failed poll to the next one, for an endpoint that has never
answered, or not recently."""

KNOWN_FOR: Micros = 10 * MINUTE
"""How long after its last answer an endpoint counts as recently available."""

RETRY_AFTER_MAX: Micros = 5 * SECOND
"""Maximum pause that an endpoint can ask for. A longer one would miss a Preempt."""

JITTER = 0.2
"""Maximum fraction of a pause that is randomly left out, so that the agents of a host
do not poll at the same time after an outage. It never makes a pause longer."""

TIMEOUT_LEAST: Micros = 2 * SECOND
"""Minimum timeout for an answer if the last answer was fast."""

TIMEOUT_STEP: Micros = SECOND
"""Increase of the timeout after each failure in a row, so that a slow endpoint
succeeds."""

WAIT_MARGIN: Micros = 3 * SECOND
"""Time by which the timeout exceeds the wait that the endpoint offered (see "Extensions
of the protocol")."""

WAIT: Micros = MINUTE
"""The longest wait for a change that the agent asks for."""

FULL_EVERY: Micros = MINUTE
"""How often the document is requested without a tag, so that an endpoint with wrong
tags cannot hide an event for longer."""

TAG_LASTS: Micros = 5 * MINUTE
"""After a longer gap, another endpoint may answer. The agent then asks for the newest
version, without a tag."""

NAME_EVERY: Micros = 10 * MINUTE
"""How often the VM's name is read again. It hardly ever changes."""

NAME_STEPS: tuple[Micros, ...] = (SECOND, 5 * SECOND, 15 * SECOND, MINUTE)
"""Intervals between reads of the VM's name while the instance endpoint does not return
it."""

NAME_TIMEOUT: Micros = 2 * SECOND
"""Timeout for reading the name."""


@frozen_dataclass
class Pace:
    """The settings for polling."""

    interval: Micros = SECOND
    """Time from the start of a successful poll to the start of the next one."""
    timeout: Micros = 5 * SECOND
    """Maximum timeout for an answer after the first one."""
    first_timeout: Micros = 130 * SECOND
    """Timeout for the first answer, which can take two minutes (clause 7.1)."""
    wait: Micros = WAIT
    """The longest wait for a change that the agent asks for; 0: it does not ask."""


@frozen_dataclass
class Course:
    """The results of polling so far."""

    failures: int = 0
    """Failures in a row."""
    since_answer: Micros | None = None
    """Time since the last good answer; None: there was none."""
    took: Micros = 0
    """Duration of the last good answer, without a wait that was asked for."""

    @property
    def is_known(self) -> bool:
        """Return whether the endpoint answered recently."""
        return self.since_answer is not None and self.since_answer <= KNOWN_FOR


def heard(pace: Pace, gap: Micros) -> Micros:
    """Return how much of the gap between two good answers counts as listening.

    After a good answer, the next poll starts one interval later and takes at most the
    timeout. Any further time is silence: the endpoint did not answer, or the machine
    was suspended.
    """
    return min(gap, pace.interval + pace.timeout)


def timeout(pace: Pace, course: Course, *, wait: Micros = 0) -> Micros:
    """Return the timeout for a whole answer, including the requested wait."""
    if course.since_answer is None:
        return max(pace.first_timeout, pace.timeout) + wait
    quick = max(TIMEOUT_LEAST, 2 * course.took) + course.failures * TIMEOUT_STEP
    patience = min(quick, pace.timeout)
    return max(patience, wait + min(WAIT_MARGIN, pace.timeout) if wait else 0)


def pause(
    pace: Pace,
    course: Course,
    *,
    took: Micros,
    jitter: float,
    retry_after: Micros = 0,
) -> Micros:
    """Return the pause before the next poll; `took` is the duration of the last one.

    `jitter` is a random number from 0 to 1. A pause that the endpoint asked for applies
    only after a failure, and counts from its answer.
    """
    assert 0 <= jitter <= 1, "a fraction of a pause"
    if not course.failures:
        return max(pace.interval - took, 0)
    steps = STEPS if course.is_known else STEPS_UNKNOWN
    step = steps[min(course.failures, len(steps)) - 1]
    step -= round(step * JITTER * jitter)
    return max(step - took, min(retry_after, RETRY_AFTER_MAX), 0)


def name_pause(*, failures: int) -> Micros:
    """Return the pause until the VM's name is read again."""
    return NAME_STEPS[min(failures, len(NAME_STEPS)) - 1] if failures else NAME_EVERY
