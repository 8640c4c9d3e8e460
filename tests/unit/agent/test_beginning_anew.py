"""An agent that had to begin without its journal, and goes back to it."""

from dataclasses import replace
from pathlib import Path

import pytest

from forewarn.agent import front
from forewarn.agent.assembly import REOPEN_SECONDS, Parts
from forewarn.agent.core.model import Consent, Memory, Phase, Stage, Step, StepState
from forewarn.agent.core.underway import what
from forewarn.agent.journal import opening
from forewarn.agent.journal.lock import AgentLock
from forewarn.agent.journal.port import JournalError
from forewarn.agent.journal.sqlite import SqliteJournal
from forewarn.clock import VirtualClock
from forewarn.instants import SECOND
from tests.support.agent_journals import task_of
from tests.unit.agent.test_assembly import START, settings

STEP = Step(
    handler="drain",
    phase=Phase.RECOVER,
    attempt=1,
    state=StepState.RUNNING,
    began=START,
    stop_at=START,
    kill_at=START,
)
EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "agent"


@pytest.mark.parametrize("what", ["lock", "file"])
def test_agent_returns_to_the_journal_when_the_disk_works_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    broken = pytest.MonkeyPatch()

    def fail(*_given: object, **_more: object) -> None:
        raise JournalError("disk I/O error")

    place = (AgentLock, "__init__") if what == "lock" else (opening, "SqliteJournal")
    broken.setattr(*place, fail)
    clock = VirtualClock(START)
    parts = Parts(settings(tmp_path), environ={}, clock=clock)
    try:
        assert parts.agent.status.journal_fault == "disk I/O error"
        parts.agent.begin()
        parts.stop()
        parts.agent.turn()
        # Values that are only in memory are not remembered.
        assert parts.agent.status.journal_fault
        clock.advance_to(clock.now() + round(REOPEN_SECONDS * SECOND))
        assert not parts._may_restart()
        broken.undo()
        assert not parts._may_restart(), "it has just looked"
        clock.advance_to(clock.now() + round(REOPEN_SECONDS * SECOND))
        assert parts._may_restart()
    finally:
        broken.undo()
        parts.close()
    again = Parts(settings(tmp_path), environ={}, clock=clock)
    assert isinstance(again._opened.journal, SqliteJournal)
    assert not again._may_restart()
    again.close()


def test_work_in_progress_is_reported() -> None:
    task = replace(task_of("E1"), stage=Stage.SEEN, steps=(), consent=Consent.NONE)
    assert not what(Memory())
    assert not what(Memory(tasks=(task, replace(task, stage=Stage.FINISHED))))
    for busy in (
        Memory(tasks=(replace(task, stage=Stage.PREPARING),)),
        Memory(tasks=(replace(task, stage=Stage.RECOVERING),)),
        Memory(tasks=(replace(task, steps=(STEP,)),)),
        Memory(tasks=(replace(task, consent=Consent.GIVEN),)),
        Memory(restored=(STEP,)),
    ):
        assert what(busy)


def test_flags_may_precede_command_arguments() -> None:
    messages: list[str] = []
    arguments = [
        "try",
        "--vm",
        "web_0",
        str(EXAMPLES / "events.json"),
        "--margin",
        "1s",
    ]
    assert front.obey(arguments, say=messages.append, environ={}) == 0
    assert messages[0] == "as web_0"
