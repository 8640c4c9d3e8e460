"""Questions to the driver that may take seconds, and their answers.

`probe`, `observe` and `abort` of a driver may wait for a hypervisor that hangs. The plane
hands such a question to an `Inquirer`, goes on with other work, and takes the
answer later as an input. In the service the inquirer has threads and deadlines; a
simulation answers at once, in the same order of effects.

A question is not durable. After a crash the call is still `issued`, `probing` or
`overdue`, and the next start asks again.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from forewarn.drivers.port import Driver, Observation, Probe, ProbeState, Report
from forewarn.instants import MINUTE, Micros

ASK_AGAIN_AFTER: Micros = 10 * MINUTE
"""When control asks again after a call that has timed out, if no answer has come. An inquirer
answers each probe within its deadline, so this heals only an answer that was lost;
it is longer than some thousand hanging probes take with a bounded number at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeQuestion:
    """What became of a call?"""

    operation_id: str
    generation: int
    memory: str
    """The identity of the driver's memory that the call was given to."""
    is_late: bool
    """The call has timed out; otherwise the service has started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LookQuestion:
    """Where are the VMs of a call that was reported, and do they run?"""

    report: Report
    vms: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StopQuestion:
    """Can a call still be stopped? If so, the driver stops it."""

    operation_id: str
    generation: int
    is_late: bool
    """The call has timed out, and the answer decides what becomes of it. Otherwise the
    call has lost its meaning, and nothing depends on the answer."""


Question: TypeAlias = ProbeQuestion | LookQuestion | StopQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeAnswer:
    """What the driver knows of a call."""

    question: ProbeQuestion
    probe: Probe


@dataclass(frozen=True, slots=True, kw_only=True)
class LookAnswer:
    """What the driver sees of VMs; nothing of those that are missing."""

    question: LookQuestion
    seen: Mapping[str, Observation]


@dataclass(frozen=True, slots=True, kw_only=True)
class StopAnswer:
    """Whether the driver stopped a call."""

    question: StopQuestion
    is_stopped: bool
    reason: str = ""
    """Why the driver gave no answer."""


Answer: TypeAlias = ProbeAnswer | LookAnswer | StopAnswer


class Inquirer(Protocol):
    """Asks a driver on behalf of the plane."""

    def ask(self, question: Question, *, now: Micros) -> None:
        """Take a question; the answer follows. Return at once."""
        ...

    def answers(self) -> Sequence[Answer]:
        """Return the answers that have come since the last call."""
        ...


class DirectInquirer:
    """Asks at once and in the caller's thread: for drivers that never wait."""

    def __init__(self, driver: Driver) -> None:
        """Ask `driver`."""
        self._driver = driver
        self._answers: deque[Answer] = deque()

    def ask(self, question: Question, *, now: Micros) -> None:
        """Ask the driver, and keep its answer."""
        self._answers.append(answer_of(self._driver, question, now=now))

    def answers(self) -> Sequence[Answer]:
        """Return what was answered."""
        taken = tuple(self._answers)
        self._answers.clear()
        return taken


def answer_of(driver: Driver, question: Question, *, now: Micros) -> Answer:
    """Return the driver's answer, however long it takes."""
    if isinstance(question, LookQuestion):
        return LookAnswer(question=question, seen=driver.observe(question.vms))
    name = question.operation_id, question.generation
    if isinstance(question, StopQuestion):
        return StopAnswer(question=question, is_stopped=driver.abort(*name, now=now))
    probe = driver.probe(*name, now=now, memory=question.memory)
    return ProbeAnswer(question=question, probe=probe)


def no_answer(question: Question, reason: str) -> Answer:
    """Return what counts as the answer of a driver that gave none."""
    if isinstance(question, LookQuestion):
        return LookAnswer(question=question, seen={})
    if isinstance(question, StopQuestion):
        return StopAnswer(question=question, is_stopped=False, reason=reason)
    probe = Probe(state=ProbeState.UNKNOWN, reason=reason)
    return ProbeAnswer(question=question, probe=probe)
