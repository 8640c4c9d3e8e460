"""The replicas of the service: as JSON, and what is wrong with them."""

from collections.abc import Iterator, Mapping
from typing import Any

from forewarn.cluster.port import Role, StandbyState
from forewarn.cluster.view import ReplicaView, View
from forewarn.reporting.problem import Problem, ProblemKind
from forewarn.wording import replicas as wording

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
    "leases_differ": False,
    "replicas": [],
}
"""The answer of a service without replicas, whose store only it uses."""


def report(view: View | None) -> dict[str, Any]:
    """Return a view as JSON; in it, null is unknown. None: the service runs alone."""
    if view is None:
        return dict(ALONE)
    leads = view.leader is not None and view.has_leader
    return {
        "replicated": True,
        "answered_by": view.observer_name,
        "asked_ago_seconds": _rounded(view.age),
        "leader": view.leader.row.name if view.leader and leads else None,
        "led_for_seconds": _rounded(view.led_for),
        "term": None if view.lease is None else view.lease.term,
        "takeovers": view.takeovers,
        "synchronous_standby": None if view.standby is None else view.standby.value,
        "leases_differ": bool(view.differing),
        "replicas": [_replica(replica) for replica in view.replicas],
    }


def _replica(replica: ReplicaView) -> dict[str, Any]:
    return {
        "name": replica.row.name,
        "url": replica.row.url or None,
        "version": replica.row.version,
        "lease_seconds": replica.row.lease,
        "role": ROLE_NAMES[replica.role],
        "behind_entries": replica.entries,
        "behind_seconds": _rounded(replica.seconds),
        "silent_for_seconds": round(replica.silent_for, 3),
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def problems(view: View | None) -> Iterator[Problem]:
    """Yield the problems of the replicas."""
    if view is None:
        return
    for replica in view.refusing:
        yield _problem(
            ProblemKind.DATABASE_LOST,
            replica.row.name,
            wording.refuses(replica.row.name),
        )
    if view.has_leader is None:
        yield _problem(
            ProblemKind.NO_LEADER,
            view.observer_name,
            wording.no_database(view.observer_name),
        )
    elif not view.has_leader:
        yield _problem(ProblemKind.NO_LEADER, "cluster", wording.NO_LEADER)
    for replica in view.lagging if view.lease is not None else ():
        yield _problem(
            ProblemKind.REPLICA_BEHIND,
            replica.row.name,
            wording.behind(replica.row.name, replica.seconds, replica.silent_for),
        )
    if view.differing:
        text = wording.leases_differ(
            (replica.row.name, replica.row.lease) for replica in view.differing
        )
        yield _problem(ProblemKind.LEASES_DIFFER, "cluster", text)
    if view.is_flapping:
        yield _problem(
            ProblemKind.LEADER_CHANGES, "cluster", wording.changes(view.takeovers)
        )
    if view.lacks_standby:
        is_set = view.standby is StandbyState.MISSING
        yield _problem(
            ProblemKind.NO_STANDBY, "database", wording.no_standby(is_set=is_set)
        )


def _problem(kind: ProblemKind, name: str, text: str) -> Problem:
    return Problem(kind=kind, name=name, text=text, actions=("cluster show",))
