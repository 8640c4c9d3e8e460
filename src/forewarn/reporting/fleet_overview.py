"""The state of all hosts by cluster and rack, for a screen on a wall.

Single fields are read, each kind of record once: 100,000 hosts take a second. For
operators only.
"""

import enum
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeAlias

from forewarn.instants import Micros, format_instant
from forewarn.protocol.operations import OperationState
from forewarn.protocol.visits import STUCK_VISITS, Visit, VisitState
from forewarn.store import kinds
from forewarn.store.port import Reader, columns, every

Json: TypeAlias = dict[str, Any]

HOSTS_NAMED_MAX = 1_000
"""Maximum hosts of a fleet that are named one by one: more squares do not fit into a
screen, so a larger fleet has racks only."""

READ_MAX = 20_000
"""Maximum operations in work, and open visits, that are read: more are not in work
together, and they take a quarter of a second."""


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


def fleet_overview(reader: Reader, *, now: Micros) -> Json:
    """Return the hosts of the fleet by cluster and rack, and one by one if they are few."""
    working, failed = _in_work(reader), _failed(reader)
    requests = {each.request for each in every(reader, kinds.CAMPAIGNS_OPEN)}
    racks: dict[tuple[str, str], _Part] = {}
    places = _places(reader)
    vms = 0
    for host, is_up, works, is_cordoned, used, done_in in _rows(
        reader,
        kinds.ALL_ROOMS,
        ("host", "is_up", "works", "is_cordoned", "used", "done_in"),
    ):
        state = (
            Square.DOWN
            if not is_up
            else Square.FAILED
            if host in failed
            else Square.WORKING
            if host in working
            else Square.ANNOUNCED
            if works
            else Square.CORDONED
            if is_cordoned
            else Square.UP
        )
        vms += used
        part = racks.setdefault(places.get(host, ("", "")), _Part())
        part.counts[state] += 1
        part.done += done_in in requests
        part.hosts.append((host, state))
    return _document(racks, vms, now)


def _document(racks: dict[tuple[str, str], _Part], vms: int, now: Micros) -> Json:
    clusters: dict[str, list[tuple[str, _Part]]] = {}
    total = Counter[Square]()
    for (cluster, rack), part in sorted(racks.items()):
        clusters.setdefault(cluster, []).append((rack, part))
        total += part.counts
    names_hosts = total.total() < HOSTS_NAMED_MAX
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
    return {each.value: counts[each] for each in Square if counts[each]}


def _places(reader: Reader) -> dict[str, tuple[str, str]]:
    rows = _rows(reader, kinds.ALL_HOSTS, ("name", "cluster", "rack"))
    return {name: (cluster, rack) for name, cluster, rack in rows}


def _rows(reader: Reader, query: Any, names: tuple[str, ...]) -> Iterator[Any]:
    for page in columns(reader, query, names):
        yield from zip(*page, strict=True)


def _in_work(reader: Reader) -> set[str]:
    """Return the hosts on which work has started."""
    found = {
        each.host
        for state in (OperationState.IMPACTING, OperationState.RECOVERING)
        for each in islice(
            every(reader, kinds.OPERATIONS_IN_STATE, state.value), READ_MAX
        )
    }
    idle = {VisitState.WAITING, VisitState.ANNOUNCED}
    return found | {each.host for each in _visits(reader) if each.state not in idle}


def _failed(reader: Reader) -> set[str]:
    """Return the hosts that failed and wait for an operator."""
    found = {
        host
        for campaign in every(reader, kinds.CAMPAIGNS_OPEN)
        for host in campaign.failed_hosts
    }
    return found | {e.host for e in _visits(reader) if e.state in STUCK_VISITS}


def _visits(reader: Reader) -> Iterator[Visit]:
    return islice(every(reader, kinds.OPEN_VISITS), READ_MAX)
