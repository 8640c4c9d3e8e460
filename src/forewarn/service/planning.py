"""The process that reads a large fleet file and compares it with the store.

Reading and comparing a file of 100,000 VMs takes seconds of an interpreter and hundreds
of MiB, which the process that serves VMs cannot spare. This process reads a snapshot of
the store, changes nothing, and returns only the differences.

Both ends are forewarn, so messages are pickled. The first message is the text of the
file. Then the process answers questions until its input ends. It parses the text once
and reads the store again for each plan.
"""

import enum
import pickle
from collections.abc import Callable
from typing import IO, TypeAlias

from forewarn.control.requests import fleet_changes
from forewarn.fleet.file import FleetText, WantedFleet
from forewarn.fleet.merge import Change
from forewarn.protocol.errors import ForewarnError
from forewarn.service import planning_process
from forewarn.store.snapshot import Source, reading

CHANGES_TOGETHER = 200
"""Maximum changes in one message: unpickling them blocks the service for 1 to 2 ms."""


class Question(enum.Enum):
    """A question of the service about the file."""

    COUNT = "the number of objects"
    PLAN = "the changes of applying it"


Message: TypeAlias = tuple[Change, ...] | dict[str, int] | ForewarnError | None
"""An answer: changes in several parts, or a count, and then None; or an error."""


def serve(store: Source, questions: IO[bytes], answers: IO[bytes]) -> None:
    """Answer questions about one file until the input ends."""

    def send(message: Message) -> None:
        pickle.dump(message, answers)

    text: FleetText = pickle.load(questions)  # noqa: S301 - from the service itself
    wanted: WantedFleet | None = None
    while True:
        try:
            question: Question = pickle.load(questions)  # noqa: S301
        except EOFError:
            return
        try:
            wanted = wanted or text.read()
            if question is Question.COUNT:
                send(wanted.count())
            else:
                _plan(store, wanted, send)
            send(None)
        except ForewarnError as error:
            send(error)
        answers.flush()


def _plan(store: Source, wanted: WantedFleet, send: Callable[[Message], None]) -> None:
    with reading(store) as reader:
        changes = fleet_changes.plan(reader, wanted).changes
    for start in range(0, len(changes), CHANGES_TOGETHER):
        send(changes[start : start + CHANGES_TOGETHER])


def main() -> None:
    """Run the process."""
    planning_process.run(serve)
