"""The state of all hosts by cluster and rack, for a screen on a wall.

Single fields are read, each kind of record once: 100,000 hosts take half a second. For
operators only.
"""

import enum
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeAlias, TypeVar

from forewarn.instants import Micros, format_instant
from forewarn.protocol.operations import Operation, OperationState
from forewarn.protocol.visits import Visit, VisitState
from forewarn.reporting.failed_hosts import all_failed
from forewarn.reporting.reports import names_each
from forewarn.store import kinds
from forewarn.store.port import Reader, columns, count, every

Json: TypeAlias = dict[str, Any]

R = TypeVar("R")

READ_MAX = 20_000
"""Maximum operations in work, and open visits, that are read: more are not in work
together, and they take a quarter of a second. If there are more, the answer says so."""


class Square(enum.Enum):
    """The state of a host on the wall; the value is the name in the API."""

    DOWN = "down"
    FAILED = "failed"
    """A visit failed, or an open campaign counts it as failed."""
    WORKING = "working"
    """An operation has started on it, or a host step runs."""
    ANNOUNCED = "announced"
    CORDONED = "cordoned"
    UP = "up"


_WORST_FIRST = list(Square)


@dataclass(slots=True)
class _Part:
    """The hosts of a cluster or a rack."""

    counts: Counter[Square] = field(default_factory=Counter[Square])
    done: int = 0
    hosts: list[tuple[str, Square]] = field(default_factory=list[tuple[str, Square]])

    @property
    def worst(self) -> Square:
        """Return the state that needs attention most."""
        return min(self.counts, key=_WORST_FIRST.index)


_Place: TypeAlias = tuple[str, str]
"""The cluster and the rack of a host."""

_NOWHERE: _Place = ("", "")

_UP = _WORST_FIRST.index(Square.UP)


def fleet_overview(reader: Reader, *, now: Micros) -> Json:
    """Return the hosts of the fleet by cluster and rack, and one by one if they are few."""
    places = _places(reader)
    names_hosts = names_each(len(places))
    visits = _some(every(reader, kinds.OPEN_VISITS))
    started = [_started(reader, state) for state in _STARTED]
    working, failed = _in_work(started, visits), all_failed(reader, visits)
    requests = {campaign.request for campaign in every(reader, kinds.CAMPAIGNS_OPEN)}
    # Counted by the rank of the state, whose hash is faster than that of the state.
    counts = Counter[tuple[_Place, int]]()
    done = Counter[_Place]()
    named: dict[_Place, list[tuple[str, Square]]] = {}
    taken = 0
    for names, are_up, works, are_cordoned, used, done_in in columns(
        reader,
        kinds.ALL_ROOMS,
        ("host", "is_up", "works", "is_cordoned", "used", "done_in"),
    ):
        wheres = [places.get(name, _NOWHERE) for name in names]
        states = [
            _UP
            if is_up
            and not (works or is_cordoned)
            and name not in failed
            and name not in working
            else _WORST_FIRST.index(
                _square(
                    is_up=is_up,
                    has_failed=name in failed,
                    is_in_work=name in working,
                    works=works,
                    is_cordoned=is_cordoned,
                )
            )
            for name, is_up, works, is_cordoned in zip(
                names, are_up, works, are_cordoned, strict=True
            )
        ]
        taken += sum(used)
        counts.update(zip(wheres, states, strict=True))
        if requests:
            done.update(
                where
                for where, request in zip(wheres, done_in, strict=True)
                if request in requests
            )
        if names_hosts:
            for where, name, state in zip(wheres, names, states, strict=True):
                named.setdefault(where, []).append((name, _WORST_FIRST[state]))
    racks: dict[_Place, _Part] = {}
    for (where, state), number in counts.items():
        part = racks.setdefault(
            where, _Part(done=done[where], hosts=named.get(where, []))
        )
        part.counts[_WORST_FIRST[state]] = number
    # A VM that is moving takes a place on two hosts.
    moving = count(reader, kinds.VMS_MOVING, limit=max(1, taken))
    return {
        **_document(racks, taken - moving, now, names_hosts=names_hosts),
        "at_least": any(len(rows) > READ_MAX for rows in (*started, visits)),
    }


def _square(
    *,
    is_up: bool,
    has_failed: bool,
    is_in_work: bool,
    works: int,
    is_cordoned: bool,
) -> Square:
    if not is_up:
        return Square.DOWN
    if has_failed:
        return Square.FAILED
    if is_in_work:
        return Square.WORKING
    if works:
        return Square.ANNOUNCED
    return Square.CORDONED if is_cordoned else Square.UP


def _document(
    racks: dict[_Place, _Part], vms: int, now: Micros, *, names_hosts: bool
) -> Json:
    clusters: dict[str, list[tuple[str, _Part]]] = {}
    total = Counter[Square]()
    for (cluster, rack), part in sorted(racks.items()):
        clusters.setdefault(cluster, []).append((rack, part))
        total += part.counts
    return {
        "at": format_instant(now),
        "hosts": total.total(),
        "vms": vms,
        "counts": _counts(total),
        "clusters": [
            _cluster(name, parts, names_hosts=names_hosts)
            for name, parts in clusters.items()
        ],
    }


def _cluster(name: str, parts: list[tuple[str, _Part]], *, names_hosts: bool) -> Json:
    counts = Counter[Square]()
    for _, part in parts:
        counts += part.counts
    return {
        "cluster": name,
        "hosts": counts.total(),
        "counts": _counts(counts),
        "done": sum(part.done for _, part in parts),
        "racks": [
            [rack, part.worst.value, part.counts.total(), part.done]
            for rack, part in parts
        ],
        "squares": [
            [rack, host, state.value]
            for rack, part in parts
            for host, state in part.hosts
        ]
        if names_hosts
        else [],
    }


def _counts(counts: Counter[Square]) -> dict[str, int]:
    return {square.value: counts[square] for square in Square if counts[square]}


def _places(reader: Reader) -> dict[str, _Place]:
    places: dict[str, _Place] = {}
    for names, clusters, racks in columns(
        reader, kinds.ALL_HOSTS, ("name", "cluster", "rack")
    ):
        places.update(zip(names, zip(clusters, racks, strict=True), strict=True))
    return places


_STARTED = (OperationState.IMPACTING, OperationState.RECOVERING)


def _started(reader: Reader, state: OperationState) -> list[Operation]:
    return _some(every(reader, kinds.OPERATIONS_IN_STATE, state.value))


def _some(found: Iterator[R]) -> list[R]:
    """Return at most one more than is read, which shows that there are more."""
    return list(islice(found, READ_MAX + 1))


def _in_work(started: Iterable[list[Operation]], visits: Iterable[Visit]) -> set[str]:
    """Return the hosts on which work has started."""
    idle = {VisitState.WAITING, VisitState.ANNOUNCED}
    hosts = {operation.host for operations in started for operation in operations}
    return hosts | {visit.host for visit in visits if visit.state not in idle}
