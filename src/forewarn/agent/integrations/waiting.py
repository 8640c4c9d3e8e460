"""How a handler waits for a state by looking again and again, and tells what it awaited.

It promises that whoever runs out of time in the middle of a question is told what all
of it was about, and not which question was the last. It knows no target.
"""

import contextlib
from collections.abc import Generator

from forewarn.agent.handlers.leash import Leash
from forewarn.agent.handlers.port import StoppedError, TimeUpError
from forewarn.agent.integrations.commands import over

LOOK_SECONDS_MAX = 2.0
LOOK_SECONDS_MIN = 0.1
"""Between two looks. Each may ask the controller of a whole cluster several times."""

LOOKS = 100
"""About so many looks fit into a run, within these bounds."""


class Aim:
    """What a run is waiting for at the moment, as a sentence goes on after `while`."""

    def __init__(self, leash: Leash) -> None:
        """Wait for nothing yet."""
        self._leash = leash
        self._text = ""

    def look_again(self, awaited: str, *, looks: int = 1) -> None:
        """Wait until it is time to look again; raises TimeUpError or StoppedError."""
        self._text = f"waiting {awaited}"
        left = self._leash.seconds() / LOOKS
        pause = max(LOOK_SECONDS_MIN, min(LOOK_SECONDS_MAX, left))
        if not self._leash.pause(looks * pause):
            raise over(self._leash, self._text)

    @contextlib.contextmanager
    def told(self) -> Generator[None]:
        """Have whoever runs out of time within say what was awaited, if anything."""
        try:
            yield
        except (TimeUpError, StoppedError) as error:
            if not self._text:
                raise
            raise over(self._leash, self._text) from error
