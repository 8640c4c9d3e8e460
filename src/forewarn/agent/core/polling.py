"""When to ask the endpoint again, and how long to wait for it: values in, values out.

The measure of everything here is a Preempt, which gives thirty seconds: whatever goes
wrong with an endpoint that has answered before, it is asked again so soon, and waited
for so briefly, that two failures in a row cost it a few seconds (clause 8.1). Pure.
"""

from __future__ import annotations

from forewarn.instants import MINUTE, SECOND, Micros
from forewarn.protocol.frozen import frozen_dataclass

STEPS: tuple[Micros, ...] = (1 * SECOND, 1 * SECOND, 2 * SECOND, 3 * SECOND)
"""From the beginning of a failed poll to the next, while the endpoint is known to be
there; the last is kept to. The first two are no longer than where nothing failed: of a
Preempt that begins with two errors, 24 s stay with the handlers."""

STEPS_UNKNOWN: tuple[Micros, ...] = (
    *(1 * SECOND, 2 * SECOND, 4 * SECOND, 8 * SECOND, 16 * SECOND),
    30 * SECOND,
)
"""The same for one that has never answered, or not for long."""

KNOWN_FOR: Micros = 10 * MINUTE
"""How long after its last answer an endpoint counts as one that is there."""

RETRY_AFTER_MAX: Micros = 5 * SECOND
"""Nobody waits longer because an endpoint says so: it would miss a Preempt."""

JITTER = 0.2
"""Part of a pause that chance takes away, so that agents of one host do not come
together after an outage. It never adds to one."""

TIMEOUT_LEAST: Micros = 2 * SECOND
"""For an answer, of an endpoint whose last answer was quick."""

TIMEOUT_STEP: Micros = SECOND
"""What each failure in a row adds to it: one that has become slow is heard at last."""

WAIT_MARGIN: Micros = 3 * SECOND
"""Beyond a wait that the endpoint has offered (docs/reference/extensions.md)."""

WAIT: Micros = MINUTE
"""The longest wait for a change that is asked for, where the endpoint can wait."""

FULL_EVERY: Micros = MINUTE
"""How often the document is asked for without a tag: an endpoint whose tags lie
cannot hide an event for longer."""

TAG_LASTS: Micros = 5 * MINUTE
"""After a longer gap an endpoint may be another one: it is asked anew, for the newest
version and without a tag."""

NAME_EVERY: Micros = 10 * MINUTE
"""How often the VM's name is read again: it changes hardly ever."""

NAME_STEPS: tuple[Micros, ...] = (SECOND, 5 * SECOND, 15 * SECOND, MINUTE)
"""The same while the instance endpoint does not tell it."""

NAME_TIMEOUT: Micros = 2 * SECOND
"""For the name: nothing waits for it longer."""


@frozen_dataclass
class Pace:
    """What the settings say about polling."""

    interval: Micros = SECOND
    """From the beginning of a good poll to the next."""
    timeout: Micros = 5 * SECOND
    """For an answer, at most, once there was one."""
    first_timeout: Micros = 130 * SECOND
    """For the first answer: it may take two minutes (clause 7.1)."""
    wait: Micros = WAIT
    """The longest wait for a change that is asked for; 0: plain polling."""


@frozen_dataclass
class Course:
    """How polling has gone so far."""

    failures: int = 0
    """In a row, up to now."""
    since_answer: Micros | None = None
    """Since the last good answer; None: there was none yet."""
    took: Micros = 0
    """What the last good answer took, without a wait that was asked for."""

    @property
    def is_known(self) -> bool:
        """Tell whether the endpoint counts as one that is there."""
        return self.since_answer is not None and self.since_answer <= KNOWN_FOR


def heard(pace: Pace, gap: Micros) -> Micros:
    """Return how much of the time between two good answers counts as listened to.

    The poll after a good one is an interval later, and its answer takes a timeout at
    most. What is beyond is silence, of the endpoint or of a machine that stood still.
    """
    return min(gap, pace.interval + pace.timeout)


def timeout(pace: Pace, course: Course, *, wait: Micros = 0) -> Micros:
    """Return how long to wait for a whole answer, with the wait that is asked for."""
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
    """Return how long to pause before the next poll; `took` is what the last took.

    `jitter` is chance, from 0 to 1. What the endpoint asks to wait counts from its
    answer, and only after a failure.
    """
    assert 0 <= jitter <= 1, "a part of a pause"
    if not course.failures:
        return max(pace.interval - took, 0)
    steps = STEPS if course.is_known else STEPS_UNKNOWN
    step = steps[min(course.failures, len(steps)) - 1]
    step -= round(step * JITTER * jitter)
    return max(step - took, min(retry_after, RETRY_AFTER_MAX), 0)


def name_pause(*, failures: int) -> Micros:
    """Return when to read the VM's name again."""
    if not failures:
        return NAME_EVERY
    return NAME_STEPS[min(failures, len(NAME_STEPS)) - 1]
