"""Sums for operators: missing approvals by tenant, free capacity by zone and cluster."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from forewarn.control.rules import reserves, rolling
from forewarn.fleet.model import UNLIMITED_PLACES, Capacity, Host
from forewarn.instants import Micros, format_instant, instant_or_none, sortable
from forewarn.protocol.blockers import NoCapacity, ReserveKept
from forewarn.protocol.events import Event
from forewarn.protocol.operations import MOVING_ACTIONS, Operation, OperationState
from forewarn.protocol.views import View
from forewarn.reporting.blocker_reports import Json, blocker_reports
from forewarn.settings.amounts import Amount
from forewarn.store import kinds
from forewarn.store.port import Reader, columns, columns_of, every

EVENTS_MAX = 20_000
"""Maximum live events that are read: half a second's work. With more, the sums are
marked as incomplete."""


PREPARING_MAX = 20
"""Maximum scopes of a tenant that are named with their agents: a dialog has no room for
more."""


@dataclass(slots=True, kw_only=True)
class _Scope:
    """The events of one scope that wait for its approval."""

    since: Micros
    """The time when the first of them was announced."""
    vms: set[str] = field(default_factory=set[str])


@dataclass(slots=True, kw_only=True)
class Wait:
    """The events of one tenant that wait for its approval."""

    tenant: str
    events: int = 0
    vms: set[str] = field(default_factory=set[str])
    hosts: set[str] = field(default_factory=set[str])
    scopes: dict[str, "_Scope"] = field(default_factory=dict[str, "_Scope"])
    since: Micros = 0
    """The time when the first of these events was announced."""
    not_before: Micros = 0
    """NotBefore of the first of these events."""

    @property
    def key(self) -> str:
        """Return the sort key: the longest wait first."""
        return f"{sortable(self.since)}.{self.tenant}"

    def take(self, event: Event, host: str) -> None:
        """Count one more event."""
        self.events += 1
        vms = [resource.vm for resource in event.resources]
        self.vms.update(vms)
        self.hosts.update({host} - {""})
        scope = self.scopes.setdefault(event.scope, _Scope(since=event.created))
        scope.vms.update(vms)
        scope.since = min(scope.since, event.created)
        self.since = min(self.since or event.created, event.created)
        self.not_before = min(self.not_before or event.not_before, event.not_before)


def waits(reader: Reader, events: Iterable[Event]) -> list[Wait]:
    """Return the waits in these events by tenant, the longest first."""
    by_tenant: dict[str, Wait] = {}
    hosts: dict[str, str] = {}
    for event in events:
        if not event.awaits_approval:
            continue
        if event.operation not in hosts:
            operation = reader.get(Operation, event.operation)
            hosts[event.operation] = operation.host if operation else ""
        wait = by_tenant.setdefault(event.tenant, Wait(tenant=event.tenant))
        wait.take(event, hosts[event.operation])
    return sorted(by_tenant.values(), key=lambda wait: wait.key)


def live_events(reader: Reader) -> tuple[list[Event], bool]:
    """Return the live events, and whether they are complete."""
    events = list(islice(every(reader, kinds.LIVE_EVENTS), EVENTS_MAX + 1))
    return events[:EVENTS_MAX], len(events) <= EVENTS_MAX


def wait_report(reader: Reader, wait: Wait) -> Json:
    """Return a tenant's wait with the state of its agents, as JSON.

    `last_poll` can be some minutes old, since the service stores it rarely.
    """
    views: list[View] = [
        view
        for scope in sorted(wait.scopes)
        for view in every(reader, kinds.VIEWS_OF_SCOPE, scope)
    ]
    polled: dict[str, Micros] = {}
    for view in views:
        if view.is_enabled:
            polled[view.scope] = max(polled.get(view.scope, 0), view.last_seen)
    return {
        "tenant": wait.tenant,
        "events": wait.events,
        "vms": len(wait.vms),
        "hosts": len(wait.hosts),
        "scopes": len(wait.scopes),
        "scopes_enabled": len(polled),
        "enabled": bool(polled),
        "since": format_instant(wait.since),
        "not_before": format_instant(wait.not_before),
        "last_poll": instant_or_none(
            max((view.last_seen for view in views), default=0)
        ),
        "preparing": _preparing(wait, polled),
    }


def _preparing(wait: Wait, polled: Mapping[str, Micros]) -> list[Json]:
    """Return the scopes whose agents know their events and have approved none of them.

    Those that prepare for the shortest time come first: the others may never approve.
    """
    scopes = sorted(polled, key=lambda name: (-wait.scopes[name].since, name))
    return [
        {
            "scope": name,
            "vms": sorted(wait.scopes[name].vms),
            "since": format_instant(wait.scopes[name].since),
            "last_poll": instant_or_none(polled[name]),
        }
        for name in scopes[:PREPARING_MAX]
    ]


def wait_sums(found: Iterable[Wait]) -> Json:
    """Return the sums of all waits."""
    every_one = list(found)
    return {
        "tenants": len(every_one),
        "events": sum(wait.events for wait in every_one),
        "vms": sum(len(wait.vms) for wait in every_one),
        "hosts": len({host for wait in every_one for host in wait.hosts}),
    }


PLANNED_MAX = 5_000
"""Maximum waiting hosts that are read to find the next host of each rollout."""

POOLS_MAX = 200
"""Maximum pools whose sums are shown: a fleet has few, and each takes some reads."""

ROLLOUTS_MAX = 20
"""Maximum rollouts whose next host is evaluated: each takes some milliseconds."""


CLUSTERS_MAX = 300
"""Maximum clusters whose sums are shown: more than a person looks at."""


@dataclass(slots=True, kw_only=True)
class Part:
    """The capacity of the hosts of one zone, or of one cluster."""

    name: str
    hosts: int = 0
    down: int = 0
    in_work: int = 0
    cordoned: int = 0
    places: int = 0
    used: int = 0
    free: int = 0
    """Free places on hosts that can take a VM now."""
    unlimited: int = 0
    """Hosts without a capacity, which no sum includes."""

    def take(self, room: Capacity, number: int) -> None:
        """Count some more hosts that are alike."""
        self.hosts += number
        self.down += number * (not room.is_up)
        self.in_work += number * (room.works > 0)
        self.cordoned += number * room.is_cordoned
        self.used += number * room.used
        if room.places == UNLIMITED_PLACES:
            self.unlimited += number
            return
        self.places += number * room.places
        self.free += number * room.free if room.is_open else 0

    def report(self, kind: str) -> Json:
        """Return the part as JSON, with its name as the value of `kind`."""
        return {
            kind: self.name,
            "hosts": self.hosts,
            "down": self.down,
            "in_work": self.in_work,
            "cordoned": self.cordoned,
            "unlimited": self.unlimited,
            "places": self.places,
            "used": self.used,
            "free": self.free,
        }


@dataclass(frozen=True, slots=True)
class Alike:
    """Hosts that are alike in all that is summed up."""

    room: Capacity
    """The capacity of each, without the name of a host."""
    cluster: str
    number: int


def zones(rooms: Iterable[Alike]) -> list[Part]:
    """Return the capacity of each zone, by name."""
    return _parts((room.room.zone, room) for room in rooms)


def clusters(rooms: Iterable[Alike]) -> tuple[list[Part], bool]:
    """Return the capacity of each cluster, by name, and whether all are there.

    Hosts without a cluster are in none.
    """
    parts = _parts((room.cluster, room) for room in rooms if room.cluster)
    return parts[:CLUSTERS_MAX], len(parts) <= CLUSTERS_MAX


def _parts(named: Iterable[tuple[str, Alike]]) -> list[Part]:
    parts: dict[str, Part] = {}
    for name, alike in named:
        parts.setdefault(name, Part(name=name)).take(alike.room, alike.number)
    return [parts[name] for name in sorted(parts)]


_SUMMED = ("zone", "pool", "places", "used", "is_up", "works", "is_cordoned")
"""Fields of a capacity record that are summed up."""


def rooms(reader: Reader, hosts: Collection[str] | None = None) -> list[Alike]:
    """Return the capacity of some hosts, or of all, with hosts that are alike together.

    Few kinds of hosts are left of a large fleet, and no record is read as a whole: 100,000
    hosts take 0.2 seconds.
    """
    places = _clusters_of(reader, hosts)
    numbers = Counter[tuple[Any, ...]]()
    wanted = ("host", *_SUMMED)
    for names, *part in (
        columns(reader, kinds.ALL_ROOMS, wanted)
        if hosts is None
        else columns_of(reader, Capacity, wanted, hosts)
    ):
        where = [places.get(name, "") for name in names]
        numbers.update(zip(where, *part, strict=True))
    return [
        Alike(
            Capacity(host="", **dict(zip(_SUMMED, values, strict=True))),
            cluster,
            number,
        )
        for (cluster, *values), number in numbers.items()
    ]


def _clusters_of(reader: Reader, hosts: Collection[str] | None) -> dict[str, str]:
    """Return the cluster of each host, without the hosts that are in none."""
    wanted = ("name", "cluster")
    return {
        name: cluster
        for names, places in (
            columns(reader, kinds.ALL_HOSTS, wanted)
            if hosts is None
            else columns_of(reader, Host, wanted, hosts)
        )
        for name, cluster in zip(names, places, strict=True)
        if cluster
    }


def pools(
    reader: Reader, rooms: Iterable[Alike], reserve: Amount
) -> tuple[list[Json], bool]:
    """Return the capacity and the reserve of the pools of hosts, by name, as JSON.

    With it, whether all pools are named.
    """
    names = sorted({room.room.pool for room in rooms})
    sums_of_pools = [
        {
            "pool": name,
            "resource": pool.key,
            "total": pool.total,
            "free": pool.free,
            "reserve": pool.reserve(reserve),
        }
        for name in names[:POOLS_MAX]
        for pool in reserves.pool_sums(reader, name)
    ]
    return sums_of_pools, len(names) <= POOLS_MAX


def next_hosts(
    reader: Reader,
    hosts: Collection[str] | None = None,
    *,
    now: Micros,
    reserve: Amount,
) -> list[Json]:
    """Return the needs of the next host of each rollout, as JSON.

    With `hosts`, leave out the rollouts whose next host is another one.
    """
    planned = every(reader, kinds.OPERATIONS_IN_STATE, OperationState.PLANNED.value)
    first: dict[str, Operation] = {}
    for operation in islice(planned, PLANNED_MAX):
        first.setdefault(operation.request, operation)
    chosen = (
        operation
        for operation in first.values()
        if hosts is None or operation.host in hosts
    )
    return [
        _need(reader, operation, now=now, reserve=reserve)
        for operation in islice(chosen, ROLLOUTS_MAX)
    ]


def _where(reader: Reader, name: str) -> Json:
    """Return the zone and the cluster of a host; empty if it was removed."""
    host = reader.get(Host, name)
    return {
        "zone": host.zone if host else "",
        "cluster": host.cluster if host else "",
    }


def _need(
    reader: Reader, operation: Operation, *, now: Micros, reserve: Amount
) -> Json:
    vms = rolling.vms_of(reader, operation)
    moves = operation.action in MOVING_ACTIONS
    waiting = rolling.waiting_host(reader, operation, vms, reserve=reserve)
    lacking = [
        blocker
        for blocker in waiting.obstacles
        if isinstance(blocker, (NoCapacity, ReserveKept))
    ]
    return {
        "rollout": operation.request,
        "operation": operation.operation_id,
        "host": operation.host,
        **_where(reader, operation.host),
        "vms": len(vms),
        "needs": len(vms) if moves else 0,
        "fits": not lacking,
        "blockers": blocker_reports(
            reader, operation, (*waiting.holds, *waiting.obstacles), now=now
        ),
    }
