"""A Patroni cluster as values: who leads it, and who could. Pure.

What Patroni's REST API answers to `GET /cluster`, `/patroni` and `/config`, as far as
it matters; the words differ between its versions, and what is missing is bad news.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Any

from forewarn.agent.core.names import keys_of
from forewarn.agent.foreign import members, objects
from forewarn.agent.handlers.run_context import HandlerError
from forewarn.instants import Micros, parse_instant
from forewarn.protocol.frozen import frozen_dataclass

LAG_MAX = 1_048_576
"""Bytes: Patroni's own `maximum_lag_on_failover`, where its configuration has none."""

UP = frozenset({"running", "streaming", "in archive recovery"})
"""States of a member whose PostgreSQL answers."""

_LEADS = frozenset({"leader", "standby_leader", "promoted", "master"})
_PRIMARY = frozenset({"primary", "master", "promoted", "standby_leader"})
"""What a node calls itself that leads; the words differ between versions."""
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
    """Bytes behind the leader; None: not known."""
    tags: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def is_promoted(self) -> bool:
        """Tell whether its PostgreSQL leads, and not just its lock."""
        return self.role in _LEADS - {"promoted"} and self.state in UP

    @property
    def rank(self) -> int:
        """Return how much its tags want it to be a leader."""
        rank = self.tags.get("failover_priority", 1)
        return rank if isinstance(rank, int) else 1


@frozen_dataclass
class Plan:
    """A switchover that somebody has scheduled."""

    at: str
    """As Patroni writes it."""
    instant: Micros | None
    """None: that is no time."""
    source: str = ""
    target: str = ""


@frozen_dataclass
class Cluster:
    """All members, and what is planned."""

    members: tuple[Member, ...]
    is_paused: bool = False
    plan: Plan | None = None

    @property
    def leader(self) -> Member | None:
        """Return who has the leader's lock; None: nobody has."""
        return next((each for each in self.members if each.role in _LEADS), None)

    def find(self, name: str) -> Member | None:
        """Return a member by its name."""
        return next((each for each in self.members if each.name == name), None)


@frozen_dataclass
class Status:
    """What a node says of itself."""

    name: str
    """Empty: its Patroni is too old to tell."""
    scope: str
    """The cluster's name."""
    streams_to: frozenset[str]
    """Members that get its log as it is written."""
    is_streaming: bool
    """Whether it gets another's so, as far as it tells."""
    is_primary: bool
    """Whether its PostgreSQL runs and takes itself for the one that leads."""


@frozen_dataclass
class Demands:
    """What a candidate must fulfil."""

    lag_max: int = LAG_MAX
    is_synchronous: bool = False
    """Whether only synchronous standbys may take over."""
    streaming: Collection[str] = ()
    """Who is known to stream, beside those whose state says so."""
    avoided: Collection[str] = ()
    """Names and hosts that the event is about as well."""


def read_status(body: object) -> Status:
    """Return what `GET /patroni` has answered; raises HandlerError."""
    found = members(body)
    about = members(found.get("patroni"))
    if not (about and found.get("state") and found.get("role")):
        raise HandlerError("what answers at `url` is no Patroni")
    return Status(
        name=str(about.get("name", "")),
        scope=str(about.get("scope", "")),
        streams_to=frozenset(
            str(each.get("application_name", ""))
            for each in objects(found.get("replication"))
            if each.get("state") == "streaming"
        ),
        is_streaming=found.get("replication_state", "streaming") == "streaming",
        is_primary=found.get("role") in _PRIMARY and found.get("state") in UP,
    )


def read_cluster(body: object) -> Cluster:
    """Return what `GET /cluster` has answered; raises HandlerError."""
    found = members(body)
    if not isinstance(found.get("members"), list):
        raise HandlerError("what answers at `url` tells of no cluster")
    plan = members(found.get("scheduled_switchover"))
    return Cluster(
        members=tuple(_member(each) for each in objects(found["members"])),
        is_paused=bool(found.get("pause")),
        plan=_plan(plan) if plan else None,
    )


def contradiction(cluster: Cluster, me: str, status: Status) -> str:
    """Return why it is not sure that another member leads; empty: it does.

    `/cluster` tells what the cluster has agreed upon, and `status` what this node is.
    """
    leaders = [each for each in cluster.members if each.role in _LEADS]
    names = " and ".join(each.name for each in leaders)
    if len(leaders) != 1:
        return f"{names} lead at the same time" if names else "there is no leader"
    if cluster.find(me) is None:
        return f"{names} leads, and the cluster has no member {me}"
    if status.is_primary:
        return f"{names} leads, and {me} takes itself for the primary"
    if leaders[0].role == "promoted":
        return f"{names} is being promoted"
    if not leaders[0].is_promoted:
        return f"{names} leads, and it is {leaders[0].state or 'in no state'}"
    return ""


def demands(config: object, lag_max: int | None) -> Demands:
    """Return what `GET /config` demands of candidates; `lag_max` comes before it."""
    found = members(config)
    usual = _number(found.get("maximum_lag_on_failover"))
    if lag_max is None:
        lag_max = LAG_MAX if usual is None else usual
    mode = found.get("synchronous_mode")
    mode = mode.lower() if isinstance(mode, str) else bool(mode)
    return Demands(lag_max=lag_max, is_synchronous=mode in _ON)


def hindrance(member: Member, cluster: Cluster, asked: Demands) -> str:
    """Return why a member cannot take over; empty: it can."""
    leader = cluster.leader
    if member.tags.get("nofailover") is True or member.rank <= 0:
        return "its tags forbid it"
    called = keys_of(filter(None, (member.name, member.host)))
    if called & keys_of(asked.avoided):
        return "the event is about it too"
    if member.state not in UP:
        return f"it is {member.state or 'in no state'}"
    if member.state != "streaming" and member.name not in asked.streaming:
        return "it does not stream"
    if asked.is_synchronous and member.role not in _SYNCHRONOUS:
        return "it is no synchronous standby"
    if member.lag is None:
        return "nobody knows how far it is behind"
    if member.lag > asked.lag_max:
        return f"it is {member.lag / _MEGABYTE:.1f} MiB behind"
    if (
        leader is not None
        and None not in {leader.timeline, member.timeline}
        and leader.timeline != member.timeline
    ):
        return f"it is on timeline {member.timeline}, not {leader.timeline}"
    return ""


def choose(
    cluster: Cluster, asked: Demands, wanted: Sequence[str] = ()
) -> tuple[str, str]:
    """Return who is to take over, or an empty name and why nobody can.

    `wanted` are the only ones, the best first. Otherwise a synchronous standby comes
    first, then whose tags say so, then who is least behind.
    """
    leader = cluster.leader
    others = [
        each
        for each in cluster.members
        if each is not leader and (not wanted or each.name in wanted)
    ]
    found = {each.name: hindrance(each, cluster, asked) for each in others}
    fit = [each for each in others if not found[each.name]]
    if fit:
        best = min(
            fit,
            key=lambda each: (
                wanted.index(each.name) if wanted else 0,
                each.role not in _SYNCHRONOUS,
                -each.rank,
                each.lag or 0,
                each.name,
            ),
        )
        return best.name, ""
    missing = [name for name in wanted if cluster.find(name) is None]
    reasons = [f"{name}: {why}" for name, why in found.items()]
    reasons += [f"{name}: there is no such member" for name in missing]
    return "", "; ".join(reasons) or "there is no other member"


def _member(found: Mapping[str, Any]) -> Member:
    return Member(
        name=str(found.get("name", "")),
        role=str(found.get("role", "")),
        state=str(found.get("state", "")),
        host=str(found.get("host", "")),
        timeline=_number(found.get("timeline")),
        lag=_number(found.get("lag")),
        tags=members(found.get("tags")),
    )


def _plan(found: Mapping[str, Any]) -> Plan:
    at = str(found.get("at", ""))
    try:
        instant = parse_instant(at)
    except ValueError:
        instant = None
    return Plan(
        at=at,
        instant=instant,
        source=str(found.get("from", "")),
        target=str(found.get("to", "")),
    )


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and value is not True else None
