"""Runs whose waiting takes no time: each pause turns a clock, and nothing else does.

Commands and requests take what they take, and none of it counts: where a deadline is
met, it is met between two looks.
"""

from forewarn.agent.handlers.leash import Leash
from forewarn.clock import VirtualClock
from forewarn.instants import SECOND
from tests.support.agent_journals import START
from tests.support.handled import PATIENT_SECONDS, Handled


class TurnedLeash(Leash):
    """A leash on a clock of its own."""

    def __init__(self, seconds: float) -> None:
        self._turned = VirtualClock(START)
        end = START + round(seconds * SECOND)
        super().__init__(stop_at=end, kill_at=end, clock=self._turned)

    def pause(self, seconds: float) -> bool:
        if self.is_stopped:
            return False
        waited = round(min(seconds, self.seconds()) * SECOND)
        self._turned.advance_to(self._turned.now() + waited)
        # What is less than a microsecond is nothing.
        return self.seconds() * SECOND > 1


class Turned(Handled):
    """A handler that is called with such leashes."""

    def leash(self, seconds: float = PATIENT_SECONDS) -> Leash:
        return TurnedLeash(seconds)
