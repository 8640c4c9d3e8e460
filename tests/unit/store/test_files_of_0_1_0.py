"""The agent's journal and driver records of version 0.1.0 can be read."""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from forewarn.agent.core.model import Memory, Note, Stage
from forewarn.agent.journal.port import Limits, Outgoing
from forewarn.agent.journal.sqlite import SqliteJournal
from forewarn.clock import SystemClock
from forewarn.drivers.command import CommandDriver
from forewarn.drivers.port import Call, Verdict
from forewarn.drivers.programs import Programs
from forewarn.instants import DAY
from forewarn.protocol.operations import Action
from tests.support.agent_journals import START, note_of, task_of

WRITTEN = Path(__file__).parents[2] / "fixtures" / "stores_0_1_0"


def tell(note: Note, memory: Memory) -> Sequence[Outgoing]:
    del memory
    return [Outgoing(sink="hook", body=note.event_id)]


def name_of(stage: Stage) -> str:
    """Return what 0.1.0 called the stage."""
    renamed = {Stage.RECOVERING: "owed", Stage.FINISHED: "over"}
    return renamed.get(stage, stage.value)


def test_journal_of_agent_has_its_tasks_notes_and_orders(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    with sqlite3.connect(path) as database:
        database.executescript((WRITTEN / "journal.sql").read_text("utf-8"))
    database.close()
    path.chmod(0o600)
    limits = Limits(history_rows=10, history_age=DAY, queue_rows=3)
    journal = SqliteJournal(path, create_notifications=tell, limits=limits)
    try:
        memory = journal.load()
        assert memory.name == "web_1"
        assert memory.restored == task_of().steps
        assert memory.tasks == tuple(
            replace(
                task_of(name_of(stage)),
                stage=stage,
                gone=START if stage in {Stage.RECOVERING, Stage.FINISHED} else 0,
            )
            for stage in Stage
        )
        assert list(journal.history()) == [
            note_of(name_of(stage)) for stage in reversed(Stage)
        ]
        assert journal.take_orders() == ["prepared"]
        journal.save(Memory(name="web_1"))
        assert journal.load() == Memory(name="web_1")
    finally:
        journal.close()


def call_of(name: str) -> Call:
    return Call(
        operation_id=name,
        generation=1,
        action=Action.REBOOT,
        host="h1",
        vms=(),
        duration_seconds=-1,
    )


def test_records_of_command_driver_have_the_results_of_calls(tmp_path: Path) -> None:
    records = tmp_path / "records"
    for name, text in json.loads((WRITTEN / "records.json").read_text("utf-8")).items():
        file = records / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    # A program that would leave a trace, if a call were made again.
    program = ("/bin/sh", "-c", f"touch {tmp_path / 'again'}")
    driver = CommandDriver(
        Programs(actions={Action.REBOOT: program}, timeouts={}),
        records=records,
        clock=SystemClock(),
    )
    try:
        verdicts = {
            name: report.verdict
            for name in ("op-done", "op-failed")
            if (report := driver.probe(call_of(name), memory="", now=0).report)
            is not None
        }
    finally:
        driver.close()
    assert verdicts == {"op-done": Verdict.DONE, "op-failed": Verdict.FAILED}
    assert not (tmp_path / "again").exists()
