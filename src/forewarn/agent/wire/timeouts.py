"""How a socket says that its time is over: in two ways before Python 3.10."""

from __future__ import annotations

import socket

TIMEOUTS = (TimeoutError, socket.timeout)
"""What `except` and `isinstance` are to look for."""
