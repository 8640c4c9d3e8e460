"""The process that plans one campaign with a snapshot of the store.

Both ends are forewarn, so messages are pickled: a request in, the text of a report or an
error out. The process changes nothing.
"""

import contextlib
import gc
import os
import pickle
import sys
from pathlib import Path
from typing import IO

from forewarn.protocol.errors import ForewarnError
from forewarn.reporting.campaign_plans import PlanRequest, planned
from forewarn.service.planning import NICENESS
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
    """Serve on standard input and output; the argument is the store's file."""
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    # The process lives for seconds and creates hardly any garbage.
    gc.disable()
    try:
        serve(Path(sys.argv[1]), sys.stdin.buffer, sys.stdout.buffer)
    except BrokenPipeError:
        # The service closed the pipe; exit without flushing.
        os._exit(1)
