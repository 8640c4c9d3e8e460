"""The search of campaigns: every state that can be reached, the shortest way to each."""

from array import array
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from forewarn.clock import SystemClock
from forewarn.protocol.errors import IllegalTransitionError
from tests.search.campaigns.model import Model
from tests.search.campaigns.state import State, told
from tests.search.campaigns.transactions import ALL_OPERATORS, Step, is_over, steps
from tests.search.campaigns.watch import Watch
from tests.search.explore import ENDED, NO_LIMIT, NOT_FAIR, Found, untraced
from tests.search.invariants import BrokenError

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
"""Steps that come by themselves, or that somebody owes; the first comes first (K7)."""
RANK = {what: rank for rank, what in enumerate(FAIR)}


@dataclass(slots=True, kw_only=True)
class Report:
    """What a search of a campaign has seen."""

    world: str
    states: int = 0
    steps: int = 0
    seconds: float = 0
    complete: bool = False
    farthest: int = 0
    """Fair steps until the campaign has ended, at the most (K7)."""
    undecided: int = 0
    """States whose end lies beyond the limit of the search."""
    found: Found | None = None

    def __str__(self) -> str:
        """Return what it says to a person."""
        extent = "all of them" if self.complete else "no more were wanted"
        seen = f"{self.states:,} states, {extent}; {self.steps:,} steps"
        lines = [f"{self.world}: {seen}, {self.seconds:.1f} s"]
        if self.found is None:
            lines.append(
                f"  K1-K10 hold in each; all ends within {self.farthest} fair steps "
                f"({self.undecided:,} not decided)"
            )
        else:
            lines.append(f"  {self.found.name} broken: {self.found.why}; shortest way:")
            lines += [f"  {n:>2} {each}" for n, each in enumerate(self.found.trace, 1)]
        return "\n".join(lines)


class _FoundError(Exception):
    def __init__(self, found: Found) -> None:
        super().__init__(found.name)
        self.found = found


class Search:
    """A search of one world with a campaign."""

    def __init__(self, model: Model, *, limit: int = NO_LIMIT) -> None:
        """Search until `limit` states are known, or all are."""
        self.model = model
        self.limit = limit
        self.watch = Watch(model)
        self.report = Report(world=model.setting.name)
        self._known: dict[State, int] = {}
        self._from = array("i")
        self._by = array("H")
        self._fair = array("i")
        self._expanded = 0

    def run(self) -> Report:
        """Search, and report; the first broken rule ends it."""
        clock, report = SystemClock(), self.report
        begun = clock.monotonic()
        try:
            with untraced():
                self._explore()
                self._all_end()
        except _FoundError as error:
            report.found = error.found
        report.seconds = clock.monotonic() - begun
        report.states = len(self._known)
        return report

    def _explore(self) -> None:
        first = self.model.first()
        self._add(first, -1, 0)
        queue = deque([first])
        while queue and len(self._known) < self.limit:
            self._expand(self._expanded, queue.popleft(), queue)
            self._expanded += 1
        self.report.complete = not queue

    def _add(self, state: State, whence: int, by: int) -> int:
        number = self._known[state] = len(self._known)
        self._from.append(whence)
        self._by.append(by)
        self._fair.append(NOT_FAIR)
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
                self._fair[number] = known
        if is_over(state.course, state):
            self._fair[number] = ENDED

    def _steps(self, number: int, state: State) -> Iterator[Step]:
        try:
            for step in steps(self.model, state):
                self.report.steps += 1
                yield step
        except IllegalTransitionError as error:
            raise self._found("table", str(error), number, None) from error

    def _all_end(self) -> None:
        """K7: follow the fair steps of every state to the end of the campaign."""
        expanded = self._expanded
        lengths = array("i", [-1]) * len(self._known)
        for number in range(expanded):
            path: list[int] = []
            on_path: set[int] = set()
            at = number
            while at >= 0 and lengths[at] < 0 and at < expanded:
                if at in on_path:
                    raise self._found("K7", "it goes round for ever", at, None)
                path.append(at)
                on_path.add(at)
                at = self._fair[at]
            if at == NOT_FAIR:
                raise self._found("K7", "nothing more comes", path[-1], None)
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
        way = [*self._way_to(number), *([] if last is None else [last])]
        trace = tuple(f"{step.label}: {told(step.after)}" for step in way)
        return _FoundError(Found(name=name, why=why, trace=trace))

    def _way_to(self, number: int) -> list[Step]:
        """Return the steps from the beginning to a state, by taking them again."""
        counts: list[int] = []
        while self._from[number] >= 0:
            counts.append(self._by[number])
            number = self._from[number]
        state = self.model.first()
        way: list[Step] = []
        for count in reversed(counts):
            step = list(steps(self.model, state))[count]
            way.append(step)
            state = step.after
        return way
