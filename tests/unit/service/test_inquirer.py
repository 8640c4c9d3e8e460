"""Queries to a hanging driver: in parallel, limited, and with a deadline."""

import threading
from collections.abc import Sequence

import pytest

from forewarn.clock import VirtualClock
from forewarn.control.transactions.inquiries import (
    Answer,
    LookAnswer,
    LookQuestion,
    ProbeAnswer,
    ProbeQuestion,
    StopAnswer,
    StopQuestion,
)
from forewarn.drivers.port import (
    NOWHERE,
    Call,
    Expected,
    Observation,
    Observations,
    Probe,
    ProbeState,
    Report,
    Verdict,
)
from forewarn.instants import SECOND, Micros
from forewarn.protocol.operations import Action
from forewarn.service import limits
from forewarn.service.inquirer import ThreadedInquirer
from tests.support.processes import eventually
from tests.unit.admin.gateway import ObedientDriver

NOW = 1_800_000_000 * SECOND


class HangingDriver(ObedientDriver):
    """A driver whose probes and observations hang until they are released."""

    def __init__(self) -> None:
        super().__init__()
        self.hangs: set[str] = set()
        self.go = threading.Event()
        self.asked: list[str] = []

    def probe(self, call: Call, *, now: Micros, memory: str) -> Probe:
        self._hang(call.operation_id)
        return Probe(state=ProbeState.NOT_STARTED)

    def abort(self, operation_id: str, generation: int, *, now: Micros) -> bool:
        self._hang(operation_id)
        return True

    def observe(self, vms: Sequence[str], expected: Expected = NOWHERE) -> Observations:
        self._hang(vms[0])
        return {vm: Observation(running=True) for vm in vms}

    def _hang(self, name: str) -> None:
        self.asked.append(name)
        if name in self.hangs:
            self.go.wait()
        if name == "broken":
            raise ValueError("no such domain")


class Bench:
    def __init__(self) -> None:
        self.driver = HangingDriver()
        self.clock = VirtualClock(NOW)
        self.inquirer = ThreadedInquirer(self.driver, clock=self.clock)
        self.came: list[Answer] = []

    def ask(self, *names: str) -> None:
        for name in names:
            self.inquirer.ask(probe_of(name), now=NOW)

    def look(self, name: str) -> None:
        report = Report(operation_id=name, generation=1, verdict=Verdict.DONE)
        self.inquirer.ask(
            LookQuestion(report=report, vms=(name,), expected={}), now=NOW
        )

    def answers(self, count: int) -> list[Answer]:
        """Wait for a number of answers and return them."""

        def collect() -> list[Answer]:
            self.came += self.inquirer.answers()
            return self.came

        return eventually(collect, lambda came: len(came) >= count, what="answers")


@pytest.fixture
def bench() -> "Bench":
    return Bench()


def probe_of(name: str) -> ProbeQuestion:
    call = Call(
        operation_id=name,
        generation=1,
        action=Action.REBOOT,
        host="h1",
        vms=(),
        duration_seconds=-1,
    )
    return ProbeQuestion(call=call, memory="m", is_late=False)


def names_of(answers: Sequence[Answer]) -> set[str]:
    return {
        answer.question.operation_id
        for answer in answers
        if isinstance(answer, ProbeAnswer)
    }


def test_hung_probe_does_not_delay_other_probes(bench: Bench) -> None:
    bench.driver.hangs = {"op-1"}
    bench.ask("op-1", "op-2", "op-3")
    assert names_of(bench.answers(2)) == {"op-2", "op-3"}
    bench.driver.go.set()
    assert names_of(bench.answers(3)) == {"op-1", "op-2", "op-3"}


def test_hung_probes_are_bounded_and_do_not_delay_observations(bench: Bench) -> None:
    names = [f"op-{number}" for number in range(limits.INQUIRIES_AT_ONCE + 5)]
    bench.driver.hangs = set(names)
    bench.ask(*names)
    bench.look("web_0")
    [answer] = bench.answers(1)
    assert isinstance(answer, LookAnswer)
    assert answer.seen == {"web_0": Observation(running=True)}
    at_once = [name for name in bench.driver.asked if name in bench.driver.hangs]
    assert len(at_once) == limits.INQUIRIES_AT_ONCE
    bench.driver.go.set()
    assert names_of(bench.answers(len(names) + 1)) == set(names)


def test_unanswered_question_ends_at_its_deadline(bench: Bench) -> None:
    names = [f"op-{number}" for number in range(limits.INQUIRIES_AT_ONCE)]
    bench.driver.hangs = {*names, "web_0"}
    bench.ask(*names)
    bench.look("web_0")
    eventually(lambda: len(bench.driver.asked), lambda n: n == len(names) + 1)
    assert list(bench.inquirer.answers()) == []
    bench.clock.advance_to(NOW + round((limits.INQUIRY_SECONDS + 1) * SECOND))
    given_up = bench.answers(len(names) + 1)
    for answer in given_up:
        if isinstance(answer, ProbeAnswer):
            assert answer.probe.state is ProbeState.UNKNOWN
            assert "did not answer within 20 s" in answer.probe.reason
        else:
            assert isinstance(answer, LookAnswer)
            assert answer.seen == {}
    # Hanging queries do not block others.
    bench.ask("op-new")
    assert "op-new" in names_of(bench.answers(len(names) + 2))
    # Their late answers are ignored.
    bench.driver.go.set()
    bench.ask("op-last")
    assert len(bench.answers(len(names) + 3)) == len(names) + 3


def test_hung_stops_do_not_delay_probes_or_observations(bench: Bench) -> None:
    names = [f"op-{number}" for number in range(limits.INQUIRIES_AT_ONCE)]
    bench.driver.hangs = set(names)
    for name in names:
        stop = StopQuestion(operation_id=name, generation=1, is_late=True)
        bench.inquirer.ask(stop, now=NOW)
    bench.ask("op-new")
    bench.look("web_0")
    assert len(bench.answers(2)) == 2
    bench.clock.advance_to(NOW + round((limits.INQUIRY_SECONDS + 1) * SECOND))
    stops = [answer for answer in bench.answers(18) if isinstance(answer, StopAnswer)]
    assert {stop_answer.question.operation_id for stop_answer in stops} == set(names)
    assert {(stop_answer.is_stopped, stop_answer.reason) for stop_answer in stops} == {
        (False, "the driver did not answer within 20 s")
    }
    bench.driver.go.set()


def test_same_question_is_asked_once_at_a_time(bench: Bench) -> None:
    bench.driver.hangs = {"op-1"}
    bench.ask("op-1", "op-1")
    assert bench.inquirer.waiting == 1
    bench.driver.go.set()
    bench.answers(1)
    assert bench.driver.asked == ["op-1"]
    assert bench.inquirer.waiting == 0


def test_driver_that_raises_counts_as_unknown(bench: Bench) -> None:
    bench.ask("broken")
    [answer] = bench.answers(1)
    assert isinstance(answer, ProbeAnswer)
    assert answer.probe.state is ProbeState.UNKNOWN
    assert "no such domain" in answer.probe.reason


def test_answer_wakes_the_control_thread(bench: Bench) -> None:
    woken = threading.Event()
    bench.inquirer.on_answer(woken.set)
    bench.ask("op-1")
    assert woken.wait(60)
