"""A program that runs as long as its driver is open: started again whenever it ends."""

import threading
from collections.abc import Callable

from forewarn.clock import Clock

AGAIN_SECONDS = 1.0
"""Seconds until a program that ended is started again, at first. Each end doubles it."""

AGAIN_SECONDS_MAX = 60.0
"""Maximum seconds until a program is started again. A program that ran this long starts
with `AGAIN_SECONDS` again."""


def keep_running(
    run: Callable[[], str],
    *,
    until: threading.Event,
    clock: Clock,
    ended: Callable[[str, float], None],
) -> None:
    """Call `run` again and again until an event is set, with a delay that grows.

    `run` returns how the program ended. `ended` gets that and the seconds of the delay,
    unless the event is set.
    """
    wait = AGAIN_SECONDS
    while not until.is_set():
        began = clock.monotonic()
        why = run()
        if until.is_set():
            return
        if clock.monotonic() - began >= AGAIN_SECONDS_MAX:
            wait = AGAIN_SECONDS
        ended(why, wait)
        until.wait(wait)
        wait = min(2 * wait, AGAIN_SECONDS_MAX)
