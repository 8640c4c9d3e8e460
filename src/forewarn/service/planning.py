"""The process that looks at a large fleet file, beside the service that has its store.

It is one of its own, since reading the file of 100,000 VMs, and comparing it
with what is, takes seconds of one interpreter and hundreds of MiB: neither is to be
had in the process that answers VMs. It reads one moment of the store's file beside
the service, changes nothing, and gives back only what differs.

Both ends are this program: what goes between them is pickled. It is told the text
first; then it answers each question until nobody asks any more. The text is read
once, the store anew for each plan.
"""

import contextlib
import enum
import gc
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, TypeAlias

from forewarn.control.requests import fleet_changes
from forewarn.fleet.changes import Change
from forewarn.fleet.file import FleetText, WantedFleet
from forewarn.protocol.errors import ForewarnError
from forewarn.store.snapshot import reading

NICENESS = 5
"""Behind the service where both want one processor: it still gets a quarter of it.
A courtesy: where the system refuses it, both get the same."""

CHANGES_TOGETHER = 200
"""Of one message: the service makes them objects again in a millisecond or two, in
which it does nothing else."""


class Question(enum.Enum):
    """What the service wants to know of the file."""

    COUNT = "how many objects there are"
    PLAN = "what applying it would change"


Message: TypeAlias = tuple[Change, ...] | dict[str, int] | ForewarnError | None
"""Changes, in several parts, or a count, and then None; or why there is none."""


def serve(store: Path, asked: IO[bytes], told: IO[bytes]) -> None:
    """Answer the questions about one file until there are no more."""

    def tell(message: Message) -> None:
        pickle.dump(message, told)

    text: FleetText = pickle.load(asked)  # noqa: S301 - from the service itself
    wanted: WantedFleet | None = None
    while True:
        try:
            question: Question = pickle.load(asked)  # noqa: S301
        except EOFError:
            return
        try:
            wanted = wanted or text.read()
            if question is Question.COUNT:
                tell(wanted.count())
            else:
                _plan(store, wanted, tell)
            tell(None)
        except ForewarnError as error:
            tell(error)
        told.flush()


def _plan(store: Path, wanted: WantedFleet, tell: Callable[[Message], None]) -> None:
    with reading(store) as reader:
        changes = fleet_changes.plan(reader, wanted).changes
    for start in range(0, len(changes), CHANGES_TOGETHER):
        tell(changes[start : start + CHANGES_TOGETHER])


def main() -> None:
    """Serve on standard input and output; the argument is the store's file."""
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    # It lives for seconds and makes no rubbish to speak of.
    gc.disable()
    try:
        serve(Path(sys.argv[1]), sys.stdin.buffer, sys.stdout.buffer)
    except BrokenPipeError:
        # Nobody wants to know any more; and nothing is to be flushed at the end.
        os._exit(1)
