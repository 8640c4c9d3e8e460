"""The link between the plane and its driver.

After each commit, the link stops obsolete calls, makes the calls that became durable as
soon as their gate is open (`call_gate`), and asks the questions. Reports, answers and failed calls are processed in their own
transactions, one after the other.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import islice, takewhile
from typing import Protocol, TypeAlias, TypeVar

from forewarn.control.ability_link import AbilityLink
from forewarn.control.call_gate import CallGate, HeldCalls
from forewarn.control.execution import calls, visit_calls, visits
from forewarn.control.requests import outcome
from forewarn.control.rules.abilities import Abilities
from forewarn.control.rules.policy import Policy
from forewarn.control.rules.sightings import Seen
from forewarn.control.rules.together import count_apart
from forewarn.control.sighting_link import SightingLink
from forewarn.control.transactions import batch
from forewarn.control.transactions.batch import RunSome, Step
from forewarn.control.transactions.inquiries import (
    AbilityAnswer,
    CallAnswer,
    ClearAnswer,
    DirectInquirer,
    Inquirer,
    LookAnswer,
    LookQuestion,
    ProbeAnswer,
    ProbeQuestion,
    StopAnswer,
    StopQuestion,
)
from forewarn.control.transactions.work import Effects, Work
from forewarn.drivers.port import (
    Call,
    Driver,
    DriverError,
    OutcomeUnknownError,
    Probe,
    ProbeState,
    Report,
    hosts_of,
)
from forewarn.instants import Micros
from forewarn.protocol.blockers import CallEnd, Trouble
from forewarn.protocol.operations import CallState, Operation
from forewarn.protocol.visits import Visit, is_visit_id
from forewarn.store import kinds
from forewarn.store.port import Store, every, latest
from forewarn.store.records import LEADER_KEY, Leader
from forewarn.store.sequence import name_of_store

T = TypeVar("T")

Run: TypeAlias = Callable[[Step, Micros], object]
"""Runs a decision on behalf of the driver in a transaction, with its follow-ups."""


_End: TypeAlias = tuple[Callable[[Work, str, int, CallEnd], None], str, int, CallEnd]
"""A decision for the end of a call, the operation ID, the generation, and the end."""


class _Deciding(Protocol):
    """The decisions about the calls of operations, or about those of visits."""

    def ask_after(
        self, work: Work, name: str, generation: int, /, *, is_late: bool
    ) -> None:
        """Ask the driver for the outcome of a call."""
        ...

    def go_on(self, work: Work, question: ProbeQuestion, /, *, is_begun: bool) -> None:
        """Wait for the report of a running call, or make it."""
        ...

    def call_not_made(
        self, work: Work, name: str, generation: int, end: CallEnd, /
    ) -> None:
        """Process a call that the driver did not accept."""
        ...

    def mark_unknown(
        self, work: Work, name: str, generation: int, end: CallEnd, /
    ) -> None:
        """Record that the outcome of a call is unknown."""
        ...


def _deciding(name: str) -> _Deciding:
    """Return the decisions about a call, by the ID in its name."""
    return visit_calls if is_visit_id(name) else outcome


LOOKED_AT_TOGETHER = 32
"""Maximum reports whose VMs are observed before one of them is accepted."""

DUE_TOGETHER = 32
"""Maximum visits whose timers are read at once. Each then takes a transaction."""


class DriverLink:
    """Calls one driver, asks it, and processes its results."""

    def __init__(
        self,
        driver: Driver,
        *,
        inquirer: Inquirer | None,
        store: Store,
        policy: Policy,
        run: Run,
        run_some: RunSome,
        checkpoint: Callable[[str], None],
        gate: CallGate,
    ) -> None:
        """Use `driver`, and begin calls through `gate`.

        Without an `inquirer`, the driver is asked in the thread of the caller.
        """
        self._driver = driver
        self._inquirer = inquirer or DirectInquirer(driver)
        self._store = store
        self._run, self._run_some = run, run_some
        self._checkpoint = checkpoint
        self._held = HeldCalls(gate)
        self._is_shared = gate.is_shared
        self._store_name = ""
        """The name of the store in marks; empty: it was not read yet, or has no secret."""
        self._answers: deque[CallAnswer] = deque()
        self._reports: deque[Report] = deque()
        self._ends: deque[_End] = deque()
        self._due: dict[str, Visit] = {}
        """Visits whose timers are due."""
        self._sightings = SightingLink(driver, store=store, policy=policy, run=run)
        self.abilities = AbilityLink(
            driver, inquirer=self._inquirer, store=store, run=run
        )

    def supported(self) -> Abilities:
        """Return what the driver as a whole can do."""
        return Abilities(
            actions=self._driver.actions(), host_steps=self._driver.host_steps()
        )

    # Effects of a commit

    def follow(self, effects: Effects, now: Micros, *, term: int) -> None:
        """Run the driver effects of a transaction that was committed in `term`."""
        for operation_id, generation in effects.aborts:
            self._held.drop(operation_id, generation)
            self._stop(operation_id, generation, is_late=False, now=now)
        for call in effects.calls:
            self._held.add(self._with_term(call, term) if self._is_shared else call)
        if effects.calls:
            self.begin_ready(now)
        for question in effects.questions:
            self._inquirer.ask(question, now=now)
            self._checkpoint("asked")
        self.abilities.want(effects.arrivals)

    def _with_term(self, call: Call, term: int) -> Call:
        """Return a call with the term and the store, for its marks."""
        if not self._store_name:
            leader = latest(self._store, lambda reader: reader.get(Leader, LEADER_KEY))
            self._store_name = "" if leader is None else name_of_store(leader.secret)
        if not self._store_name:
            return call
        return replace(call, term=term, store=self._store_name)

    def begin_ready(self, now: Micros) -> None:
        """Make the calls whose documents are served everywhere, and no others."""
        for call in self._held.ready():
            self._begin(call, now)
            self._checkpoint("called")

    def _begin(self, call: Call, now: Micros) -> None:
        name = call.operation_id, call.generation
        try:
            self._driver.begin(call, now=now)
        except DriverError as error:
            is_unknown = isinstance(error, OutcomeUnknownError)
            deciding = _deciding(call.operation_id)
            decide = deciding.mark_unknown if is_unknown else deciding.call_not_made
            self._ends.append((decide, *name, CallEnd(said=error.message)))

    def ask_after(self, caller: Operation | Visit, *, late: bool, now: Micros) -> None:
        """Ask the driver for the outcome of a call, after a crash or a timeout."""
        name, generation, kind = caller.key, caller.generation, self._driver.kind
        # If it has not been made, the answer decides whether it still will be.
        self._held.drop(name, generation)
        deciding = _deciding(name)
        if caller.driver not in {"", kind}:
            # This driver never got the call. The other driver can still work on it.
            end = CallEnd(
                trouble=Trouble.OTHER_DRIVER, given_to=caller.driver, driver=kind
            )
            self._take_end(deciding.mark_unknown, name, generation, end, now)
            return
        self._run(
            lambda work: deciding.ask_after(work, name, generation, is_late=late), now
        )

    def resume(self, *, now: Micros) -> None:
        """Ask for the outcome of the host steps that the last process began.

        The driver is also asked what can be done on each host.
        """
        self.abilities.want_all()
        visits = latest(
            self._store, lambda reader: list(every(reader, kinds.OPEN_VISITS))
        )
        for visit in visits:
            if visit.call_state is not CallState.NONE:
                late = visit.call_state is CallState.OVERDUE
                self.ask_after(visit, late=late, now=now)

    # Results

    def collect(self, *, now: Micros) -> None:
        """Begin calls that waited; collect the reports and sightings of the driver."""
        self.begin_ready(now)
        self._reports.extend(self._driver.reports(now=now))
        self._sightings.collect(now=now)
        self.abilities.collect(now=now)
        self._due.update(
            latest(
                self._store,
                lambda reader: {
                    visit.visit_id: visit
                    for visit in reader.due(kinds.VISITS_DUE, now, limit=DUE_TOGETHER)
                },
            )
        )

    def next_due(self) -> Micros | None:
        """Return the time of the next expected report, or confirmation of a sighting."""
        instants = (
            self._driver.next_report_at(),
            self._sightings.next_due(),
            self.abilities.next_due(),
        )
        return min(
            (instant for instant in instants if instant is not None), default=None
        )

    def seen(self) -> Seen:
        """Return what is seen of VMs and not recorded; any thread may call this."""
        return self._sightings.seen

    def has_more(self) -> bool:
        """Return whether results are waiting."""
        self._take_answers()
        waiting = self._answers, self._reports, self._ends, self._due
        return any(waiting) or self._sightings.has_more() or self.abilities.has_more()

    def take_one(self, now: Micros) -> bool:
        """Process one result; return whether it needed a transaction.

        A result that cannot be processed, for example because the store is locked, is
        kept.
        """
        self._take_answers()
        answer = self._answers[0] if self._answers else None
        if isinstance(answer, LookAnswer):
            for _ in range(self._run_some(self._first_looks(), now)):
                self._answers.popleft()
        elif answer is not None:
            self._take_answer(answer, now)
            self._answers.popleft()
        elif self._reports:
            return self._look_at_reports(now)
        elif self._ends:
            _take(self._ends, lambda end: self._take_end(*end, now))
        elif self._due:
            visit = self._due[next(iter(self._due))]
            self._take_due(visit, now)
            del self._due[visit.visit_id]
        elif self._sightings.has_more():
            return self._sightings.take_one(now)
        elif self.abilities.has_more():
            return self.abilities.take_one(now)
        else:
            return False
        return True

    def _take_end(
        self,
        decide: Callable[[Work, str, int, CallEnd], None],
        operation_id: str,
        generation: int,
        end: CallEnd,
        now: Micros,
    ) -> None:
        self._run(lambda work: decide(work, operation_id, generation, end), now)

    def _take_due(self, visit: Visit, now: Micros) -> None:
        """Process the timer of a visit."""
        if visit.call_state is CallState.NONE:
            self._run(lambda work: visit_calls.due(work, visit.visit_id), now)
        else:
            self.ask_after(visit, late=True, now=now)

    def _first_looks(self) -> list[Step]:
        """Return the decisions about the first reports whose VMs were observed."""
        some = islice(self._answers, batch.TOGETHER_MAX)
        looks = takewhile(lambda answer: isinstance(answer, LookAnswer), some)
        first = [
            (answer.question.report, answer.seen)
            for answer in looks
            if isinstance(answer, LookAnswer)
        ]
        sightings = latest(
            self._store,
            lambda reader: [
                reader.get(Operation, report.operation_id) for report, _ in first
            ],
        )
        return [
            partial(outcome.take_report, report=report, observed=seen)
            for report, seen in first[: count_apart(sightings)]
        ]

    def _look_at_reports(self, now: Micros) -> bool:
        """Process the report of a visit, or let the VMs of the first others be observed.

        Return whether it needed a transaction.
        """
        if is_visit_id(self._reports[0].operation_id):
            _take(self._reports, lambda report: self._take_visit_report(report, now))
            return True
        for _ in range(min(len(self._reports), LOOKED_AT_TOGETHER)):
            if is_visit_id(self._reports[0].operation_id):
                break
            _take(self._reports, lambda report: self._look_at(report, now))
        return False

    def _take_visit_report(self, report: Report, now: Micros) -> None:
        self._run(lambda work: visit_calls.take_report(work, report), now)

    def _look_at(self, report: Report, now: Micros) -> None:
        """Observe the VMs of a call before its report is accepted."""
        operation = latest(
            self._store, lambda reader: reader.get(Operation, report.operation_id)
        )
        if operation is None:
            return
        expected = {
            move.vm: hosts_of(
                report.result_of(move.vm).host, move.to_host, operation.host
            )
            for move in calls.current_moves(operation)
        }
        question = LookQuestion(report=report, vms=tuple(expected), expected=expected)
        self._inquirer.ask(question, now=now)

    def _stop(
        self, operation_id: str, generation: int, *, is_late: bool, now: Micros
    ) -> None:
        question = StopQuestion(
            operation_id=operation_id, generation=generation, is_late=is_late
        )
        self._inquirer.ask(question, now=now)

    def _take_answers(self) -> None:
        """Collect the answers, except those that have no effect."""
        for answer in self._inquirer.answers():
            if isinstance(answer, AbilityAnswer):
                self.abilities.take(answer)
            elif not isinstance(answer, StopAnswer) or answer.question.is_late:
                self._answers.append(answer)

    def _take_answer(
        self, answer: ProbeAnswer | StopAnswer | ClearAnswer, now: Micros
    ) -> None:
        if isinstance(answer, ProbeAnswer):
            self._take_probe(answer.question, answer.probe, now)
            return
        if isinstance(answer, StopAnswer):
            self._take_stop(answer, now)
            return
        asked, is_clear = answer.question, answer.is_clear
        self._run(lambda work: visits.take_clear(work, asked, is_clear=is_clear), now)

    def _take_probe(self, question: ProbeQuestion, probe: Probe, now: Micros) -> None:
        """Process what the driver knows about a call."""
        name = question.operation_id, question.generation
        deciding = _deciding(question.operation_id)
        if probe.report is not None:
            self._reports.append(probe.report)
            return
        match probe.state:
            case ProbeState.NOT_STARTED if self._may_come_late(question):
                end = CallEnd(trouble=Trouble.MAY_COME_LATE)
                self._take_end(deciding.mark_unknown, *name, end, now)
            case ProbeState.NOT_STARTED if question.is_late:
                self._ends.append(
                    (deciding.call_not_made, *name, CallEnd(trouble=Trouble.UNSTARTED))
                )
            case ProbeState.NOT_STARTED:
                self._run(
                    lambda work: deciding.go_on(work, question, is_begun=False), now
                )
            case ProbeState.RUNNING if not question.is_late:
                self._run(
                    lambda work: deciding.go_on(work, question, is_begun=True), now
                )
            case ProbeState.RUNNING:
                self._stop(*name, is_late=True, now=now)
            case _:
                trouble = None if probe.reason else Trouble.NOT_KNOWN
                end = CallEnd(trouble=trouble, said=probe.reason)
                self._take_end(deciding.mark_unknown, *name, end, now)

    def _may_come_late(self, question: ProbeQuestion) -> bool:
        """Return whether another replica can still make a call that it got.

        Its process can be paused just before the call, for longer than its lease. A mark
        shows only that it has not made the call yet.
        """
        return self._is_shared and question.memory != self._driver.memory

    def _take_stop(self, answer: StopAnswer, now: Micros) -> None:
        """Process whether a call that timed out was stopped."""
        name = answer.question.operation_id, answer.question.generation
        deciding = _deciding(answer.question.operation_id)
        if answer.is_stopped:
            self._ends.append(
                (deciding.call_not_made, *name, CallEnd(trouble=Trouble.STOPPED))
            )
            return
        end = CallEnd(trouble=Trouble.NOT_STOPPED, said=answer.reason)
        self._take_end(deciding.mark_unknown, *name, end, now)


def _take(queue: deque[T], take_over: Callable[[T], None]) -> None:
    """Process the first item of a queue; it stays the first if that fails."""
    take_over(queue[0])
    queue.popleft()
