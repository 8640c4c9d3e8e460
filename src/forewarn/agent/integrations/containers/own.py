"""Find the containers in which the agent runs, from the kernel's information.

There can be several IDs: those of outer containers, and that of a container which shares
files with the agent's (the sandbox of Kubernetes). Stopping any of them would stop the
agent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from forewarn.agent.handlers.records import text_in

SELF = "/proc/self"
"""The directory with the kernel's information about the current process."""

_GIVEN = frozenset(
    {"/etc/hostname", "/etc/hosts", "/etc/resolv.conf", "/run/.containerenv"}
)
"""Files that an engine mounts from a directory that is named after the container."""

_ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_HOST_ID = re.compile(r"[0-9a-f]{12,64}")


def own_ids(host: str) -> frozenset[str]:
    """Return prefixes of the IDs of the agent's own containers; empty: none.

    `host` is HOSTNAME of the agent's environment. It is the start of the ID, unless the
    container uses the host's network or has its own host name.
    """
    ids = {host} if _HOST_ID.fullmatch(host) else set[str]()
    groups, mounts = text_in(f"{SELF}/cgroup"), text_in(f"{SELF}/mountinfo")
    ids.update(ids_by_groups(groups), ids_by_mounts(mounts))
    return frozenset(ids)


def ids_by_groups(cgroup: str) -> Iterator[str]:
    """Yield the IDs of containers in the control groups of a process.

    With a private cgroup namespace, the file does not contain them.
    """
    for line in cgroup.splitlines():
        yield from _ID.findall(line.split(":", 2)[-1])


def ids_by_mounts(mountinfo: str) -> Iterator[str]:
    """Yield the IDs of containers whose files are mounted for a process.

    Only lines for certain files count, since a host sees the mounts of all containers.
    """
    for line in mountinfo.splitlines():
        # Field 4 is the path in the file system, field 5 the mount point.
        inside, where = (*line.split(" "), *[""] * 5)[3:5]
        if where in _GIVEN:
            yield from _ID.findall(inside)
