"""Sentences about the replicas of the service, for operators."""

from collections.abc import Iterable

from forewarn.instants import SECOND, describe_duration, format_duration

NO_LEADER = (
    "no replica leads: approvals and requests are answered with 503, and no operation starts; "
    "another replica takes over within seconds unless all of them are down or refuse"
)


LOST = (
    "the database has lost transactions that this replica has seen, so it neither leads nor "
    "answers VMs"
)

ACCEPT_LOSS = (
    "Make the old database the primary again, or stop all replicas, accept the loss with "
    "`forewarn store restored`, and start them"
)
"""Hint for an operator whose database has lost transactions."""

SAME_LEASE = (
    "Set the same `[cluster] lease` on all replicas, and restart them one after the other, "
    "the leader last"
)
"""Hint for an operator whose replicas have different leases."""


def refuses(name: str) -> str:
    """Return a sentence: the database has lost what a replica has seen."""
    return (
        f"the database has lost transactions that replica {name} has seen, so it neither "
        "leads nor answers VMs; answered approvals may be lost"
    )


def no_database(name: str) -> str:
    """Return a sentence: a replica does not know who leads."""
    return (
        f"replica {name} gets no answer from the database, so it cannot say who leads"
    )


def behind(name: str, seconds: float | None, silent_for: float) -> str:
    """Return a sentence: a replica is behind, or silent."""
    if seconds is None:
        return f"replica {name} has been silent for {_spoken(silent_for)}"
    return f"replica {name} has been behind for {_spoken(seconds)}"


def leases_differ(leases: Iterable[tuple[str, float | None]]) -> str:
    """Return a sentence: replicas, given by names, have different leases."""
    named = ", ".join(f"{name} {written_lease(seconds)}" for name, seconds in leases)
    return (
        f"the replicas have different leases ({named}), so a takeover can take as long as "
        "the longest of them"
    )


def written_lease(seconds: float | None) -> str:
    """Return a lease in the form of the settings; "-" if it is unknown."""
    return "-" if seconds is None else format_duration(round(seconds * SECOND))


def changes(takeovers: int) -> str:
    """Return a sentence: leaders change too often."""
    return f"the leader has changed {takeovers} times within 15 minutes"


def no_standby(*, is_set: bool) -> str:
    """Return a sentence: a fail-over of the database can lose approvals."""
    if is_set:
        return (
            "synchronous_standby_names is set and no synchronous standby streams, so commits "
            "wait for one"
        )
    return (
        "synchronous_standby_names is empty, so a fail-over of the database can lose "
        "approvals that were answered"
    )


def _spoken(seconds: float) -> str:
    return describe_duration(round(seconds) * SECOND)
