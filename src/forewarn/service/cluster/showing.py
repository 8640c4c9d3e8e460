"""The replicas as JSON: the answer of `GET /v1/cluster`."""

from collections.abc import Callable, Mapping
from typing import Any

from forewarn.cluster.port import Role
from forewarn.cluster.view import ReplicaView, View

ROLE_NAMES: Mapping[Role | None, str] = {
    Role.LEADS: "leads",
    Role.FOLLOWS: "follows",
    Role.UNSURE: "unsure",
    Role.BEHIND: "refuses",
    Role.STOPPED: "stopped",
    None: "unknown",
}
"""The roles as operators read them."""

ALONE: Mapping[str, Any] = {
    "replicated": False,
    "answered_by": None,
    "asked_ago_seconds": None,
    "leader": None,
    "led_for_seconds": None,
    "term": None,
    "takeovers": 0,
    "synchronous_standby": None,
    "replicas": [],
}
"""The answer of a service without replicas, whose store only it uses."""


class NoCluster:
    """The gateway of a service that is not one of several replicas."""

    async def cluster(self) -> dict[str, Any]:
        """Return that there is no cluster."""
        return dict(ALONE)


class ShownCluster:
    """The gateway of a replica (admin.gateways.ClusterGateway)."""

    def __init__(self, name: str, view: Callable[[], View]) -> None:
        """Show `view` as the replica `name` sees it."""
        self._name, self._view = name, view

    async def cluster(self) -> dict[str, Any]:
        """Return who leads, and how far each replica is behind."""
        return report(self._view(), name=self._name)


def report(view: View, *, name: str) -> dict[str, Any]:
    """Return a view of the replica `name` as JSON; null is unknown."""
    leads = view.leader is not None and view.has_leader
    return {
        "replicated": True,
        "answered_by": name,
        "asked_ago_seconds": _rounded(view.age),
        "leader": view.leader.row.name if view.leader and leads else None,
        "led_for_seconds": _rounded(view.led_for),
        "term": None if view.lease is None else view.lease.term,
        "takeovers": view.takeovers,
        "synchronous_standby": view.condition.standby.value,
        "replicas": [_replica(each) for each in view.replicas],
    }


def _replica(each: ReplicaView) -> dict[str, Any]:
    return {
        "name": each.row.name,
        "url": each.row.url or None,
        "version": each.row.version,
        "role": ROLE_NAMES[each.role],
        "behind_entries": each.entries,
        "behind_seconds": _rounded(each.seconds),
        "silent_for_seconds": round(each.silent_for, 3),
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
