"""How a handler waits for a target, and tells what it was about when its time is up.

It promises that whoever runs out of time in the middle of a question is told what all
of it was about, and not which question was the last. It knows no target.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator

from forewarn.agent.handlers.port import OverError, StoppedError, TimeUpError
from forewarn.agent.handlers.run_context import RunContext

LOOK_SECONDS_MAX = 2.0
LOOK_SECONDS_MIN = 0.1
"""Between two looks. Each may ask the controller of a whole cluster several times."""

LOOKS = 100
"""About so many looks fit into a run, within these bounds."""


def over(context: RunContext, doing: str, *, said: str = "") -> OverError:
    """Return the error of a handler that has no time left: `waiting for 3 sessions`.

    `said` is what a target that was away said last.
    """
    doing = f"{doing}: {said}" if said else doing
    error = (
        StoppedError(f"its event has gone while it was {doing}")
        if context.is_stopped
        else TimeUpError(f"its time was up while it was {doing}")
    )
    error.said = said
    return error


@contextlib.contextmanager
def telling(context: RunContext, doing: str) -> Generator[None]:
    """Have the end of the run tell what the whole block was for, not its last step.

    What a target that was away said stands after it.
    """
    try:
        yield
    except OverError as error:
        raise over(context, doing, said=error.said) from error


class Aim:
    """What a run is waiting for at the moment, as a sentence goes on after `while`."""

    def __init__(self, context: RunContext) -> None:
        """Wait for nothing yet."""
        self._context = context
        self._text = ""

    def recheck(self, awaited: str, *, looks: int = 1) -> None:
        """Wait until it is time to look again; raises OverError."""
        self._text = f"waiting {awaited}"
        left = self._context.remaining() / LOOKS
        pause = max(LOOK_SECONDS_MIN, min(LOOK_SECONDS_MAX, left))
        if not self._context.sleep(looks * pause):
            raise over(self._context, self._text)

    @contextlib.contextmanager
    def told(self) -> Generator[None]:
        """Have whoever runs out of time within say what was awaited, if anything."""
        try:
            yield
        except OverError as error:
            if not self._text:
                raise
            raise over(self._context, self._text) from error
