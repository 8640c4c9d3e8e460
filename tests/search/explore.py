"""The search: every state that can be reached, the shortest way to each.

States are kept as bytes of the numbers of their parts.
"""

from array import array
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from forewarn.clock import SystemClock
from forewarn.protocol.errors import IllegalTransitionError
from tests.search.forward import OfSteps
from tests.search.invariants import BrokenError, OfStates
from tests.search.liveness import Liveness
from tests.search.model import Model
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
from tests.search.state import State
from tests.search.steps import FAIR, Step, steps
from tests.search.words import tell

RANK = {what: rank for rank, what in enumerate(FAIR)}


@dataclass(slots=True, kw_only=True)
class Report(Seen):
    """The states and steps that a search has reached."""

    checked: int = 0
    """Transactions and effects that were judged."""
    asked: int = 0
    """Operations that were found waiting and had to have a reason (L2, L3)."""

    def __str__(self) -> str:
        """Return what it says to a person."""
        undecided = f" ({self.undecided:,} not decided)" if self.undecided else ""
        waited = f"L2 and L3 for {self.asked:,} that waited"
        return self.told(
            [
                f"  S1-S14 hold in each and in {self.checked:,} transactions; {waited};",
                f"  L1: all ends within {self.farthest} fair steps{undecided}",
            ]
        )


@dataclass(slots=True)
class _Keys:
    """States as bytes: each part is written as its number among its equals."""

    numbers: dict[object, int] = field(default_factory=dict[object, int])

    def of(self, state: State) -> bytes:
        numbers = self.numbers
        parts = [
            numbers.setdefault(state.vms, len(numbers)),
            numbers.setdefault(state.requests, len(numbers)),
            state.down
            | state.listening << 4
            | state.unpublished << 8
            | state.ahead << 12,
        ]
        parts += [numbers.setdefault(op, len(numbers)) for op in state.ops]
        return array("H", parts).tobytes()


class Search:
    """A search of one world."""

    def __init__(self, model: Model, *, limit: int = NO_LIMIT) -> None:
        """Search until `limit` states are known, or all are."""
        self.model = model
        self.limit = limit
        self.of_states = OfStates(model)
        self.of_steps = OfSteps(model)
        self.liveness = Liveness(model)
        self.report = Report(world=model.setting.name)
        self._keys = _Keys()
        self._known: dict[bytes, int] = {}
        self._reached = Reached()

    def run(self) -> Report:
        """Search, and report; the first broken invariant ends it."""
        clock, report = SystemClock(), self.report
        begun = clock.monotonic()
        try:
            with untraced():
                self._explore()
                if not self.model.setting.needs_operator:
                    self._all_end()
        except FoundError as error:
            report.found = error.found
        report.seconds = clock.monotonic() - begun
        report.states = len(self._known)
        report.checked = self.of_steps.checked
        report.asked = self.liveness.asked
        return report

    def _explore(self) -> None:
        first = self.model.first()
        self._add(self._keys.of(first), -1, 0)
        queue = deque([(0, first)])
        while queue and len(self._known) < self.limit:
            self._expand(*queue.popleft(), queue)
            self._reached.expanded += 1
        self.report.complete = not queue

    def _add(self, key: bytes, whence: int, by: int) -> int:
        number = self._known[key] = self._reached.add(whence, by)
        return number

    def _expand(
        self, number: int, state: State, queue: deque[tuple[int, State]]
    ) -> None:
        best = len(FAIR)
        for count, step in enumerate(self._steps(number, state)):
            after = step.after
            try:
                for part in step.parts:
                    self.of_steps.check(part)
                self.liveness.of_step(state, step)
                if after is state:
                    continue
                key = self._keys.of(after)
                known = self._known.get(key, -1)
                if known < 0:
                    known = self._add(key, number, count)
                    queue.append((known, after))
                    self.of_states.check(after)
                    self.liveness.of_state(after)
            except BrokenError as error:
                raise self._found(error.name, error.why, number, step) from error
            rank = RANK.get(step.label.what, best)
            if known != number and rank < best:
                best = rank
                self._reached.fair[number] = known
        if not any(state.ops):
            self._reached.fair[number] = ENDED

    def _steps(self, number: int, state: State) -> Iterator[Step]:
        try:
            for step in steps(self.model, state):
                self.report.steps += 1
                yield step
        except IllegalTransitionError as error:
            raise self._found("table", str(error), number, None) from error

    def _all_end(self) -> None:
        """L1: without approvals, cancellations and orders, all operations end."""
        try:
            self._reached.follow(self.report)
        except EndlessError as error:
            raise self._found("L1", error.why, error.number, None) from error

    def _found(self, name: str, why: str, number: int, last: Step | None) -> FoundError:
        way = self._reached.way_to(
            number,
            self.model.first(),
            lambda state: steps(self.model, state),
            lambda step: step.after,
        )
        trace = [tell(self.model, step) for step in way]
        if last is not None:
            trace.append(tell(self.model, last))
        return FoundError(Found(name=name, why=why, trace=tuple(trace)))
