"""The process that plans one campaign with a snapshot of the store.

It gets a request, and answers with a plan, with what the start of a
campaign stores, or with an error. It changes nothing.
"""

from forewarn.campaigns.plan_progress import ReportProgress
from forewarn.campaigns.prepared import Prepared
from forewarn.control.requests.campaign_starts import (
    PlanRequest,
    StartRequest,
    prepared,
)
from forewarn.reporting.campaign_plans import Planned, planned
from forewarn.service import planning_process
from forewarn.store.snapshot import Source, reading


def _made(
    store: Source, request: PlanRequest | StartRequest, report: ReportProgress
) -> Planned | Prepared:
    with reading(store) as reader:
        if isinstance(request, PlanRequest):
            return planned(reader, request, report=report)
        return prepared(reader, request)


serve = planning_process.answering(_made)


def main() -> None:
    """Run the process."""
    planning_process.run(serve)
