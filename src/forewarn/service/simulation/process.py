"""The process that simulates one campaign with a snapshot of the store.

It gets a request, and answers with the text of a report or with an error. It changes
nothing.
"""

import gc

from forewarn.campaigns.plan_progress import ReportProgress
from forewarn.service import planning_process
from forewarn.service.simulation.fleet_copy import copy_fleet
from forewarn.service.simulation.play import SimulationRequest, simulated
from forewarn.store.snapshot import Source, reading


def _simulated(
    store: Source, request: SimulationRequest, report: ReportProgress
) -> str:
    with reading(store) as reader:
        copied = copy_fleet(reader, request.text)
    # It lives for minutes, unlike a planner. The fleet itself is never garbage.
    gc.freeze()
    gc.enable()
    return simulated(copied, request, report=report)


serve = planning_process.answering(_simulated)


def main() -> None:
    """Run the process."""
    planning_process.run(serve)
