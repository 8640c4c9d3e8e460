"""Which container the agent itself runs in, by what the kernel tells a process.

There may be several ids: those of containers around it, and of one that shares its
files with it (Kubernetes' sandbox). To stop any of them would stop the agent too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

SELF = "/proc/self"
"""Where the kernel tells a process of itself."""

_GIVEN = frozenset(
    {"/etc/hostname", "/etc/hosts", "/etc/resolv.conf", "/run/.containerenv"}
)
"""Files that an engine puts into a container, from a folder that is named after it."""

_ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_HOST_ID = re.compile(r"[0-9a-f]{12,64}")


def own_ids(host: str) -> frozenset[str]:
    """Return how the ids of the agent's own containers begin; empty: it is in none.

    `host`: what the agent's environment has as HOSTNAME, which is the id's beginning
    unless the container has its host's network, or a name of its own.
    """
    found = {host} if _HOST_ID.fullmatch(host) else set[str]()
    found.update(ids_by_groups(_told("cgroup")), ids_by_mounts(_told("mountinfo")))
    return frozenset(found)


def ids_by_groups(cgroup: str) -> Iterator[str]:
    """Yield the containers whose control groups a process is in, by its `cgroup`.

    Where it has a namespace of them to itself, that tells nothing.
    """
    for line in cgroup.splitlines():
        yield from _ID.findall(line.split(":", 2)[-1])


def ids_by_mounts(mountinfo: str) -> Iterator[str]:
    """Yield the containers whose files a process sees as its own, by its `mountinfo`.

    Other lines may name containers as well: a machine sees the file systems of all.
    """
    for line in mountinfo.splitlines():
        # The fourth is the path within the file system, the fifth where it is seen.
        inside, where = (*line.split(" "), *[""] * 5)[3:5]
        if where in _GIVEN:
            yield from _ID.findall(inside)


def _told(what: str) -> str:
    """Return what the kernel tells; empty: nothing, as on another system."""
    try:
        with open(os.path.join(SELF, what), encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
