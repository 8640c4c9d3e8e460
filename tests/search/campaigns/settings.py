"""The terms of a small campaign, and what can happen in its world.

Four hosts, h0 to h3, stand in two racks. Each has one VM, which is alone in its scope, so
that no fault domain holds another one: `tests/search` has worlds for that.
"""

from dataclasses import dataclass

from forewarn.campaigns.model import Tolerance
from forewarn.campaigns.record import BudgetTerms, StageTerms
from forewarn.fleet.windows import Window
from forewarn.instants import DAY, MINUTE, Micros

HOSTS = 4
RACKS = (0, 0, 0, 1)
"""The rack of each host."""
OPERATORS = ("ann", "bob")
VMS_DOWN_MAX = 1
"""Tolerated VMs that are down, which is what a plan sets for hosts with one VM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePlan:
    """One stage: its hosts, and ticks of its soak."""

    hosts: int
    soak: int = 0
    approval: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A world with one campaign, and what may happen in it."""

    name: str
    stages: tuple[StagePlan, ...]
    in_flight: int = 2
    rack_most: int = 0
    """Hosts of one rack that may be in flight; 0: no budget."""
    unavailable: int = 0
    """Hosts of the fleet that may be away; 0: no budget."""
    failures: int = 1
    in_a_row: int = 1
    of_last: int = 3
    tick: Micros = MINUTE
    notice: int = 1
    """Ticks from the announcement to NotBefore."""
    recovery: int = 0
    """Ticks from the end of the work to the end of the operation."""
    opens: int = 0
    """Tick of the day at which the window opens."""
    length: int = 0
    """Ticks for which the window is open; 0: there is no window."""
    slow: int = 1
    """Ticks that the work takes, by the campaign's file."""
    # Steps that are possible
    pauses: int = 0
    """Operators who pause and resume."""
    halts: bool = False
    aborts: bool = False
    skips: bool = False
    """Whether hosts that have not started are skipped; failed ones always can be."""
    brakes: bool = False
    work_fails: bool = False
    retries: bool = False
    hosts_fail: tuple[int, ...] = ()
    crashes: bool = True

    @property
    def day(self) -> int:
        """Return the ticks of a day; 1 without windows, since the time does not matter."""
        return DAY // self.tick if self.length else 1

    @property
    def ends(self) -> tuple[int, ...]:
        """Return the number of hosts up to the end of each stage."""
        ends: list[int] = []
        for stage in self.stages:
            ends.append((ends[-1] if ends else 0) + stage.hosts)
        return tuple(ends)

    def stage_of(self, host: int) -> int:
        """Return the stage of a host, from 1."""
        return 1 + sum(end <= host for end in self.ends)

    @property
    def terms(self) -> tuple[StageTerms, ...]:
        """Return the stages as the record of a campaign has them."""
        return tuple(
            StageTerms(
                hosts=stage.hosts, soak=stage.soak * self.tick, approval=stage.approval
            )
            for stage in self.stages
        )

    @property
    def budget(self) -> BudgetTerms:
        """Return the budgets as the record of a campaign has them."""
        return BudgetTerms(
            in_flight=str(self.in_flight),
            unavailable=str(self.unavailable) if self.unavailable else "",
            by=(("rack", str(self.rack_most)),) if self.rack_most else (),
        )

    @property
    def tolerance(self) -> Tolerance:
        """Return the tolerance as the record of a campaign has it."""
        return Tolerance(
            failures=self.failures,
            in_a_row=self.in_a_row,
            of_last=self.of_last,
            vms_down=VMS_DOWN_MAX,
        )

    @property
    def windows(self) -> tuple[Window, ...]:
        """Return the window of every day, in UTC."""
        if not self.length:
            return ()
        return (
            Window(
                days=tuple(range(7)),
                start=self.opens * self.tick // MINUTE,
                length=self.length * self.tick,
                timezone="UTC",
            ),
        )
