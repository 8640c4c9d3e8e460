"""One deadline for a whole exchange over HTTP.

A time-out of a socket is for each read: an endpoint that drips would hold its reader
for ever. Standard library only.
"""

import math
import socket
import threading


class Deadline:
    """Ends a connection that takes too long as a whole."""

    def __init__(self, seconds: float) -> None:
        """Take `seconds` from `watch` on; infinitely many are no deadline."""
        self.has_passed = False
        self._is_finite = math.isfinite(seconds)
        self._socket: socket.socket | None = None
        self._timer = threading.Timer(seconds, self._pass)
        self._timer.daemon = True

    def watch(self, wire: socket.socket) -> None:
        """Begin; the socket is connected."""
        self._socket = wire
        if self._is_finite:
            self._timer.start()

    def end(self) -> None:
        """End the watch, whether it began or not."""
        self._timer.cancel()

    def _pass(self) -> None:
        self.has_passed = True
        assert self._socket is not None, "it is watched"
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            # It has ended by itself in this very moment.
            self.has_passed = False
