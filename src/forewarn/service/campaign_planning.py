"""The process that plans one campaign with a snapshot of the store.

Both ends are forewarn, so messages are pickled: a request in, the text of a report or an
error out. The process changes nothing.
"""

import pickle
from pathlib import Path
from typing import IO

from forewarn.protocol.errors import ForewarnError
from forewarn.reporting.campaign_plans import PlanRequest, planned
from forewarn.service import planning_process
from forewarn.store.snapshot import reading


def serve(store: Path, asked: IO[bytes], told: IO[bytes]) -> None:
    """Answer one request."""
    request: PlanRequest = pickle.load(asked)  # noqa: S301 - from the service itself
    answer: str | ForewarnError
    try:
        with reading(store) as reader:
            answer = planned(reader, request)
    except ForewarnError as error:
        answer = error
    pickle.dump(answer, told)
    told.flush()


def main() -> None:
    """Run the process."""
    planning_process.run(serve)
