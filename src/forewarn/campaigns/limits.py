"""The budgets of a campaign as numbers, for one fleet."""

from collections.abc import Sequence
from dataclasses import dataclass

from forewarn.campaigns.fleet_map import NO_LIMIT, Column, FleetMap
from forewarn.campaigns.model import Amount, Budget, Stage
from forewarn.fleet.reserve import NO_RESERVE
from forewarn.protocol.enumerations import Enumeration


class LimitKind(Enumeration):
    """The kind of a limit; the value is the name in the API."""

    IN_FLIGHT = "in-flight"
    UNAVAILABLE = "unavailable"
    GROUP = "group"
    ROOM = "room"
    """Hosts of a pool whose VMs fit on the other hosts of the pool."""
    TENANT_VMS = "tenant-vms"
    FAULT_DOMAINS = "fault-domains"
    MIGRATIONS = "migrations"
    """Hosts with VMs of one scope: one VM of a scope migrates at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimit:
    """Maximum hosts in flight of each group of a column."""

    kind: LimitKind
    label: str
    column: Column
    most: Sequence[int]
    """The maximum of each group, by the number of its value; NO_LIMIT: none."""
    written: str = ""
    """The amount in the file; empty for a limit that the fleet sets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of concurrent work."""

    in_flight: int
    in_flight_written: str
    unavailable: int | None
    """None: no limit."""
    unavailable_written: str
    away: int
    """Hosts that are away already, and are not worked on by the campaign."""
    groups: tuple[GroupLimit, ...]
    tenant_most: tuple[int, ...]
    """Maximum VMs of each tenant; empty: no limit."""
    tenant_written: str
    overlap: int
    reserve: Amount = NO_RESERVE
    """Free capacity that stays free in each pool, if VMs are moved."""

    @property
    def at_once(self) -> int:
        """Return how many hosts can be in flight, at least 1."""
        if self.unavailable is None:
            return self.in_flight
        return max(1, min(self.in_flight, self.unavailable - self.away))

    @property
    def is_blocked(self) -> bool:
        """Return whether no host can begin until others are available again."""
        return self.unavailable is not None and self.unavailable <= self.away


def resolve(
    fleet: FleetMap,
    hosts: Sequence[int],
    budget: Budget,
    *,
    reserve: Amount = NO_RESERVE,
) -> Limits:
    """Return the budgets for these hosts of a fleet as numbers."""
    working = set(hosts)
    away = sum(
        1
        for host in range(len(fleet))
        if not fleet.is_open(host) and host not in working
    )
    groups: list[GroupLimit] = []
    everybody = range(len(fleet))
    for limit in budget.by:
        column = fleet.column(limit.label)
        sizes = column.counts(everybody)
        most = [max(1, limit.most.of(size)) for size in sizes]
        most[0] = NO_LIMIT
        groups.append(
            GroupLimit(
                kind=LimitKind.GROUP,
                label=limit.label,
                column=column,
                most=most,
                written=str(limit.most),
            )
        )
    tenant = budget.tenant_vms
    return Limits(
        in_flight=max(1, budget.in_flight.of(len(hosts))),
        in_flight_written=str(budget.in_flight),
        unavailable=_of(budget.unavailable, len(fleet)),
        unavailable_written=_text(budget.unavailable),
        away=away,
        groups=tuple(groups),
        tenant_most=()
        if tenant is None
        else tuple(max(1, tenant.of(vms)) for vms in fleet.tenant_vms),
        tenant_written=_text(tenant),
        overlap=budget.overlap_notice,
        reserve=reserve,
    )


def stage_ends(stages: Sequence[Stage], hosts: int) -> list[tuple[int, Stage]]:
    """Return the number of hosts up to the end of each stage, and the stage.

    Stages that would have no further host are left out. The last stage has all hosts,
    without a soak, unless a stage of the file has them.
    """
    ends: list[tuple[int, Stage]] = []
    for stage in stages:
        end = min(hosts, max(1, stage.hosts.of(hosts)))
        if end > (ends[-1][0] if ends else 0):
            ends.append((end, stage))
    if not ends or ends[-1][0] < hosts:
        ends.append((hosts, Stage(hosts=Amount(value=100, is_percent=True))))
    return ends


def _of(amount: Amount | None, total: int) -> int | None:
    return None if amount is None else amount.of(total)


def _text(amount: Amount | None) -> str:
    return "" if amount is None else str(amount)
