"""Free capacity by zone, and the needs of the next hosts."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

from forewarn.control.rules import rolling
from forewarn.fleet.model import UNLIMITED_PLACES, Capacity
from forewarn.instants import Micros
from forewarn.protocol.blockers import NoCapacity
from forewarn.protocol.operations import MOVING_ACTIONS, Operation, OperationState
from forewarn.reporting.explanations import blocker_reports
from forewarn.store import kinds
from forewarn.store.port import Reader, every

Json: TypeAlias = dict[str, Any]

HOSTS_MAX = 50_000
"""Maximum hosts that are summed up: half a second's work."""

PLANNED_MAX = 5_000
"""Maximum waiting hosts that are read to find the next host of each rollout."""

ROLLOUTS_MAX = 20
"""Maximum rollouts whose next host is evaluated: each takes some milliseconds."""


@dataclass(slots=True, kw_only=True)
class Zone:
    """The capacity of the hosts of one zone."""

    zone: str
    hosts: int = 0
    down: int = 0
    in_work: int = 0
    places: int = 0
    used: int = 0
    free: int = 0
    """Free places on hosts that can take a VM now."""
    unlimited: int = 0
    """Hosts without a capacity, which no sum includes."""

    def take(self, room: Capacity) -> None:
        """Count one more host."""
        self.hosts += 1
        self.down += not room.is_up
        self.in_work += room.works > 0
        self.used += room.used
        if room.places == UNLIMITED_PLACES:
            self.unlimited += 1
            return
        self.places += room.places
        self.free += room.free if room.is_open else 0

    def report(self) -> Json:
        """Return the zone as JSON."""
        return {
            "zone": self.zone,
            "hosts": self.hosts,
            "down": self.down,
            "in_work": self.in_work,
            "unlimited": self.unlimited,
            "places": self.places,
            "used": self.used,
            "free": self.free,
        }


def zones(rooms: Iterable[Capacity]) -> list[Zone]:
    """Return the capacity of each zone, by name."""
    found: dict[str, Zone] = {}
    for room in rooms:
        found.setdefault(room.zone, Zone(zone=room.zone)).take(room)
    return [found[name] for name in sorted(found)]


def rooms(reader: Reader) -> tuple[list[Capacity], bool]:
    """Return the capacity records of hosts, and whether they are complete."""
    found = list(islice(every(reader, kinds.ALL_ROOMS), HOSTS_MAX + 1))
    return found[:HOSTS_MAX], len(found) <= HOSTS_MAX


def next_hosts(reader: Reader, *, now: Micros) -> list[Json]:
    """Return the needs of the next host of each rollout, as JSON."""
    planned = every(reader, kinds.OPERATIONS_IN_STATE, OperationState.PLANNED.value)
    first: dict[str, Operation] = {}
    for operation in islice(planned, PLANNED_MAX):
        first.setdefault(operation.request, operation)
    return [
        _need(reader, operation, now=now)
        for operation in islice(first.values(), ROLLOUTS_MAX)
    ]


def _need(reader: Reader, operation: Operation, *, now: Micros) -> Json:
    vms = rolling.vms_of(reader, operation)
    moves = operation.action in MOVING_ACTIONS
    waiting = rolling.waiting_host(reader, operation, vms)
    lacking = [each for each in waiting.obstacles if isinstance(each, NoCapacity)]
    room = reader.get(Capacity, operation.host)
    return {
        "rollout": operation.request,
        "operation": operation.operation_id,
        "host": operation.host,
        "zone": room.zone if room else "",
        "vms": len(vms),
        "needs": len(vms) if moves else 0,
        "fits": not lacking,
        "blockers": blocker_reports(reader, operation, waiting.obstacles, now=now),
    }
