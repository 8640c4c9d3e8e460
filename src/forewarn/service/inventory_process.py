"""The process that reads what an inventory program printed.

Reading the inventory of 6,000 VMs takes a second of an interpreter, which the process that
serves VMs cannot spare. This one returns the fleet file, or the problems.
"""

from typing import NamedTuple

from forewarn.campaigns.plan_progress import ReportProgress
from forewarn.fleet.inventory import fleet_file, read_inventory
from forewarn.service import planning_process
from forewarn.store.snapshot import Source


class Printed(NamedTuple):
    """The output of an inventory program."""

    name: str
    """The program, for messages."""
    output: str


class FoundFleet(NamedTuple):
    """An inventory that was read."""

    text: str
    """The fleet file."""
    unknown_hosts: tuple[str, ...]


def read(_store: Source, printed: Printed, _report: ReportProgress) -> FoundFleet:
    """Return the fleet file of an inventory; raises InventoryError."""
    wanted = read_inventory(printed.output, name=printed.name)
    return FoundFleet(fleet_file(wanted), wanted.unknown_hosts)


def main() -> None:
    """Run the process."""
    planning_process.run(planning_process.answering(read))
