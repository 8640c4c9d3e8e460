"""The limit of open files of a process; each listener and each connection is one file.

The soft limit of a shell or of systemd (1,024) protects programs that cannot handle more
files. A process can raise it to the hard limit without asking. Child processes inherit
it.
"""

import contextlib
import errno
import resource

from forewarn.service import limits

USED_UP = frozenset({errno.EMFILE, errno.ENFILE})
"""The error numbers of a process or system that can open no more files."""

HINT = (
    "Allow more open files (`ulimit -n`, or LimitNOFILE= of a unit), or use fewer VMs."
)
"""The hint for these errors."""


def allow(files_max: int | None = None) -> None:
    """Raise the limit of open files to the hard limit, or to `files_max`.

    It never lowers the limit and never fails: a limit that is too low shows later.
    """
    now, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = allowed
    if files_max is not None and not 0 <= allowed <= files_max:
        limit = files_max
    if now == resource.RLIM_INFINITY or 0 <= limit <= now:
        return
    # Some systems report no hard limit and still enforce one.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, allowed))


def free_for_connections() -> int:
    """Return the maximum number of connections that leaves a reserve of open files.

    If the limit is smaller than the reserve, connections get half of it.
    """
    files_max, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files_max == resource.RLIM_INFINITY:
        return limits.FILES_MAX
    return max(files_max - limits.FILES_RESERVED, files_max // 2)


def hint(error: OSError, usual: str) -> str:
    """Return the hint for a listener that could not be opened."""
    return HINT if error.errno in USED_UP else usual
