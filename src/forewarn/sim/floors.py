"""How short `speed` makes a notice or an impact on the machine's clock at most.

A client that polls once a second is correct, and no speed makes it faster. A virtual
clock waits for its clients, so it needs no floors, and a service divides exactly.
"""

from dataclasses import dataclass

from forewarn.instants import SECOND, Micros


@dataclass(frozen=True, slots=True, kw_only=True)
class Floors:
    """The shortest times that a speed makes of longer ones; 0: it divides them all."""

    notice: Micros = 0
    """Of a notice, from the order to NotBefore."""
    impact: Micros = 0
    """Of an impact, during which an event is shown as Started."""

    def lengthen(self) -> Micros:
        """Return by how much the two may make one operation longer at most."""
        return self.notice + self.impact


NONE = Floors()

CLIENTS = Floors(notice=5 * SECOND, impact=2 * SECOND)
"""What a client that polls once a second can meet. Notice: 1 s until a poll shows the
event, 3 s to prepare, and 1 s for the answer to a poll and the approval to arrive.
Impact: at least one poll falls into it, also if the one before was late by a second."""
