"""Whole agents in this process: every part of one, over real sockets, and impatient.

Waits for a faulty endpoint, which a process would spend in real time, take a few
milliseconds here.
"""

import contextlib
import threading
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from forewarn.agent.assembly import Parts
from forewarn.agent.core import approving, polling
from forewarn.agent.core.model import Memory, Note, NoteKind, Stage, Task
from forewarn.agent.settings import load_settings
from forewarn.agent.settings_model import Settings
from forewarn.agent.watcher import Watched
from forewarn.clock import SystemClock
from forewarn.instants import MILLISECOND, SECOND, Micros
from tests.support.processes import PATIENCE_SECONDS, eventually

SOON = """
[gone_after]
scheduled = "200ms"
started = "200ms"
empty = "500ms"
reset = "500ms"
"""
"""Short times for stories that are not about the end of an event."""

POLL = 20 * MILLISECOND
TIMEOUT = 5 * SECOND
"""Longer than a busy machine lets a thread wait. Stories of silence have a shorter one."""

_NOTE = 'echo "$FOREWARN_PHASE $FOREWARN_EVENT_ID" >>did'

TOML = f"""
[[handler]]
name = "note"
kind = "exec"
prepare = ["/bin/sh", "-c", '{_NOTE}']
recover = ["/bin/sh", "-c", '{_NOTE}']
directory = "DIRECTORY"

[[rule]]
handlers = ["note"]
"""


def hasten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have agents of this process wait shortly."""
    steps = (10 * MILLISECOND, 20 * MILLISECOND, 30 * MILLISECOND)
    monkeypatch.setattr(polling, "STEPS", steps)
    monkeypatch.setattr(polling, "STEPS_UNKNOWN", steps)
    monkeypatch.setattr(polling, "NAME_STEPS", steps)
    monkeypatch.setattr(polling, "RETRY_AFTER_MAX", 50 * MILLISECOND)
    monkeypatch.setattr(approving, "RETRY_PAUSES", steps)
    monkeypatch.setattr(approving, "RETRY_AFTER_MAX", 50 * MILLISECOND)


def settings_of(
    directory: Path, endpoint: str, text: str = TOML, *, timeout: Micros = TIMEOUT
) -> Settings:
    """Return the settings of a file with shorter times."""
    directory.mkdir(exist_ok=True)
    head = f'endpoint = "{endpoint}"\nstate = "{directory}/agent.db"\nlisten = ""\n'
    file = directory / "agent.toml"
    whole = f"{head}{text}{SOON}".replace("DIRECTORY", str(directory))
    file.write_text(whole, encoding="utf-8")
    settings = load_settings(file=str(file), environ={}, flags={})
    watch = replace(settings.watch, poll=POLL, timeout=timeout, first_timeout=timeout)
    return replace(settings, watch=watch)


class Resident:
    """An agent in a thread."""

    def __init__(
        self,
        settings: Settings,
        directory: Path,
        *,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = directory
        self.parts = Parts(
            settings,
            environ={"PATH": "/usr/bin:/bin", **(environ or {})},
            clock=SystemClock(),
        )
        self._thread = threading.Thread(target=self.parts.run)
        self._thread.start()

    def end(self) -> None:
        """End the agent; its handlers continue."""
        self.parts.stop()
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()
        self.parts.close()

    @property
    def memory(self) -> Memory:
        return self.parts.agent.status.memory

    @property
    def view(self) -> Watched:
        return self.parts._watcher.view

    def task(self, event_id: str) -> Task | None:
        return self.memory.find(event_id)

    def wait_task(self, event_id: str, is_right: Callable[[Task], object]) -> Task:
        """Return an event's task when something is so."""
        latest = eventually(
            lambda: self.task(event_id),
            lambda task: task is not None and bool(is_right(task)),
        )
        assert latest is not None
        return latest

    def wait_stage(self, event_id: str, stage: Stage) -> Task:
        """Return an event's task when it stands so."""
        latest = eventually(
            lambda: self.task(event_id),
            lambda task: task is not None and task.stage is stage,
            what=f"{event_id} {stage.value}",
        )
        assert latest is not None
        return latest

    def wait_seen(self, event_id: str) -> Note:
        """Return the notification of the agent's first sight of an event."""

        def seen() -> Note | None:
            history = self.parts._opened.journal.history(event_id=event_id)
            notes = [note for note in history if note.kind is NoteKind.SEEN]
            return notes[-1] if notes else None

        line = eventually(seen, bool, what=f"a line of {event_id}")
        assert line is not None
        return line

    def wait_ready(self) -> "Resident":
        eventually(
            lambda: self.memory,
            lambda memory: memory.has_polled and bool(memory.name),
            what="a first document",
        )
        return self

    def did(self) -> list[str]:
        """Return the lines of the handler: phase and event."""
        file = self.directory / "did"
        return file.read_text().splitlines() if file.exists() else []


@contextlib.contextmanager
def resident(
    directory: Path,
    endpoint: str,
    text: str = TOML,
    *,
    environ: Mapping[str, str] | None = None,
    timeout: Micros = TIMEOUT,
) -> Generator[Resident]:
    """Have an agent for as long as the block takes."""
    settings = settings_of(directory, endpoint, text, timeout=timeout)
    agent = Resident(settings, directory, environ=environ)
    try:
        yield agent
    finally:
        agent.end()
