"""When a driver call may begin, after the commit that orders it.

A single service begins its calls as soon as their documents are published. If other
replicas serve the same documents, a call waits until they serve them too: a VM must not be
frozen while another replica still answers that nothing is planned.

A crash while a call waits leaves a call `issued` that was not made, as a crash before
any call does. The next start, or the next leader, probes it.
"""

from collections import deque
from collections.abc import Iterator
from typing import Protocol

from forewarn.drivers.port import Call


class CallGate(Protocol):
    """Knows when the replicas serve what was committed. The thread of the plane asks it."""

    @property
    def is_shared(self) -> bool:
        """Return whether other replicas make calls of the same store."""
        ...

    def place(self) -> int:
        """Return the place of the last commit of this service; places only go up."""
        ...

    def is_open(self, place: int, /) -> bool:
        """Return whether the calls of the commit at this place may begin now.

        Once it is open for a place, it can close again: a service that may have lost its
        lease begins no call.
        """
        ...

    def may_act(self) -> bool:
        """Return whether a driver may start what a call has left to start.

        Any thread may ask.
        """
        ...


class OpenGate:
    """The gate of a service without replicas: always open."""

    is_shared = False

    def place(self) -> int:
        """Return the only place."""
        return 0

    def is_open(self, _place: int, /) -> bool:
        """Return True."""
        return True

    def may_act(self) -> bool:
        """Return True."""
        return True


OPEN = OpenGate()


class HeldCalls:
    """The calls that wait for a gate, in the order of their commits."""

    def __init__(self, gate: CallGate) -> None:
        """Let calls through `gate`."""
        self._gate = gate
        self._held: deque[tuple[int, Call]] = deque()

    def __len__(self) -> int:
        """Return the number of calls that wait."""
        return len(self._held)

    def add(self, call: Call) -> None:
        """Hold a call of the last commit until `ready` returns it."""
        self._held.append((self._gate.place(), call))

    def drop(self, operation_id: str, generation: int) -> None:
        """Forget a call, which is obsolete before it was made."""
        name = operation_id, generation
        if any(call.name == name for _, call in self._held):
            self._held = deque(call for call in self._held if call[1].name != name)

    def has_ready(self) -> bool:
        """Return whether `ready` would return a call now."""
        return bool(self._held) and self._gate.is_open(self._held[0][0])

    def ready(self) -> Iterator[Call]:
        """Return the calls that may begin now; each is forgotten when it is returned."""
        while self.has_ready():
            yield self._held.popleft()[1]
