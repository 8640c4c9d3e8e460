"""The main loop: durable first, then done; and what it does without a journal."""

import logging
from collections.abc import Sequence

import pytest

from forewarn.agent.core.model import (
    Consent,
    Finished,
    Memory,
    Note,
    PeerResponse,
    Phase,
    Run,
    Send,
    Stage,
    StepState,
)
from forewarn.agent.core.policy import Approve, Approver, Handler, Policy, Rule
from forewarn.instants import HOUR, MINUTE, SECOND
from tests.support.agent_worlds import (
    VM,
    FaultyJournal,
    Machine,
    Worker,
    event,
    no_pauses,
)

__all__ = ["no_pauses"]

pytestmark = pytest.mark.usefixtures("no_pauses")

DRAIN = Policy(
    handlers=(Handler(name="drain"),),
    rules=(Rule(name="rule 1", groups=(("drain",),)),),
)
AT_ONCE = Policy(rules=(Rule(name="rule 1", approve=Approve.AT_ONCE),))


class Scene:
    """A loop that has begun."""

    def __init__(self, policy: Policy = DRAIN) -> None:
        self.machine = Machine()
        self.journal = FaultyJournal()
        self.heard: list[Note] = []
        self.policy = policy
        self.worker = self.started()

    def started(self) -> Worker:
        """Return another loop on what the last one has left."""

        def hear(notes: Sequence[Note]) -> None:
            # The notes are durable by then.
            assert self.journal.cannot_write or set(notes) <= set(self.journal.notes)
            self.heard += notes

        worker = Worker(self.policy, self.machine, self.journal, on_notes=hear)
        worker.begin()
        return worker


def test_state_is_saved_before_each_action() -> None:
    scene = Scene()
    worker, journal = scene.worker, scene.journal
    states: list[tuple[str, Stage, Consent]] = []
    start, approve = worker.hands.start, worker.voice.approve

    def look(what: str) -> None:
        [task] = journal.memory.tasks
        states.append((what, task.stage, task.consent))

    worker.dispatch[Run] = lambda run: (look("start"), start(run))[1]
    worker.dispatch[Send] = lambda send: (look("approve"), approve(send))[1]
    scene.machine.notices = (event(),)
    for _ in range(4):
        worker.second()
    assert states == [
        ("start", Stage.PREPARING, Consent.NONE),
        ("approve", Stage.PREPARED, Consent.WANTED),
    ]


def test_an_event_is_prepared_approved_and_recovered() -> None:
    scene = Scene()
    scene.machine.notices = (event(),)
    for _ in range(5):
        scene.worker.second()
    scene.machine.start_events()
    scene.worker.second()
    scene.machine.notices = ()
    for _ in range(30 + 6):
        scene.worker.second()
    assert scene.machine.begun == [
        (Phase.PREPARE, "drain", "E1"),
        (Phase.RECOVER, "drain", "E1"),
    ]
    assert scene.machine.approvals == ["E1"]
    assert scene.journal.told() == [note.kind.value for note in scene.heard]
    assert scene.journal.told()[-1] == "recovered"


def test_unchanged_state_is_not_written() -> None:
    scene = Scene(AT_ONCE)
    scene.machine.notices = (event(),)
    for _ in range(3):
        scene.worker.second()
    saves = scene.journal.saves
    for _ in range(10):
        scene.worker.second()
    assert scene.journal.saves == saves


def test_none_stops_the_agent_after_earlier_inputs_are_decided() -> None:
    scene = Scene()
    scene.worker.inbox.put(None)
    assert scene.worker.agent.turn() is False
    scene.machine.notices = (event(),)
    worker = scene.started()
    worker.inbox.put(Finished(run_id="x", state=StepState.DONE))
    assert worker.turn() is True
    worker.inbox.put(None)
    assert worker.agent.turn() is False
    assert worker.agent.status.memory.has_polled is False

    assert scene.worker.agent.status.turned == scene.machine.clock.monotonic()


def test_due_action_runs_without_new_input() -> None:
    rule = Rule(name="rule 1", groups=(("drain",),), start_before=5 * MINUTE)
    scene = Scene(Policy(handlers=DRAIN.handlers, rules=(rule,)))
    scene.machine.notices = (event(),)
    scene.worker.second()
    assert scene.machine.begun == []
    scene.machine.pass_time(10 * MINUTE)
    scene.worker.turn()
    assert scene.machine.begun == [(Phase.PREPARE, "drain", "E1")]


def test_clock_set_back_leads_to_new_decisions() -> None:
    rule = Rule(name="rule 1", groups=(("drain",),), start_before=5 * MINUTE)
    scene = Scene(Policy(handlers=DRAIN.handlers, rules=(rule,)))
    scene.machine.notices = (event(),)
    scene.worker.second()
    before = scene.worker.agent.status
    scene.machine.clock._now -= HOUR
    scene.worker.turn()
    assert scene.worker.agent.status.wake == before.wake
    assert scene.machine.begun == []


def test_peers_are_asked_and_their_answers_used() -> None:
    rule = Rule(name="rule 1", approver=Approver.ALL)
    scene = Scene(Policy(rules=(rule,), has_peers=True))
    scene.machine.notices = (event(resources=(VM, "vm2")),)
    scene.worker.second()
    [asked] = scene.worker.voice.asked
    assert (asked.event_id, asked.names) == ("E1", ("vm2",))
    assert scene.machine.approvals == []
    scene.worker.turn(PeerResponse(event_id="E1", name="vm2", is_prepared=True))
    assert scene.machine.approvals == ["E1"]


# Orders


def test_requested_approval_is_sent_in_the_same_iteration() -> None:
    scene = Scene(Policy(rules=(Rule(name="rule 1", approve=Approve.NEVER),)))
    scene.machine.notices = (event(),)
    scene.worker.second()
    assert scene.machine.approvals == []
    scene.journal.orders.append("e1")
    scene.worker.turn()
    assert scene.machine.approvals == ["E1"]


def test_approval_request_for_an_unknown_event_is_logged_once() -> None:
    scene = Scene()
    scene.journal.orders.append("E9")
    scene.worker.turn()
    [note] = scene.journal.notes
    assert note.detail.endswith("there is no such event")
    scene.worker.turn()
    assert len(scene.journal.notes) == 1


# Starting again


def test_configured_name_is_used_from_the_start() -> None:
    worker = Worker(DRAIN, Machine(), FaultyJournal(), name="vm7")
    assert worker.memory.name == "vm7"


def test_running_handler_is_resumed_after_a_restart() -> None:
    scene = Scene()
    scene.machine.notices = (event(),)
    scene.worker.second()
    worker = scene.started()
    for _ in range(4):
        worker.second()
    assert scene.machine.begun == [(Phase.PREPARE, "drain", "E1")]
    assert scene.machine.approvals == ["E1"]


def test_run_interrupted_by_a_reboot_starts_again() -> None:
    scene = Scene()
    scene.machine.notices = (event(),)
    scene.worker.second()
    scene.machine.reboot()
    worker = scene.started()
    for _ in range(5):
        worker.second()
    assert scene.machine.begun == [(Phase.PREPARE, "drain", "E1")] * 2
    assert scene.machine.approvals == ["E1"]


# Without a journal


def faults(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.WARNING
    ]


def test_unwritable_journal_does_not_stop_the_agent_and_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene()
    scene.journal.cannot_write = "the disk is full"
    scene.machine.notices = (event(),)
    for _ in range(5):
        scene.worker.second()
    assert scene.machine.approvals == ["E1"]
    assert scene.worker.agent.status.journal_fault == "the disk is full"
    assert faults(caplog) == [
        "the disk is full; the agent continues without it (Free some space.)"
    ]
    assert scene.journal.memory == Memory(lost_journal=True)


def test_unsaved_state_is_written_when_the_disk_recovers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene()
    scene.journal.cannot_write = "the disk is full"
    scene.machine.notices = (event(),)
    for _ in range(5):
        scene.worker.second()
    scene.journal.cannot_write = ""
    scene.worker.turn()
    assert scene.journal.memory == scene.worker.memory
    assert scene.journal.notes == scene.heard
    assert scene.worker.agent.status.journal_fault == ""
    assert faults(caplog)[-1] == "the journal can be written again"
    # And a new agent knows it all.
    worker = scene.started()
    worker.second()
    assert scene.machine.approvals == ["E1"]


def test_change_without_a_note_is_also_written_later() -> None:
    scene = Scene(AT_ONCE)
    scene.worker.second()
    scene.journal.cannot_write = "the disk is full"
    before = scene.journal.memory
    scene.machine.notices = (event(resources=("vm2",)),)
    scene.worker.second()
    scene.worker.agent._unsaved.clear()
    assert scene.journal.memory == before
    scene.journal.cannot_write = ""
    scene.worker.turn()
    assert scene.journal.memory == scene.worker.memory
    assert scene.worker.agent.status.journal_fault == ""


def test_temporary_failure_to_read_requests_is_cleared(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No event need come for the agent to be ready again."""
    scene = Scene()
    scene.worker.second()
    scene.journal.cannot_read = "the journal is locked"
    for _ in range(3):
        scene.worker.turn()
    assert scene.worker.agent.status.journal_fault == "the journal is locked"
    scene.journal.cannot_read = ""
    scene.worker.turn()
    assert scene.worker.agent.status.journal_fault == ""
    assert faults(caplog) == [
        "the journal is locked; the agent continues without it (Look at it.)",
        "the journal can be written again",
    ]


def test_unsaved_notes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forewarn.agent.agent.UNSAVED_MAX", 5)
    scene = Scene(AT_ONCE)
    scene.journal.cannot_write = "the disk is full"
    for number in range(10):
        scene.machine.notices = (event(f"E{number}"),)
        scene.worker.second()
    scene.journal.cannot_write = ""
    scene.worker.turn()
    assert len(scene.journal.notes) == 5
    assert scene.journal.notes == scene.heard[-5:]


def test_approval_is_sent_again_if_the_journal_returns_after_a_restart() -> None:
    """An action without a stored result is done again: once too often, never not."""
    scene = Scene(AT_ONCE)
    scene.worker.second()
    scene.journal.cannot_write = "the disk is full"
    scene.machine.notices = (event(),)
    scene.worker.second()
    scene.journal.cannot_write = ""
    worker = scene.started()
    worker.second()
    assert scene.machine.approvals == ["E1", "E1"]
    worker.machine.pass_time(5 * SECOND)
    worker.second()
    assert scene.machine.approvals == ["E1", "E1"]
