"""The search of visits: every state that the real service can reach, depth first.

Each step is taken in a forked process, which judges it and searches on from there. It
answers with the states that it has reached, so that no other process searches them.
"""

import os
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field

from forewarn.clock import SystemClock
from forewarn.protocol.errors import ForewarnError, IllegalTransitionError
from tests.search.reached import NO_LIMIT, Found
from tests.search.visits.service import FAIR, Label, Service
from tests.search.visits.settings import Setting

NOT_FAIR, ENDED = b"", b"-"
"""Mark of a state without a fair step: the campaign has ended."""
RANK = {what: rank for rank, what in enumerate(FAIR)}


@dataclass(slots=True)
class Answer:
    """The states and steps that one process has searched."""

    digest: bytes = b""
    """The state after its step."""
    fair: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])
    """Each state that was reached, with the state to which its first fair step leads;
    or ENDED or NOT_FAIR."""
    steps: int = 0
    found: Found | None = None


@dataclass(slots=True, kw_only=True)
class Report:
    """The states and steps that a search has reached."""

    world: str
    states: int
    steps: int
    seconds: float
    complete: bool
    farthest: int
    found: Found | None

    def __str__(self) -> str:
        """Return what it says to a person."""
        extent = "all of them" if self.complete else "no more were wanted"
        size = f"{self.states:,} states of the service, {extent}; {self.steps:,} steps"
        lines = [f"{self.world}: {size}, {self.seconds:.1f} s"]
        if self.found is None:
            lines.append(f"  all ends within {self.farthest} fair steps")
        else:
            lines.append(f"  {self.found.why}; after:")
            lines += [f"  {number:>2} {step}" for number, step in _told(self.found)]
        return "\n".join(lines)


def _told(found: Found) -> Iterator[tuple[int, str]]:
    return enumerate(found.trace, start=1)


class Search:
    """A search of one world."""

    def __init__(self, setting: Setting, *, limit: int = NO_LIMIT) -> None:
        """Search until `limit` states are known, or all are."""
        self.setting = setting
        self.limit = limit

    def run(self) -> Report:
        """Search, and report; the first broken rule ends it."""
        clock = SystemClock()
        begun = clock.monotonic()
        answer = Answer()
        known: set[bytes] = set()
        try:
            service = Service(self.setting)
            answer.digest = service.digest()
            known.add(answer.digest)
            self._expand(service, known, answer, ())
        except AssertionError as error:
            answer.found = _found(error, ())
        complete = len(known) < self.limit
        farthest = 0
        if answer.found is None:
            farthest, answer.found = _ends(answer.fair, is_complete=complete)
        return Report(
            world=self.setting.name,
            states=len(known),
            steps=answer.steps,
            seconds=clock.monotonic() - begun,
            complete=complete,
            farthest=farthest,
            found=answer.found,
        )

    def _expand(
        self,
        service: Service,
        known: set[bytes],
        answer: Answer,
        trace: tuple[str, ...],
    ) -> None:
        """Take each step that is possible, all but the last in processes."""
        here = service.digest()
        best = len(FAIR)
        is_over = service.is_over
        answer.fair[here] = ENDED if is_over else NOT_FAIR
        *others, last = (Label("crash"), *service.labels())
        for label in (*others, last):
            take = self._taken if label is last else self._forked
            after = take(service, label, known, trace)
            answer.steps += after.steps + 1
            answer.fair.update(after.fair)
            known.update(after.fair)
            if after.found is not None:
                answer.found = after.found
                return
            rank = RANK.get(label.what, best)
            if rank < best and after.digest != here and not is_over:
                best = rank
                answer.fair[here] = after.digest

    def _forked(
        self, service: Service, label: Label, known: set[bytes], trace: tuple[str, ...]
    ) -> Answer:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            try:
                os.close(reading)
                with os.fdopen(writing, "wb") as pipe:
                    pickle.dump(self._taken(service, label, known, trace), pipe)
            finally:
                # Skip the exit handlers of pytest: only the parent process runs them.
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            data = pipe.read()
        os.waitpid(child, 0)
        assert data, f"the process of {label} exited without a result: {trace}"
        return pickle.loads(data)

    def _taken(
        self, service: Service, label: Label, known: set[bytes], trace: tuple[str, ...]
    ) -> Answer:
        """Take a step; continue the search if its state is new."""
        answer = Answer()
        trace = (*trace, str(label))
        try:
            if label.what == "crash":
                _restart(service)
            else:
                service.act(label)
            answer.digest = service.digest()
            if answer.digest not in known and len(known) < self.limit:
                known.add(answer.digest)
                self._expand(service, known, answer, trace)
        except (AssertionError, ForewarnError) as error:
            answer.found = _found(error, trace)
        return answer


def _restart(service: Service) -> None:
    """K8: a service that starts again announces and starts nothing else."""
    before = service.told()
    service.restart()
    after = service.told()
    assert before == after, f"K8: a restart changes {before} to {after}"


def _found(error: Exception, trace: tuple[str, ...]) -> Found:
    why = str(error) or repr(error)
    if isinstance(error, IllegalTransitionError):
        why = f"table: {why}"
    return Found(name=why.partition(":")[0], why=why, trace=trace)


def _ends(fair: dict[bytes, bytes], *, is_complete: bool) -> tuple[int, Found | None]:
    """K7: from every state, what comes by itself or is owed leads to the end.

    Return the most steps that this takes; 0: the search is not complete.
    """
    lengths: dict[bytes, int] = {ENDED: 0}
    for first in fair:
        path: list[bytes] = []
        on_path: set[bytes] = set()
        at = first
        while at in fair and at not in lengths:
            if at in on_path:
                return 0, Found(name="K7", why="K7: it goes round", trace=())
            path.append(at)
            on_path.add(at)
            at = fair[at]
        if at not in lengths and is_complete:
            return 0, Found(name="K7", why="K7: nothing more comes", trace=())
        length = lengths.get(at, 0)
        for state in reversed(path):
            length += 1
            lengths[state] = length
    return max(lengths.values()) if is_complete else 0, None
