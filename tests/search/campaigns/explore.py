"""The search of campaigns: every state that can be reached, the shortest way to each."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from forewarn.clock import SystemClock
from forewarn.protocol.errors import IllegalTransitionError
from tests.search.campaigns.model import Model
from tests.search.campaigns.state import State, told
from tests.search.campaigns.transactions import ALL_OPERATORS, Step, is_over, steps
from tests.search.campaigns.watch import Watch
from tests.search.invariants import BrokenError
from tests.search.reached import (
    ENDED,
    NO_LIMIT,
    EndlessError,
    Found,
    FoundError,
    Reached,
    Seen,
    untraced,
)

FAIR = (
    "turn",
    "call",
    "look",
    "done",
    "brake off",
    "resume",
    "restore host",
    "open host",
    "approve stage",
    "skip",
    "tick",
)
"""Steps that come by themselves, or that are pending; the first comes first (K7)."""
RANK = {what: rank for rank, what in enumerate(FAIR)}


@dataclass(slots=True, kw_only=True)
class Report(Seen):
    """The states and steps that a search of a campaign has reached."""

    def __str__(self) -> str:
        """Return what it says to a person."""
        ends = f"all ends within {self.farthest} fair steps"
        undecided = f"({self.undecided:,} not decided)"
        return self.told([f"  K1-K10 hold in each; {ends} {undecided}"])


class Search:
    """A search of one world with a campaign."""

    def __init__(self, model: Model, *, limit: int = NO_LIMIT) -> None:
        """Search until `limit` states are known, or all are."""
        self.model = model
        self.limit = limit
        self.watch = Watch(model)
        self.report = Report(world=model.setting.name)
        self._known: dict[State, int] = {}
        self._reached = Reached()

    def run(self) -> Report:
        """Search, and report; the first broken rule ends it."""
        clock, report = SystemClock(), self.report
        begun = clock.monotonic()
        try:
            with untraced():
                self._explore()
                self._all_end()
        except FoundError as error:
            report.found = error.found
        report.seconds = clock.monotonic() - begun
        report.states = len(self._known)
        return report

    def _explore(self) -> None:
        first = self.model.first()
        self._add(first, -1, 0)
        queue = deque([first])
        while queue and len(self._known) < self.limit:
            self._expand(self._reached.expanded, queue.popleft(), queue)
            self._reached.expanded += 1
        self.report.complete = not queue

    def _add(self, state: State, whence: int, by: int) -> int:
        number = self._known[state] = self._reached.add(whence, by)
        return number

    def _expand(self, number: int, state: State, queue: deque[State]) -> None:
        best = len(FAIR)
        for count, step in enumerate(self._steps(number, state)):
            after = step.after
            try:
                self.watch.of_step(state, step)
                known = self._known.get(after, -1)
                if known < 0:
                    self.watch.of_state(after)
                    known = self._add(after, number, count)
                    queue.append(after)
            except BrokenError as error:
                raise self._found(error.name, error.why, number, step) from error
            what, first = step.label
            is_owed = what != "resume" or first == ALL_OPERATORS
            rank = RANK.get(what, best) if is_owed else best
            if known != number and rank < best:
                best = rank
                self._reached.fair[number] = known
        if is_over(state.course, state):
            self._reached.fair[number] = ENDED

    def _steps(self, number: int, state: State) -> Iterator[Step]:
        try:
            for step in steps(self.model, state):
                self.report.steps += 1
                yield step
        except IllegalTransitionError as error:
            raise self._found("table", str(error), number, None) from error

    def _all_end(self) -> None:
        """K7: what comes by itself, or is owed, leads to the end of the campaign."""
        try:
            self._reached.follow(self.report)
        except EndlessError as error:
            raise self._found("K7", error.why, error.number, None) from error

    def _found(self, name: str, why: str, number: int, last: Step | None) -> FoundError:
        way = self._reached.way_to(
            number,
            self.model.first(),
            lambda state: steps(self.model, state),
            lambda step: step.after,
        )
        trace = tuple(
            f"{step.label}: {told(step.after)}"
            for step in (*way, *(() if last is None else (last,)))
        )
        return FoundError(Found(name=name, why=why, trace=trace))
