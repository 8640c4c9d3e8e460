"""Whole requests that were read before, by their bytes.

A fleet's pollers send the same few requests all day, on connections that stay and
on new ones. What such a request asks for is found by its bytes alone, without the
parser; who asks, how often, and the answer are decided anew each time.
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

    __slots__ = ("_known", "find")

    def __init__(self) -> None:
        """Know nothing yet."""
        self._known: dict[bytes, Known] = {}
        self.find = self._known.get
        """Return what the bytes are known to say, or None."""

    def learn(self, known: Known) -> None:
        """Remember a request that stood alone; the oldest is forgotten for it."""
        if len(known.data) > limits.KNOWN_BYTES_MAX:
            return
        if len(self._known) >= limits.KNOWN_MAX:
            del self._known[next(iter(self._known))]
        self._known[known.data] = known
