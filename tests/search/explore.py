"""The search: every state that can be reached, the shortest way to each.

Breadth first, so that the first broken invariant has the shortest trace. States
are kept as bytes of the numbers of their parts; of each one, the state it was
reached from and which of its steps led there.
"""

import contextlib
import sys
from array import array
from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field

from forewarn.clock import SystemClock
from forewarn.protocol.errors import IllegalTransitionError
from tests.search.forward import OfSteps
from tests.search.invariants import BrokenError, OfStates
from tests.search.liveness import Liveness
from tests.search.model import Model
from tests.search.state import State
from tests.search.steps import FAIR, Step, steps
from tests.search.words import tell

NOT_FAIR, ENDED = -2, -1
"""Of a state: no fair step leads on; all operations have ended."""
NO_LIMIT = 1 << 40
RANK = {what: rank for rank, what in enumerate(FAIR)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A broken invariant, and the shortest way to it."""

    name: str
    why: str
    trace: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class Report:
    """What a search has seen."""

    world: str
    states: int = 0
    steps: int = 0
    seconds: float = 0
    complete: bool = False
    checked: int = 0
    """Transactions and effects that were judged."""
    asked: int = 0
    """Operations that were found waiting and had to have a reason (L2, L3)."""
    farthest: int = 0
    """Fair steps until all operations have ended, at the most (L1)."""
    undecided: int = 0
    """States whose fair end lies beyond the limit of the search."""
    found: Found | None = None

    def __str__(self) -> str:
        """Return what it says to a person."""
        extent = "all of them" if self.complete else "no more were wanted"
        undecided = f" ({self.undecided:,} not decided)" if self.undecided else ""
        extent = f"{self.states:,} states, {extent}; {self.steps:,} steps"
        waited = f"L2 and L3 for {self.asked:,} that waited"
        lines = [
            f"{self.world}: {extent}, {self.seconds:.1f} s",
            f"  S1-S14 hold in each and in {self.checked:,} transactions; {waited};",
            f"  L1: all ends within {self.farthest} fair steps{undecided}",
        ]
        if self.found:
            lines[1:] = [f"  {self.found.name} broken: {self.found.why}; shortest way:"]
            lines += [
                f"  {number:>2} {step}".rstrip()
                for number, step in enumerate(self.found.trace, start=1)
            ]
        return "\n".join(lines)


class _FoundError(Exception):
    def __init__(self, found: Found) -> None:
        super().__init__(found.name)
        self.found = found


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


@contextlib.contextmanager
def untraced() -> Generator[None]:
    """Let no tracer look on: it would take half of the time and learn nothing.

    What the search runs of the product is run by other tests; and it runs each
    question once, since it remembers the answers.
    """
    tracer = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(tracer)


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
        # Of each state by its number: whence it was reached, by which of the
        # steps there, and where its first fair step leads.
        self._from = array("i")
        self._by = array("H")
        self._fair = array("i")
        self._expanded = 0
        """States that were expanded; they are so in the order of their numbers."""

    def run(self) -> Report:
        """Search, and report; the first broken invariant ends it."""
        clock, report = SystemClock(), self.report
        begun = clock.monotonic()
        try:
            with untraced():
                self._explore()
                if not self.model.setting.needs_operator:
                    self._all_end()
        except _FoundError as error:
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
            self._expanded += 1
        self.report.complete = not queue

    def _add(self, key: bytes, whence: int, by: int) -> int:
        number = self._known[key] = len(self._known)
        self._from.append(whence)
        self._by.append(by)
        self._fair.append(NOT_FAIR)
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
                self._fair[number] = known
        if not any(state.ops):
            self._fair[number] = ENDED

    def _steps(self, number: int, state: State) -> Iterator[Step]:
        try:
            for step in steps(self.model, state):
                self.report.steps += 1
                yield step
        except IllegalTransitionError as error:
            raise self._found("table", str(error), number, None) from error

    # L1

    def _all_end(self) -> None:
        """Follow the fair steps of every state to the end of all operations.

        The schedule is fixed: what comes by itself, or is owed, comes before
        time passes; nobody approves, nobody cancels, nothing is ordered.
        """
        expanded = self._expanded
        lengths = array("i", [-1]) * len(self._known)
        for number in range(expanded):
            path: list[int] = []
            on_path: set[int] = set()
            at = number
            while at >= 0 and lengths[at] < 0 and at < expanded:
                if at in on_path:
                    raise self._found("L1", "it goes round for ever", at, None)
                path.append(at)
                on_path.add(at)
                at = self._fair[at]
            if at == NOT_FAIR:
                raise self._found("L1", "nothing more comes", path[-1], None)
            length = 0 if at == ENDED else lengths[at] if at < expanded else -1
            if length < 0:
                self.report.undecided += 1
                continue
            for each in reversed(path):
                length += 1
                lengths[each] = length
            self.report.farthest = max(self.report.farthest, length - 1)

    def _found(
        self, name: str, why: str, number: int, last: Step | None
    ) -> _FoundError:
        trace = [tell(self.model, step) for step in self._way_to(number)]
        if last is not None:
            trace.append(tell(self.model, last))
        return _FoundError(Found(name=name, why=why, trace=tuple(trace)))

    def _way_to(self, number: int) -> list[Step]:
        """Return the steps from the beginning to a state, by taking them again."""
        counts: list[int] = []
        while self._from[number] >= 0:
            counts.append(self._by[number])
            number = self._from[number]
        state = self.model.first()
        way: list[Step] = []
        for count in reversed(counts):
            taken = list(steps(self.model, state))
            way.append(taken[count])
            state = taken[count].after
        return way
