"""The search: every state that can be reached, the shortest way to each.

Breadth first, so that the first broken invariant has the shortest trace. States
are kept as bytes of the numbers of their parts; of each one, the state it was
reached from and which of its steps led there.
"""

from array import array
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from forewarn.clock import SystemClock
from forewarn.protocol.errors import IllegalTransitionError
from tests.search.invariants import BrokenError, Invariants
from tests.search.liveness import Liveness
from tests.search.model import Model
from tests.search.state import State
from tests.search.steps import FAIR, Step, steps

UNENDED, ENDED = -2, -1
NO_LIMIT = 1 << 40


@dataclass(slots=True)
class Found:
    """A broken invariant, and the shortest way to it."""

    name: str
    why: str
    trace: list[str]


@dataclass(slots=True, kw_only=True)
class Report:
    """What a search has seen."""

    world: str
    states: int = 0
    steps: int = 0
    seconds: float = 0
    complete: bool = False
    state_checks: int = 0
    step_checks: int = 0
    farthest: int = 0
    """Fair steps until all operations have ended, at the most (L1)."""
    undecided: int = 0
    """States whose fair end lies beyond the limit of the search."""
    found: Found | None = None

    def __str__(self) -> str:
        """Return a line for a person."""
        line = (
            f"{self.world}: {self.states:,} states, {self.steps:,} steps, "
            f"{self.seconds:.1f} s, {'all' if self.complete else 'not all'} of it; "
            f"{self.state_checks:,} states and {self.step_checks:,} transactions "
            f"checked; ends within {self.farthest} fair steps"
        )
        if self.undecided:
            line += f" ({self.undecided:,} beyond the limit)"
        if self.found:
            said = "\n".join(f"  {step}" for step in self.found.trace)
            line += f"\n{self.found.name}: {self.found.why}, after\n{said}"
        return line


@dataclass(slots=True)
class Keys:
    """States as bytes: each part is written as its number among its equals."""

    numbers: dict[object, int] = field(default_factory=dict[object, int])

    def of(self, state: State) -> bytes:
        """Return the key of a state, the same for equal ones."""
        numbers = self.numbers
        parts: list[int] = [
            numbers.setdefault(state.vms, len(numbers)),
            numbers.setdefault(state.requests, len(numbers)),
            state.down | state.listening << 4 | state.unpublished << 8,
        ]
        parts += [numbers.setdefault(op, len(numbers)) for op in state.ops]
        return array("H", parts).tobytes()


class Search:
    """A search of one world."""

    def __init__(self, model: Model, *, limit: int = NO_LIMIT) -> None:
        """Search until `limit` states are known."""
        self.model = model
        self.limit = limit
        self.invariants = Invariants(model)
        self.liveness = Liveness(model)
        self.report = Report(world=model.setting.name)
        self._known: dict[bytes, int] = {}
        self._keys = Keys()
        self._from = array("i")
        self._by = array("H")
        self._fair = array("i")

    def run(self) -> Report:
        """Search, and report; the first broken invariant ends it."""
        clock = SystemClock()
        begun = clock.monotonic()
        try:
            self._explore()
            self._all_end()
        except _FoundError as found:
            self.report.found = found.found
        report = self.report
        report.seconds = (clock.monotonic() - begun) / 1e6
        report.states = len(self._known)
        report.state_checks = self.invariants.checked_states
        report.step_checks = self.invariants.checked_parts
        return report

    def _explore(self) -> None:
        first = self.model.first()
        self._known[self._keys.of(first)] = 0
        self._from.append(-1)
        self._by.append(0)
        self._fair.append(UNENDED)
        queue = deque([(0, first)])
        while queue and len(self._known) < self.limit:
            number, state = queue.popleft()
            self._expand(number, state, queue)
        self.report.complete = not queue

    def _expand(
        self, number: int, state: State, queue: deque[tuple[int, State]]
    ) -> None:
        rank = len(FAIR)
        with self._telling(number, None):
            self.liveness.of_state(state)
        taken = steps(self.model, state)
        for count in range(1 << 16):
            with self._telling(number, None):
                step = next(taken, None)
            if step is None:
                break
            self.report.steps += 1
            after = step.after
            for part in step.parts:
                try:
                    self.invariants.of_part(part)
                except BrokenError as error:
                    raise self._found(error, number, step) from error
            if after is state:
                continue
            key = self._keys.of(after)
            known = self._known.get(key)
            if known is None:
                known = self._known[key] = len(self._known)
                self._from.append(number)
                self._by.append(count)
                self._fair.append(UNENDED)
                try:
                    self.invariants.of_state(after)
                except BrokenError as error:
                    raise self._found(error, number, step) from error
                queue.append((known, after))
            if known != number and step.label.what in FAIR[:rank]:
                rank = FAIR.index(step.label.what)
                self._fair[number] = known
        if not any(state.ops):
            self._fair[number] = ENDED
