"""A runner of handlers by itself, with the records of its runs, and its reports."""

import queue
from pathlib import Path
from typing import Any

from forewarn.agent.core.model import Finished, Phase, Run
from forewarn.agent.handlers.exec import ExecWorker
from forewarn.agent.handlers.making import records_next_to
from forewarn.agent.handlers.port import Ground, Worker
from forewarn.agent.handlers.runner import Runner
from forewarn.agent.settings_model import HandlerSettings
from forewarn.clock import SystemClock
from forewarn.instants import SECOND
from tests.support.agent_journals import task_of
from tests.support.processes import PATIENCE_SECONDS, eventually

CLOCK = SystemClock()
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "OWN": "agent's"}


class Bench:
    """A runner, and what it tells."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.records = records_next_to(directory / "agent.db")
        self.inbox: queue.SimpleQueue[Finished] = queue.SimpleQueue()
        self.workers: dict[str, Worker] = {}
        self.runner = Runner(
            self.workers,
            finish=self.inbox.put,
            vm=lambda: "web_1",
            clock=CLOCK,
            records=self.records,
        )

    def add(self, script: str, **more: object) -> None:
        """Have handler `h` be a script of the shell."""
        command = ("/bin/sh", "-c", script)
        self.workers["h"] = self.worker(
            **{"prepare": command, "recover": command, **more}
        )

    def worker(self, **settings: Any) -> ExecWorker:
        """Return a worker of handler `h`."""
        ground = Ground(records=self.records, environment=ENVIRONMENT, clock=CLOCK)
        return ExecWorker(HandlerSettings(name="h", kind="exec", **settings), ground)

    def run(
        self,
        *,
        run_id: str = "r1",
        seconds: float = PATIENCE_SECONDS,
        grace: float = PATIENCE_SECONDS,
        resumes: bool = False,
    ) -> Run:
        now = CLOCK.now()
        stop_at = now + round(seconds * SECOND)
        run = Run(
            run_id=run_id,
            handler="h",
            phase=Phase.PREPARE,
            attempt=1,
            task=task_of("E1"),
            stop_at=stop_at,
            kill_at=stop_at + round(grace * SECOND),
            resumes=resumes,
        )
        self.runner.start(run)
        return run

    def end(self) -> Finished:
        return self.inbox.get(timeout=PATIENCE_SECONDS)

    def result(self, script: str, **more: float) -> Finished:
        self.add(script)
        self.run(**more)  # pyright: ignore[reportArgumentType]
        return self.end()

    def saw(self, name: str) -> str:
        """Return what a handler has written into a file of that name, once it has."""
        file = self.directory / name
        return eventually(
            lambda: file.read_text() if file.exists() else "", lambda text: "\n" in text
        ).strip()
