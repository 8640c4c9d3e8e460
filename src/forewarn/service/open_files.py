"""How many files a process may have open: each listener and each connection is one.

The limit that a shell or systemd sets by itself (1,024) is for programs that cannot
do with more. Nobody need ask for what the system allows anyway. What runs as a child
inherits it.
"""

import contextlib
import errno
import resource

from forewarn.service import limits

USED_UP = frozenset({errno.EMFILE, errno.ENFILE})
"""What the system says where no more files can be opened."""

HINT = (
    "no more files can be opened here: allow more (`ulimit -n`, or LimitNOFILE= of a "
    "unit), or have fewer VMs"
)
"""What to do then."""


def allow(most: int | None = None) -> None:
    """Have as many files open as the system allows, or `most` of them.

    It never lowers the limit, and never fails: what cannot be had is found out when
    it is needed.
    """
    now, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = allowed
    if most is not None and not 0 <= allowed <= most:
        wanted = most
    if now == resource.RLIM_INFINITY or 0 <= wanted <= now:
        return
    # Some systems name no bound, and refuse more than another one.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, allowed))


def free_for_connections() -> int:
    """Return how many connections may be open, so that a reserve of files stays.

    At least some: where even the reserve cannot be had, half of what there is.
    """
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY:
        return limits.FILES_MAX
    return max(most - limits.FILES_RESERVED, most // 2)


def hint(error: OSError, usual: str) -> str:
    """Return what to do about a listener that could not be had."""
    return HINT if error.errno in USED_UP else usual
