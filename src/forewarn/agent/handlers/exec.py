"""Handlers that are programs: the usual kind.

A program gets the event as JSON on its standard input and in its environment, has
prepared or recovered when its exit status is 0, and is asked to end with SIGTERM when
its time is up, which is a failure whatever it says then. It is a process group of its
own, and survives the agent: one that was started again waits on, or finds how it
ended. See `records` for what makes that so.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
from collections.abc import Iterator, Sequence

from forewarn.agent import forms
from forewarn.agent.handlers import process
from forewarn.agent.handlers.port import Ground, Job, Result
from forewarn.agent.handlers.records import Folder, last_line, subject_of
from forewarn.agent.handlers.run_context import (
    HandlerError,
    LostError,
    RunContext,
)
from forewarn.agent.settings_model import HandlerSettings
from forewarn.instants import SECOND, format_instant

logger = logging.getLogger("forewarn.agent.handlers")

CHECK_SECONDS = 10
"""For the program that checks a handler: a person waits for it."""

_SIGNAL = 128
"""A shell's exit status is so much more than the signal that ended the program."""

_NOT_EXECUTABLE, _NOT_FOUND = 126, 127
"""What a shell says where it could not start the program."""


class ExecWorker:
    """Runs the programs of one handler."""

    def __init__(self, settings: HandlerSettings, ground: Ground) -> None:
        """Run nothing yet."""
        self._program = settings
        self._shelf = ground.shelf
        self._environment = ground.environment

    def prepare(self, job: Job, context: RunContext) -> Result:
        """Run the program for preparation; raises HandlerError."""
        return self._run(self._program.prepare, job, context)

    def recover(self, job: Job, context: RunContext) -> Result:
        """Run the program for recovery; raises HandlerError."""
        return self._run(self._program.recover, job, context)

    def resume(self, job: Job, context: RunContext) -> Result:
        """Wait for a program that a former agent started; raises HandlerError."""
        folder = self._shelf.folder(job.run_id)
        if not folder.exists():
            raise LostError("the agent ended before the program began")
        if folder.claim():
            raise LostError("the agent ended before the program began; it never will")
        running = process.find(folder, context)
        if running is not None:
            return self._ended(running, folder, context)
        status = folder.status()
        # While the agent was down nobody did.
        folder.trim()
        if status is None:
            raise LostError("the program was ended from outside, or with the VM")
        return _result(status, folder)

    def check(self, vm: str = "") -> Sequence[str]:
        """Return which programs cannot be run, and what the handler's check says."""
        del vm
        program = self._program
        path = self._environment.get("PATH", os.defpath)
        found = [
            cannot_run(words[0], path)
            for words in (program.prepare, program.recover, program.check)
            if words
        ]
        if program.directory and not os.path.isdir(program.directory):
            found.append(f"there is no folder {program.directory}")
        # One program may do both.
        found = [sentence for sentence in dict.fromkeys(found) if sentence]
        if program.check and not found:
            found = list(self._checked(program.check))
        return found

    def _checked(self, words: Sequence[str]) -> Iterator[str]:
        """Yield what a program says that is there to find out."""
        try:
            done = subprocess.run(  # noqa: S603 - what the settings name
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=self._program.directory or "/",
                env={**self._environment, **dict(self._program.environment)},
                timeout=CHECK_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            yield f"{words[0]} has not ended after {CHECK_SECONDS} s"
        except OSError as error:
            yield f"{words[0]} cannot be started: {error.strerror}"
        else:
            if done.returncode:
                said = last_line(done.stdout.decode("utf-8", "replace"))
                yield f"{words[0]}: exit status {done.returncode}: {said}"

    def _run(self, words: Sequence[str], job: Job, context: RunContext) -> Result:
        if not words:
            return Result()
        folder = self._shelf.folder(job.run_id)
        if context.remaining() <= 0:
            raise context.ended(" before the program began")
        result = self._earlier(job, context)
        if result is not None:
            return result
        # Names are unique, but a journal may have been copied back from a backup.
        folder.remove()
        environment = {
            **self._environment,
            **dict(self._program.environment),
            **variables(job),
        }
        try:
            made = self._made(folder, job)
            running = process.start(
                made, words, environment, directory=self._program.directory
            )
        except (OSError, ValueError) as error:
            raise HandlerError(
                f"{words[0]} cannot be started: {error}",
                hint="Look at the handler's program, and at the folder of `state`.",
            ) from error
        try:
            return self._ended(running, made, context)
        finally:
            if made is not folder:
                made.remove()

    def _earlier(self, job: Job, context: RunContext) -> Result | None:
        """Wait for a run of this handler that an agent began whose journal was lost.

        Two at once would get into each other's way. Where it is for the same, its result
        is this run's: it ended now. What has ended before says nothing of this run.
        """
        for folder in self._shelf.folders_of(job.handler):
            if folder.claim():
                # Its program never began, and never will.
                continue
            running = process.running(folder)
            if running is None:
                continue
            if subject_of(folder.name) == subject_of(job.run_id):
                return self._ended(running, folder, context)
            if not running.wait(context):
                raise context.ended(f" while {folder.name} ran, of a lost journal")
        return None

    def _made(self, folder: Folder, job: Job) -> Folder:
        """Return the folder, made; raises OSError.

        To prepare is worth more than to be found again: where there is no room for it,
        it is one in another place, which no later agent looks for.
        """
        event = json.dumps(forms.event_json(job.notice)).encode()
        try:
            folder.make(event)
        except OSError as error:
            folder.remove()
            logger.warning(
                "handler %s is run without a record of it: %s", job.handler, error
            )
            folder = self._shelf.spare()
            folder.make(event)
        return folder

    def _ended(
        self, running: process.Process, folder: Folder, context: RunContext
    ) -> Result:
        """Wait for the end of a program, and tell it."""
        if not running.wait(context):
            how = "had to be killed" if running.was_killed else "ended when asked"
            last = folder.last_line()
            said = f"; its last words: {last}" if last else ""
            raise context.ended(f", and it {how}{said}")
        status = running.status()
        if status is None:
            raise HandlerError("the program was killed, and not by the agent")
        return _result(status, folder)


def variables(job: Job) -> dict[str, str]:
    """Return what the environment tells of a run.

    Each name has a long form, `FOREWARN_EVENT_…`, and a short one without `EVENT`.
    """
    words = {
        **forms.event_words(job.notice),
        "phase": job.phase.value,
        "deadline": format_instant(job.stop_at // SECOND * SECOND),
        "vm": job.vm,
        # A shell can count with this; a deadline it would have to parse first.
        "timeout": str(max(0, (job.stop_at - job.now) // SECOND)),
        "handler": job.handler,
        "attempt": str(job.attempt),
        "run": job.run_id,
    }
    return {
        f"FOREWARN_{middle}{name.upper()}": forms.variable(text)
        for name, text in words.items()
        for middle in ("EVENT_", "")
    }


def cannot_run(word: str, path: str) -> str:
    """Return why a program cannot be run; empty: it can, as far as one sees."""
    if os.sep in word:
        places = [word]
    else:
        places = [os.path.join(each or ".", word) for each in path.split(os.pathsep)]
    files = [place for place in places if os.path.isfile(place)]
    if not files:
        return f"there is no program {word}"
    if not any(os.access(file, os.X_OK) for file in files):
        return f"{files[0]} may not be executed: chmod +x it"
    return ""


def _result(status: int, folder: Folder) -> Result:
    last = folder.last_line()
    if status == 0:
        return Result(detail=last)
    if status in {_NOT_EXECUTABLE, _NOT_FOUND} and last:
        how = f"exit status {status}: the program could not be started, or says"
    elif status > _SIGNAL:
        how = f"ended by signal {status - _SIGNAL}"
    else:
        how = f"exit status {status}"
    raise HandlerError(f"{how}: {last}" if last else how)
