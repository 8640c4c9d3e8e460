"""The watcher's iterations on a virtual clock: what is logged or only counted."""

import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest

from forewarn.agent.core.model import Polled
from forewarn.agent.core.polling import NAME_EVERY, NAME_TIMEOUT, Pace
from forewarn.agent.watcher import ALIVE_GRACE, Watcher
from forewarn.agent.wire.answers import Trouble
from forewarn.agent.wire.endpoint import PollResult, Result
from forewarn.clock import VirtualClock
from forewarn.instants import MINUTE, SECOND, Micros, parse_instant
from forewarn.protocol.notices import Notice, Reading
from tests.support.processes import PATIENCE_SECONDS, eventually

pytestmark = pytest.mark.clause("8.1")

START = parse_instant("2026-11-21T10:00:00Z")
QUIET = Reading(incarnation=1, notices=())


def reading(*names: str, incarnation: int = 2) -> Reading:
    notice = Notice(event_id="A", event_type="Freeze", resources=names)
    return Reading(incarnation=incarnation, notices=(notice,))


def changed(document: Reading) -> PollResult:
    return PollResult(result=Result.OK, reading=document, is_changed=True)


def same(document: Reading) -> PollResult:
    return PollResult(result=Result.UNCHANGED, reading=document)


FAILED = PollResult(result=Result.SERVER_ERROR, detail="500: no")


class FakeEndpoint:
    """Gives the answers that a test has laid out; the last one repeats."""

    def __init__(
        self, answers: Sequence[PollResult | Exception], clock: VirtualClock
    ) -> None:
        self.answers = list(answers)
        self.clock = clock
        self.url, self.version = "http://x", "2020-07-01"
        self.longest_wait: Micros = 0
        self.names: list[str | None] = ["vm_0"]
        self.asked: list[tuple[Micros, Micros, bool]] = []
        self.named: list[Micros] = []
        self.is_interrupted = False

    def ask(
        self, *, timeout: Micros, wait: Micros = 0, full: bool = False
    ) -> PollResult:
        self.asked.append((timeout, wait, full))
        many = len(self.answers) > 1
        answer = self.answers.pop(0) if many else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def instance_name(self, *, timeout: Micros = NAME_TIMEOUT) -> str | None:
        self.named.append(self.clock.now() - START)
        return self.names.pop(0) if len(self.names) > 1 else self.names[0]

    def interrupt(self) -> None:
        self.is_interrupted = True


class Watching:
    """A watcher whose turns are made by hand."""

    def __init__(self, *answers: PollResult | Exception, name: str = "vm_0") -> None:
        self.is_wanted = False
        """The main loop wants answers that bring nothing new."""
        self.clock = VirtualClock(START)
        self.endpoint = FakeEndpoint(answers, self.clock)
        self.told: list[Polled] = []
        self.watcher = Watcher(
            self.endpoint,
            pace=Pace(),
            clock=self.clock,
            tell=self.told.append,
            name=name,
            wanted=lambda: self.is_wanted,
            chance=lambda: 0.0,
        )

    def turn(self, times: int = 1) -> list[Micros]:
        pauses: list[Micros] = []
        for _ in range(times):
            pauses.append(self.watcher.turn())
            self.clock.advance_to(self.clock.now() + pauses[-1])
        return pauses


def test_unchanged_document_is_reported_only_twice() -> None:
    watching = Watching(changed(QUIET), same(QUIET))
    assert watching.turn(5) == [SECOND] * 5
    assert watching.told == [
        Polled(notices=(), name="vm_0", incarnation=1),
        Polled(notices=(), name="vm_0", incarnation=1, heard=SECOND),
    ]


def test_wanted_documents_are_reported_each_time_without_long_polling() -> None:
    watching = Watching(changed(QUIET), same(QUIET))
    watching.endpoint.longest_wait = MINUTE
    watching.turn(3)
    assert [wait for _, wait, _ in watching.endpoint.asked] == [0, 0, MINUTE]
    watching.is_wanted = True
    watching.turn(3)
    assert [wait for _, wait, _ in watching.endpoint.asked[3:]] == [0, 0, 0]
    assert len(watching.told) == 5
    watching.is_wanted = False
    watching.turn(3)
    assert len(watching.told) == 5


def test_only_time_with_an_answering_endpoint_counts_as_heard() -> None:
    watching = Watching(changed(QUIET), same(QUIET), FAILED, FAILED, same(QUIET))
    watching.is_wanted = True
    watching.turn(2)
    watching.clock.advance_to(watching.clock.now() + 10 * MINUTE)
    watching.turn(2)
    watching.turn(2)
    heard = [polled.heard for polled in watching.told]
    # After a silence, as much as could have passed without one.
    most = Pace().interval + Pace().timeout
    assert heard == [0, SECOND, SECOND + most, 2 * SECOND + most]


def test_partial_documents_do_not_count_as_heard() -> None:
    partial = changed(replace(QUIET, is_partial=True, vague=frozenset({"E1"})))
    watching = Watching(changed(QUIET), partial, partial, changed(QUIET))
    watching.turn(4)
    assert [polled.heard for polled in watching.told] == [0, 0, 0, SECOND]
    assert [polled.is_partial for polled in watching.told] == [False, True, True, False]
    assert watching.told[1].vague == {"E1"}


EMPTY = PollResult(
    result=Result.EMPTY,
    reading=Reading(incarnation=None, notices=(), is_empty=True),
)


def test_empty_body_is_an_answer_and_not_an_outage() -> None:
    watching = Watching(replace(EMPTY, is_changed=True), EMPTY)
    assert watching.turn(10) == [SECOND] * 10
    view = watching.watcher.view
    assert (view.failures, view.last, view.detail) == (0, Result.EMPTY, "")
    assert (view.events, view.incarnation) == (0, None)
    assert watching.watcher.age() == SECOND
    assert watching.told == [
        Polled(notices=(), name="vm_0", is_empty=True),
        Polled(notices=(), name="vm_0", is_empty=True, heard=SECOND),
    ]


def test_vm_name_is_learned_even_from_empty_answers() -> None:
    watching = Watching(replace(EMPTY, is_changed=True), EMPTY, name="")
    watching.turn()
    assert watching.watcher.view.name == "vm_0"
    assert watching.told[0].name == "vm_0"


def test_each_change_is_reported_and_confirmed() -> None:
    event = reading("vm_0")
    watching = Watching(
        changed(QUIET), changed(event), same(event), same(event), changed(QUIET)
    )
    watching.turn(6)
    counts = [len(polled.notices) for polled in watching.told]
    assert counts == [0, 1, 1, 0, 0]


def test_failures_are_counted_and_report_no_document() -> None:
    watching = Watching(changed(QUIET), FAILED, FAILED, FAILED, FAILED, same(QUIET))
    assert watching.turn(5) == [seconds * SECOND for seconds in (1, 1, 1, 2, 3)]
    view = watching.watcher.view
    assert (view.failures, view.last) == (4, Result.SERVER_ERROR)
    assert view.detail == "500: no"
    assert watching.watcher.age() == 8 * SECOND
    watching.turn()
    view = watching.watcher.view
    assert (view.failures, view.detail) == (0, "")
    assert view.polls[Result.SERVER_ERROR] == 4
    assert view.polls[Trouble.TIMEOUT] == 0
    assert len(watching.told) == 2


def test_retry_after_is_honored_up_to_five_seconds() -> None:
    busy = PollResult(result=Result.TOO_MANY, detail="429", retry_after=MINUTE)
    watching = Watching(changed(QUIET), busy)
    assert watching.turn(3) == [SECOND, 5 * SECOND, 5 * SECOND]


def test_first_request_has_a_two_minute_timeout_and_later_ones_two_seconds() -> None:
    watching = Watching(FAILED, changed(QUIET), same(QUIET))
    watching.turn(3)
    timeouts = [timeout // SECOND for timeout, _, _ in watching.endpoint.asked]
    assert timeouts == [130, 130, 2]


def test_endpoint_known_before_a_restart_gets_the_short_timeout() -> None:
    clock = VirtualClock(START)
    endpoint = FakeEndpoint([FAILED], clock)
    watcher = Watcher(
        endpoint, pace=Pace(), clock=clock, tell=lambda _: None, has_answered=True
    )
    watcher.turn()
    assert endpoint.asked[0][0] == 2 * SECOND


def test_internal_error_does_not_stop_polling(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watching = Watching(ValueError("a bug"), changed(QUIET), same(QUIET))
    watching.turn(2)
    assert watching.watcher.view.polls[Result.FAULT] == 1
    assert len(watching.told) == 1
    assert "a poll failed because of a bug in the agent" in caplog.text


def test_document_that_could_not_be_reported_is_reported_again() -> None:
    clock = VirtualClock(START)
    endpoint = FakeEndpoint([changed(QUIET), same(QUIET)], clock)
    reports: list[Polled] = []

    def tell(polled: Polled) -> None:
        reports.append(polled)
        if len(reports) == 1:
            raise RuntimeError("no capacity")

    watcher = Watcher(endpoint, pace=Pace(), clock=clock, tell=tell, name="vm_0")
    for _ in range(4):
        watcher.turn()
    assert len(reports) == 3


def test_full_document_is_requested_once_a_minute() -> None:
    document = PollResult(result=Result.OK, reading=QUIET)
    watching = Watching(changed(QUIET), *[same(QUIET)] * 60, document, same(QUIET))
    watching.turn(70)
    full = [at for at, asked in enumerate(watching.endpoint.asked) if asked[2]]
    assert full == [0, 60]


class TestTheName:
    def test_vm_name_is_read_at_start_and_periodically(self) -> None:
        watching = Watching(changed(QUIET), same(QUIET), name="")
        watching.turn(700)
        assert [instant // SECOND for instant in watching.endpoint.named] == [0, 600]
        assert {polled.name for polled in watching.told} == {"vm_0"}

    def test_vm_name_is_not_requested_if_configured(self) -> None:
        watching = Watching(changed(reading("vm_9")), same(QUIET), name="mine")
        watching.turn(3)
        assert watching.endpoint.named == []
        assert watching.told[0].name == "mine"

    def test_late_name_is_reported_when_it_is_known(self) -> None:
        event = reading("vm_0")
        watching = Watching(changed(event), same(event), name="")
        watching.endpoint.names = [None, None, "vm_0"]
        watching.turn(12)
        assert [instant // SECOND for instant in watching.endpoint.named] == [0, 1, 6]
        names = [polled.name for polled in watching.told]
        assert names == ["", "", "vm_0"]

    def test_name_is_read_again_when_other_vms_are_named_for_the_first_time(
        self,
    ) -> None:
        event = reading("vm_7")
        watching = Watching(
            changed(QUIET), changed(event), same(event), changed(event), name=""
        )
        watching.endpoint.names = ["vm_0", "vm_7"]
        watching.turn(4)
        assert [instant // SECOND for instant in watching.endpoint.named] == [0, 1]
        assert [document.name for document in watching.told] == [
            "vm_0",
            "vm_7",
            "vm_7",
            "vm_7",
        ]

    def test_vm_name_is_not_read_again_if_the_event_names_this_vm(self) -> None:
        event = reading("vm_0", "vm_7")
        watching = Watching(changed(QUIET), changed(event), same(event), name="")
        watching.turn(3)
        assert len(watching.endpoint.named) == 1

    def test_name_is_read_again_after_a_gap(self) -> None:
        watching = Watching(changed(QUIET), same(QUIET), same(QUIET), name="")
        watching.turn(2)
        watching.clock.advance_to(START + 6 * MINUTE)
        watching.turn()
        assert len(watching.endpoint.named) == 2
        assert watching.endpoint.named[-1] < NAME_EVERY


class TestWaiting:
    def test_wait_is_requested_if_the_endpoint_offers_it(self) -> None:
        watching = Watching(changed(QUIET), same(QUIET))
        watching.endpoint.longest_wait = 45 * SECOND
        watching.turn(3)
        # A change is confirmed first: that something is gone must not wait.
        assert watching.endpoint.asked == [
            (130 * SECOND, 0, True),
            (2 * SECOND, 0, False),
            (48 * SECOND, 45 * SECOND, False),
        ]
        assert watching.watcher.view.waits

    def test_early_answers_to_a_wait_cause_no_busy_loop(self) -> None:
        watching = Watching(changed(QUIET), same(QUIET))
        watching.endpoint.longest_wait = MINUTE
        assert watching.turn(4) == [SECOND] * 4


class TestHealth:
    def test_loop_is_alive_while_the_endpoint_is_down(self) -> None:
        watching = Watching(FAILED)
        watching.turn(100)
        assert watching.watcher.is_alive()
        assert watching.watcher.age() is None

    def test_stopped_loop_is_not_alive(self) -> None:
        watching = Watching(changed(QUIET))
        watching.turn()
        watching.clock.advance_to(watching.clock.now() + ALIVE_GRACE + SECOND)
        assert not watching.watcher.is_alive()

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    def test_thread_that_ended_unexpectedly_is_not_alive(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        watching = Watching(changed(QUIET))
        has_ended = threading.Event()

        def end(**_: object) -> PollResult:
            has_ended.set()
            raise SystemExit

        monkeypatch.setattr(watching.endpoint, "ask", end)
        watching.watcher.start()
        assert has_ended.wait(PATIENCE_SECONDS)
        eventually(watching.watcher.is_alive, lambda is_alive: not is_alive)

    def test_thread_that_was_asked_to_stop_is_not_a_fault(self) -> None:
        """As at a reload: the next one begins in a moment."""
        watching = Watching(changed(QUIET), same(QUIET))
        watching.watcher.start()
        watching.watcher.stop()
        assert watching.endpoint.is_interrupted
        assert watching.watcher.is_alive()


# After another watcher in the same process


def after(first: Watching, *answers: PollResult | Exception) -> Watcher:
    """Return the watcher that follows one, as after a reload of the settings."""
    return Watcher(
        FakeEndpoint(answers, first.clock),
        pace=Pace(),
        clock=first.clock,
        tell=first.told.append,
        known=first.watcher.view,
    )


def test_next_watcher_keeps_the_state_of_the_previous_one() -> None:
    first = Watching(changed(reading("vm_0")), FAILED)
    first.watcher.turn()
    first.clock.advance_to(START + 2 * SECOND)
    first.watcher.turn()
    watcher = after(first, same(reading("vm_0")))
    assert watcher.age() == 2 * SECOND
    shown = watcher.view
    assert (shown.name, shown.incarnation, shown.events) == ("vm_0", 2, 1)
    assert (shown.failures, shown.detail) == (1, "500: no")
    watcher.turn()
    assert watcher.age() == 0
    assert watcher.view.polls[Result.SERVER_ERROR] == 1
    assert watcher.view.polls[Result.UNCHANGED] == 1
    # The document is sent again, since the main loop is also a new one.
    assert len(first.told) == 2


def test_poll_stopped_by_the_agent_is_not_a_failure_of_the_endpoint() -> None:
    first = Watching(changed(QUIET), PollResult(result=Trouble.STOPPED, detail="ended"))
    first.watcher.turn()
    first.watcher.turn()
    shown = first.watcher.view
    assert (shown.failures, shown.detail, shown.last) == (0, "", Result.OK)
    assert shown.polls[Trouble.STOPPED] == 1


@pytest.mark.parametrize(
    ("called", "former"),
    [("", ""), ("vm_0", ""), ("VM_0", ""), ("web_0", "web_0")],
)
def test_name_that_differs_from_the_journal_is_logged(
    called: str, former: str, caplog: pytest.LogCaptureFixture
) -> None:
    watching = Watching(changed(QUIET))
    reports: list[Polled] = []
    watcher = Watcher(
        watching.endpoint,
        pace=Pace(),
        clock=watching.clock,
        tell=reports.append,
        called=called,
    )
    watcher.turn()
    assert (watcher.view.name, watcher.view.former) == ("vm_0", former)
    warned = [
        message for message in caplog.messages if "the name of this VM was" in message
    ]
    assert len(warned) == bool(former)
