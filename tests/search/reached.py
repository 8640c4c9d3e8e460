"""The shared part of the searches: reached states, and the ends of fair steps.

Breadth first, so that the first broken rule has the shortest trace. Of each state, by its
number, the state it was reached from and which of its steps led there are kept.
"""

import contextlib
import sys
from array import array
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import TypeVar

NOT_FAIR, ENDED = -2, -1
"""Mark of a state without a fair step: all operations have ended."""
NO_LIMIT = 1 << 40

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A broken rule, and the shortest way to it."""

    name: str
    why: str
    trace: tuple[str, ...]


class FoundError(Exception):
    """The search has found a broken rule."""

    def __init__(self, found: Found) -> None:
        super().__init__(found.name)
        self.found = found


class EndlessError(Exception):
    """The fair steps of a state do not lead to an end."""

    def __init__(self, why: str, number: int) -> None:
        super().__init__(why)
        self.why, self.number = why, number


@dataclass(slots=True, kw_only=True)
class Seen:
    """The states and steps that a search has reached."""

    world: str
    states: int = 0
    steps: int = 0
    seconds: float = 0
    complete: bool = False
    farthest: int = 0
    """Fair steps until all has ended, at the most."""
    undecided: int = 0
    """States whose fair end lies beyond the limit of the search."""
    found: Found | None = None

    def told(self, held: Iterable[str]) -> str:
        """Return what it says to a person; `held` says what was proven."""
        extent = "all of them" if self.complete else "no more were wanted"
        extent = f"{self.states:,} states, {extent}; {self.steps:,} steps"
        lines = [f"{self.world}: {extent}, {self.seconds:.1f} s"]
        if self.found is None:
            return "\n".join([*lines, *held])
        lines.append(f"  {self.found.name} broken: {self.found.why}; shortest way:")
        lines += [
            f"  {number:>2} {step}".rstrip()
            for number, step in enumerate(self.found.trace, start=1)
        ]
        return "\n".join(lines)


class Reached:
    """The states that a search has reached, by their numbers."""

    def __init__(self) -> None:
        # Whence each was reached, by which of the steps there, and where its first
        # fair step leads.
        self._from = array("i")
        self._by = array("H")
        self.fair = array("i")
        self.expanded = 0
        """States that were expanded; they are so in the order of their numbers."""

    def add(self, whence: int, by: int) -> int:
        """Add a state, and return its number."""
        self._from.append(whence)
        self._by.append(by)
        self.fair.append(NOT_FAIR)
        return len(self.fair) - 1

    def way_to(
        self,
        number: int,
        first: S,
        steps: Callable[[S], Iterable[T]],
        after: Callable[[T], S],
    ) -> list[T]:
        """Return the steps from the beginning to a state, by taking them again."""
        counts: list[int] = []
        while self._from[number] >= 0:
            counts.append(self._by[number])
            number = self._from[number]
        state = first
        way: list[T] = []
        for count in reversed(counts):
            step = list(steps(state))[count]
            way.append(step)
            state = after(step)
        return way

    def follow(self, seen: Seen) -> None:
        """Follow the fair steps of every state to the end; raises EndlessError.

        The schedule is fixed: what comes by itself, or is owed, comes before time passes.
        """
        lengths = array("i", [-1]) * len(self.fair)
        for number in range(self.expanded):
            path: list[int] = []
            on_path: set[int] = set()
            at = number
            while at >= 0 and lengths[at] < 0 and at < self.expanded:
                if at in on_path:
                    raise EndlessError("it goes round without an end", at)
                path.append(at)
                on_path.add(at)
                at = self.fair[at]
            if at == NOT_FAIR:
                raise EndlessError("nothing more comes", path[-1])
            length = 0 if at == ENDED else lengths[at] if at < self.expanded else -1
            if length < 0:
                seen.undecided += 1
                continue
            for state in reversed(path):
                length += 1
                lengths[state] = length
            seen.farthest = max(seen.farthest, length - 1)


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
