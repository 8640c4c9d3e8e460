"""The beginning of the operator API's process, before its slow imports.

The process ends when the service ends, even if that is killed and even if this process
is stopped at the time: the next service needs the listen address.
"""

import ctypes
import gc
import os
import signal
import threading

_SET_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of prctl(2): the signal that the kernel sends when the parent dies."""


def main() -> None:
    """Serve; the arguments are the descriptors of two sockets: listener and channel."""
    # The service stops this process; signals to the process group are for the service.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    # If the service died before that call, only standard input shows it.
    threading.Thread(target=_end_with_the_service, daemon=True).start()
    # Everything that is loaded stays: collections would take a tenth of the start.
    gc.disable()
    from forewarn.service import api_child  # noqa: PLC0415 - takes most of the start

    api_child.main()


def _end_with_the_service() -> None:
    """Exit when standard input ends: the service holds the other end of the pipe.

    The service keeps its end open until this process has exited, so end of file means
    that the service was killed. A thread waits for it, since the event loop may hang.
    """
    os.read(0, 1)
    os._exit(1)
