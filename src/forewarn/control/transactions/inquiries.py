"""Questions to the driver that can take seconds, and their answers.

`probe`, `observe` and `abort` of a driver can wait for a hypervisor that hangs. The plane
passes such a question to an `Inquirer`, continues with other work, and receives the
answer later as an input. The inquirer of the service has threads and deadlines. A
simulation answers at once, in the same order of effects.

A question is not durable. After a crash, the call is still `issued`, `probing` or
`overdue`, and the next start asks again.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from forewarn.drivers.port import (
    Call,
    Driver,
    Expected,
    HostVms,
    Observation,
    Probe,
    ProbeState,
    Report,
)
from forewarn.instants import MINUTE, Micros
from forewarn.protocol.abilities import Ability

ASK_AGAIN_AFTER: Micros = 10 * MINUTE
"""Time after which control asks again about a call that has timed out. An inquirer
answers each probe within its deadline, so this is only for a lost answer. A thousand
hanging probes, with a limited number in parallel, take less time than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeQuestion:
    """A question for the outcome of a call."""

    call: Call
    memory: str
    """Identity of the driver memory that got the call."""
    is_late: bool
    """Whether the call has timed out; otherwise the service has started."""

    @property
    def operation_id(self) -> str:
        """Return the operation or visit of the call."""
        return self.call.operation_id

    @property
    def generation(self) -> int:
        """Return the generation of the call."""
        return self.call.generation


@dataclass(frozen=True, slots=True, kw_only=True)
class LookQuestion:
    """A question for the host and state of the VMs of a reported call."""

    report: Report
    vms: tuple[str, ...]
    expected: Expected


@dataclass(frozen=True, slots=True, kw_only=True)
class StopQuestion:
    """A request to stop a call, if that is still possible."""

    operation_id: str
    generation: int
    is_late: bool
    """Whether the call has timed out, so that the answer decides its outcome. Otherwise
    the call is obsolete, and nothing depends on the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearQuestion:
    """A question whether VMs have left a host, before a visit begins its work."""

    visit_id: str
    host: str
    vms: tuple[str, ...]
    expected: Expected


@dataclass(frozen=True, slots=True, kw_only=True)
class AbilityQuestion:
    """A question for what can be done on some hosts and to their VMs."""

    hosts: tuple[HostVms, ...]


Question: TypeAlias = (
    ProbeQuestion | LookQuestion | StopQuestion | ClearQuestion | AbilityQuestion
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeAnswer:
    """The answer of the driver about a call."""

    question: ProbeQuestion
    probe: Probe


@dataclass(frozen=True, slots=True, kw_only=True)
class LookAnswer:
    """Observations of VMs; missing VMs were not observed."""

    question: LookQuestion
    seen: Mapping[str, Observation]


@dataclass(frozen=True, slots=True, kw_only=True)
class StopAnswer:
    """Whether the driver stopped a call."""

    question: StopQuestion
    is_stopped: bool
    reason: str = ""
    """Why the driver did not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearAnswer:
    """Whether no VM was observed running on the host."""

    question: ClearQuestion
    is_clear: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AbilityAnswer:
    """The answers of the driver, by host; missing hosts could not be asked."""

    question: AbilityQuestion
    told: Mapping[str, tuple[Ability, ...]]


CallAnswer: TypeAlias = ProbeAnswer | LookAnswer | StopAnswer | ClearAnswer
"""An answer that is about a call."""

Answer: TypeAlias = CallAnswer | AbilityAnswer


class Inquirer(Protocol):
    """Interface through which the plane asks a driver."""

    def ask(self, question: Question, *, now: Micros) -> None:
        """Take a question and return at once; the answer follows."""
        ...

    def answers(self) -> Sequence[Answer]:
        """Return the answers that arrived since the last call of this method."""
        ...


class DirectInquirer:
    """Asks at once in the thread of the caller, for drivers that never block."""

    def __init__(self, driver: Driver) -> None:
        """Ask `driver`."""
        self._driver = driver
        self._answers: deque[Answer] = deque()

    def ask(self, question: Question, *, now: Micros) -> None:
        """Ask the driver and keep its answer."""
        self._answers.append(answer_of(self._driver, question, now=now))

    def answers(self) -> Sequence[Answer]:
        """Return the answers that arrived since the last call of this method."""
        taken = tuple(self._answers)
        self._answers.clear()
        return taken


def answer_of(driver: Driver, question: Question, *, now: Micros) -> Answer:
    """Ask the driver and return its answer. This can take long."""
    if isinstance(question, LookQuestion):
        return LookAnswer(
            question=question, seen=driver.observe(question.vms, question.expected)
        )
    if isinstance(question, AbilityQuestion):
        return AbilityAnswer(question=question, told=driver.abilities(question.hosts))
    if isinstance(question, ClearQuestion):
        sightings = driver.observe(question.vms, question.expected).values()
        is_there = any(
            observation.running and observation.host == question.host
            for observation in sightings
        )
        return ClearAnswer(question=question, is_clear=not is_there)
    if isinstance(question, StopQuestion):
        name = question.operation_id, question.generation
        return StopAnswer(question=question, is_stopped=driver.abort(*name, now=now))
    return ProbeAnswer(
        question=question,
        probe=driver.probe(question.call, now=now, memory=question.memory),
    )


def no_answer(question: Question, reason: str) -> Answer:
    """Return the answer that stands for a driver that did not answer."""
    if isinstance(question, LookQuestion):
        return LookAnswer(question=question, seen={})
    if isinstance(question, AbilityQuestion):
        return AbilityAnswer(question=question, told={})
    if isinstance(question, ClearQuestion):
        return ClearAnswer(question=question, is_clear=False)
    if isinstance(question, StopQuestion):
        return StopAnswer(question=question, is_stopped=False, reason=reason)
    return ProbeAnswer(
        question=question, probe=Probe(state=ProbeState.UNKNOWN, reason=reason)
    )
