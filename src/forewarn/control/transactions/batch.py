"""Several decisions in one transaction."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from forewarn.control.transactions.work import Work
from forewarn.instants import Micros

Step: TypeAlias = Callable[[Work], object]

RunSome: TypeAlias = Callable[[Sequence[Step], Micros], int]
"""Runs the first of some decisions in one transaction, and returns their number."""

TOGETHER_MAX = 32
"""Maximum timers, reports or checks of one transaction. Each takes up to a millisecond of
decisions, and a transaction several exchanges with the database and a flush."""


def first_of(
    steps: Sequence[Step], *, is_time_over: Callable[[], bool]
) -> Callable[[Work], int]:
    """Return the decision that takes the first steps and returns how many it took.

    It takes at most `TOGETHER_MAX`, as many as there is time for, and at least one.
    """

    def decide(work: Work) -> int:
        for taken, step in enumerate(steps[:TOGETHER_MAX], 1):
            step(work)
            if is_time_over():
                return taken
        return min(len(steps), TOGETHER_MAX)

    return decide
