"""The metrics of one replica."""

from collections.abc import Iterator, Mapping

from forewarn.admin.meters import Reading
from forewarn.cluster.lease import LeaseState
from forewarn.cluster.port import StandbyState
from forewarn.cluster.view import ReplicaView, View
from forewarn.reporting.replicas import ROLE_NAMES
from forewarn.service import metric_definitions


def readings(
    view: View,
    lease_state: LeaseState,
    *,
    now: float,
    takeovers: int,
    passed_on: Mapping[tuple[str, str], int],
) -> Iterator[Reading]:
    """Yield the metrics of the replica that has `view` and `lease_state`."""
    own = next(
        (replica for replica in view.replicas if replica.row.key == view.observer), None
    )
    lacking = _lacking(own)
    age = view.age or 0.0
    unknown = sum(replica.role is None for replica in view.replicas)
    yield Reading(metric_definitions.CLUSTER_ROLE, {ROLE_NAMES[lease_state.role]: 1})
    if view.term is not None:
        # A 0 would look like a change of the term.
        yield Reading(metric_definitions.CLUSTER_TERM, view.term)
    yield Reading(metric_definitions.CLUSTER_TAKEOVERS, takeovers)
    yield Reading(
        metric_definitions.CLUSTER_REPLICAS,
        {"seen": len(view.replicas) - unknown, "unknown": unknown},
    )
    entries = 0 if own is None else own.entries
    if entries is not None:
        # A 0 would say that the documents are complete.
        yield Reading(metric_definitions.CLUSTER_BEHIND_ENTRIES, entries)
    yield Reading(
        metric_definitions.CLUSTER_BEHIND_SECONDS,
        # Between two looks, the age says nothing.
        max(lacking, age) if view.lease is None else lacking,
    )
    yield Reading(
        metric_definitions.CLUSTER_RENEWAL_AGE,
        now - lease_state.renewed if lease_state.leads else 0,
    )
    if view.condition is not None:
        yield Reading(metric_definitions.CLUSTER_FEED_ROWS, view.condition.feed_rows)
    yield Reading(
        metric_definitions.CLUSTER_STANDBY,
        {
            standby_state.value: int(standby_state is view.standby)
            for standby_state in StandbyState
        },
    )
    yield Reading(metric_definitions.CLUSTER_PASSED_ON, dict(passed_on))


def _lacking(own: ReplicaView | None) -> float:
    """Return for how many seconds the documents may have lacked a transaction.

    If the row of the replica is silent, it is unknown: at most since its last sign.
    """
    if own is None:
        return 0.0
    return own.silent_for if own.seconds is None else own.seconds
