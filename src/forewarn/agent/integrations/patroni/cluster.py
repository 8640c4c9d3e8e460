"""A Patroni cluster as values: the leader, and the members that can take over. Pure.

It parses the responses of Patroni's REST API to `GET /cluster`, `/patroni` and `/config`.
Some names differ between versions. A missing value counts as a problem.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Any

from forewarn.agent.core.names import keys_of
from forewarn.agent.foreign import instant_in, members, objects
from forewarn.agent.handlers.run_context import HandlerError
from forewarn.instants import Micros
from forewarn.protocol.frozen import frozen_dataclass

LAG_MAX = 1_048_576
"""Bytes: Patroni's default of `maximum_lag_on_failover`."""

UP = frozenset({"running", "streaming", "in archive recovery"})
"""States of a member whose PostgreSQL is up."""

_LEADS = frozenset({"leader", "standby_leader", "promoted", "master"})
_PRIMARY = frozenset({"primary", "master", "promoted", "standby_leader"})
"""Roles of a node that leads, in its own status; they differ between versions."""
_SYNCHRONOUS = frozenset({"sync_standby", "quorum_standby"})
_ON = frozenset({True, "on", "true", "yes", "1", "quorum"})
_MEGABYTE = 1 << 20


@frozen_dataclass
class Member:
    """One node of the cluster."""

    name: str
    role: str = ""
    """`leader`, `replica`, `sync_standby` and so on."""
    state: str = ""
    """`running`, `streaming`, `stopped` and so on."""
    host: str = ""
    timeline: int | None = None
    lag: int | None = None
    """Bytes behind the leader; None: unknown."""
    tags: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def is_promoted(self) -> bool:
        """Return whether the member's PostgreSQL is the primary, not only whether it
        holds the lock."""
        return self.role in _LEADS - {"promoted"} and self.state in UP

    @property
    def rank(self) -> int:
        """Return the failover priority in the member's tags."""
        rank = self.tags.get("failover_priority", 1)
        return rank if isinstance(rank, int) else 1


@frozen_dataclass
class Plan:
    """A scheduled switchover."""

    at: str
    """The time as Patroni writes it."""
    instant: Micros | None
    """None: the time is not valid."""
    source: str = ""
    target: str = ""


@frozen_dataclass
class Cluster:
    """All members, and the scheduled switchover."""

    members: tuple[Member, ...]
    is_paused: bool = False
    plan: Plan | None = None

    @property
    def leader(self) -> Member | None:
        """Return the holder of the leader lock; None: there is none."""
        return next((member for member in self.members if member.role in _LEADS), None)

    def find(self, name: str) -> Member | None:
        """Return a member by its name."""
        return next((member for member in self.members if member.name == name), None)


@frozen_dataclass
class Status:
    """The status that a node reports of itself."""

    name: str
    """Empty: the member's Patroni is too old to report it."""
    scope: str
    """The cluster's name."""
    streams_to: frozenset[str]
    """Members that stream the WAL of this member."""
    is_streaming: bool
    """Whether the member streams another member's WAL, as far as it reports."""
    is_primary: bool
    """Whether the member's PostgreSQL runs as a primary."""


@frozen_dataclass
class Demands:
    """The requirements for a candidate."""

    lag_max: int = LAG_MAX
    is_synchronous: bool = False
    """Whether only synchronous standbys may take over."""
    streaming: Collection[str] = ()
    """Members known to stream, in addition to those whose state says so."""
    avoided: Collection[str] = ()
    """Names and hosts of members that the event also affects."""


def read_status(body: object) -> Status:
    """Parse the response to `GET /patroni`; raises HandlerError."""
    status = members(body)
    about = members(status.get("patroni"))
    if not (about and status.get("state") and status.get("role")):
        raise HandlerError("the server at `url` is not Patroni")
    return Status(
        name=str(about.get("name", "")),
        scope=str(about.get("scope", "")),
        streams_to=frozenset(
            str(standby.get("application_name", ""))
            for standby in objects(status.get("replication"))
            if standby.get("state") == "streaming"
        ),
        is_streaming=status.get("replication_state", "streaming") == "streaming",
        is_primary=status.get("role") in _PRIMARY and status.get("state") in UP,
    )


def read_cluster(body: object) -> Cluster:
    """Parse the response to `GET /cluster`; raises HandlerError."""
    members_read = members(body)
    if not isinstance(members_read.get("members"), list):
        raise HandlerError("the server at `url` reports no cluster")
    plan = members(members_read.get("scheduled_switchover"))
    return Cluster(
        members=tuple(_member(entry) for entry in objects(members_read["members"])),
        is_paused=bool(members_read.get("pause")),
        plan=_plan(plan) if plan else None,
    )


def contradiction(cluster: Cluster, me: str, status: Status) -> str:
    """Return why it is not certain that another member leads; empty: it is.

    `/cluster` has the state that the cluster has agreed on, and `status` that of this
    node.
    """
    leaders = [member for member in cluster.members if member.role in _LEADS]
    names = " and ".join(member.name for member in leaders)
    if len(leaders) != 1:
        return f"{names} lead at the same time" if names else "there is no leader"
    if cluster.find(me) is None:
        return f"{names} leads, but the cluster has no member {me}"
    if status.is_primary:
        return f"{names} leads, but {me} also reports that it is the primary"
    if leaders[0].role == "promoted":
        return f"{names} is being promoted"
    if not leaders[0].is_promoted:
        return f"{names} leads, but its state is {leaders[0].state or 'unknown'}"
    return ""


def demands(config: object, lag_max: int | None) -> Demands:
    """Parse the requirements in the response to `GET /config`; `lag_max` has priority."""
    settings = members(config)
    usual = _number(settings.get("maximum_lag_on_failover"))
    if lag_max is None:
        lag_max = LAG_MAX if usual is None else usual
    mode = settings.get("synchronous_mode")
    mode = mode.lower() if isinstance(mode, str) else bool(mode)
    return Demands(lag_max=lag_max, is_synchronous=mode in _ON)


def hindrance(member: Member, cluster: Cluster, demands: Demands) -> str:
    """Return why a member cannot take over; empty: it can."""
    leader = cluster.leader
    if member.tags.get("nofailover") is True or member.rank <= 0:
        return "its tags forbid it"
    called = keys_of(filter(None, (member.name, member.host)))
    if called & keys_of(demands.avoided):
        return "the event affects it too"
    if member.state not in UP:
        return f"its state is {member.state or 'unknown'}"
    if member.state != "streaming" and member.name not in demands.streaming:
        return "it does not stream"
    if demands.is_synchronous and member.role not in _SYNCHRONOUS:
        return "it is not a synchronous standby"
    if member.lag is None:
        return "its lag is unknown"
    if member.lag > demands.lag_max:
        return f"its lag is {member.lag / _MEGABYTE:.1f} MiB"
    if (
        leader is not None
        and None not in {leader.timeline, member.timeline}
        and leader.timeline != member.timeline
    ):
        return f"it is on timeline {member.timeline}, not {leader.timeline}"
    return ""


def choose(
    cluster: Cluster, demands: Demands, wanted: Sequence[str] = ()
) -> tuple[str, str]:
    """Return the member that will take over, or an empty name and the reason.

    `wanted` are the only candidates, in order of preference. Otherwise synchronous
    standbys come first, then higher failover priority, then less lag.
    """
    leader = cluster.leader
    others = [
        member
        for member in cluster.members
        if member is not leader and (not wanted or member.name in wanted)
    ]
    hindrances = {member.name: hindrance(member, cluster, demands) for member in others}
    if fit := [member for member in others if not hindrances[member.name]]:
        best = min(
            fit,
            key=lambda member: (
                wanted.index(member.name) if wanted else 0,
                member.role not in _SYNCHRONOUS,
                -member.rank,
                member.lag or 0,
                member.name,
            ),
        )
        return best.name, ""
    missing = [name for name in wanted if cluster.find(name) is None]
    reasons = [f"{name}: {why}" for name, why in hindrances.items()]
    reasons += [f"{name}: there is no such member" for name in missing]
    return "", "; ".join(reasons) or "there is no other member"


def _member(member: Mapping[str, Any]) -> Member:
    return Member(
        name=str(member.get("name", "")),
        role=str(member.get("role", "")),
        state=str(member.get("state", "")),
        host=str(member.get("host", "")),
        timeline=_number(member.get("timeline")),
        lag=_number(member.get("lag")),
        tags=members(member.get("tags")),
    )


def _plan(plan: Mapping[str, Any]) -> Plan:
    at = str(plan.get("at", ""))
    return Plan(
        at=at,
        instant=instant_in(at),
        source=str(plan.get("from", "")),
        target=str(plan.get("to", "")),
    )


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and value is not True else None
