"""Whole requests that were read before, by their bytes.

A fleet's pollers send the same few requests all day, on connections that stay and
on new ones. What such a request asks for is found by its bytes alone, without the
parser; who asks, how often, and the answer are decided anew each time. A request is
learnt when it comes for the second time: clients that give each request an id of its
own would push out those of all others.
"""

from typing import NamedTuple

from forewarn.metadata import limits
from forewarn.metadata.reader import Received
from forewarn.metadata.routes import Read


class Known(NamedTuple):
    """What some bytes say, wherever they came from."""

    data: bytes
    received: Received
    route: Read


class KnownRequests:
    """The requests that all connections of a server have learnt."""

    __slots__ = ("_known", "_once", "find")

    def __init__(self) -> None:
        """Know nothing yet."""
        self._known: dict[bytes, Known] = {}
        self._once: set[int] = set()
        """Hashes of requests that came once."""
        self.find = self._known.get
        """Return what the bytes are known to say, or None."""

    def learn(self, known: Known) -> None:
        """Remember a request that stood alone, if it came before; forget the oldest."""
        if len(known.data) > limits.KNOWN_BYTES_MAX:
            return
        seen = hash(known.data)
        if seen not in self._once:
            if len(self._once) >= limits.SEEN_ONCE_MAX:
                self._once.clear()
            self._once.add(seen)
            return
        self._once.discard(seen)
        if len(self._known) >= limits.KNOWN_MAX:
            del self._known[next(iter(self._known))]
        self._known[known.data] = known
