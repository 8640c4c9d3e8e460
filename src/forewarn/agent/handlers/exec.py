"""Handlers that run a program, the most common kind, or a Python function.

A program gets the event as JSON on its standard input and in its environment. Exit
status 0 means that it has prepared or recovered. At its deadline it gets SIGTERM, and
the run has failed whatever the exit status is then. The program has its own process
group and survives the agent: a restarted agent waits for it, or reads its exit status.
`records` describes the files that make this possible.

With `prepare = "module:function"`, the agent's interpreter is the program. The function
gets the event as a dictionary with the names of the wire. The dictionary is empty if the
journal was lost. All other values are in the environment. The run fails if the function
raises or returns False, or if it is asynchronous or a generator, since its body has not
run then.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

from forewarn.agent import forms
from forewarn.agent.handlers import process
from forewarn.agent.handlers.port import Ground, Job, Result
from forewarn.agent.handlers.records import RunDirectory, last_line, subject_of
from forewarn.agent.handlers.run_context import (
    HandlerError,
    LostError,
    RunContext,
)
from forewarn.agent.settings_model import HandlerSettings
from forewarn.instants import SECOND, format_instant

logger = logging.getLogger("forewarn.agent.handlers")

CHECK_SECONDS = 10
"""Timeout for the program that checks a handler, in seconds: a person waits for it."""

_SIGNAL = 128
"""A shell's exit status minus this is the signal that ended the program."""

_NOT_EXECUTABLE, _NOT_FOUND = 126, 127
"""Exit statuses of a shell that could not start the program."""

_CALL = """
import importlib, json, sys, types

usual = sys.excepthook
def last_words(kind, error, trace):
    usual(kind, error, trace)
    has_more = hasattr(error, "__notes__") or hasattr(error, "exceptions")
    if has_more or "\\n" in str(error).strip():
        # The last line of the traceback would not name the error.
        print(f"{kind.__name__}:", *str(error).split(), file=sys.stderr)
sys.excepthook = last_words

def loaded(entry):
    module, _, name = entry.partition(":")
    target = importlib.import_module(module)
    for part in name.split("."):
        target = getattr(target, part)
    if not callable(target):
        sys.exit(f"{entry} cannot be called")
    return target

def refuse(entry):
    sys.exit(f"{entry} is asynchronous or a generator, so calling it runs nothing: "
        "make it a normal function, which may call asyncio.run()")

def call(entry):
    result = loaded(entry)(json.loads(sys.stdin.read() or "null") or {})
    lazy = types.CoroutineType, types.GeneratorType, types.AsyncGeneratorType
    if isinstance(result, lazy) or hasattr(result, "__await__"):
        getattr(result, "close", int)()
        refuse(entry)
    sys.exit(1 if result is False else 0)

def check(entry):
    import inspect
    kinds = (inspect.iscoroutinefunction, inspect.isgeneratorfunction,
        inspect.isasyncgenfunction)
    target = loaded(entry)
    callables = (target, type(target).__call__)
    if any(kind(function) for kind in kinds for function in callables):
        refuse(entry)
    try:
        takes = inspect.signature(target)
    except (TypeError, ValueError):
        return  # Functions written in C have no signature.
    try:
        takes.bind({})
    except TypeError as error:
        sys.exit(f"{entry} cannot be called with the event as its only argument: {error}")

then, *entries = sys.argv[1:]
for entry in entries[then == "call":]:
    check(entry)
if then == "call":
    call(entries[0])
"""
"""A script that checks entry points, or calls the first one and checks the others. It
does not import forewarn, so it also works with the agent's single file."""


class ExecWorker:
    """Run the programs of one handler."""

    def __init__(self, settings: HandlerSettings, ground: Ground) -> None:
        """Store the settings."""
        self._program = settings
        self._records = ground.records
        self._environment = ground.environment

    def prepare(self, job: Job, context: RunContext) -> Result:
        """Run the program of `prepare`; raises HandlerError."""
        return self._run(self._program.prepare, job, context)

    def recover(self, job: Job, context: RunContext) -> Result:
        """Run the program of `recover`; raises HandlerError."""
        return self._run(self._program.recover, job, context)

    def resume(self, job: Job, context: RunContext) -> Result:
        """Wait for a program that an earlier agent started; raises HandlerError."""
        directory = self._records.directory(job.run_id)
        if not directory.exists():
            raise LostError("the agent ended before the program started")
        if directory.claim():
            raise LostError(
                "the agent ended before the program started; it will not start"
            )
        if (running := process.find(directory, context)) is not None:
            return self._ended(running, directory, context)
        status = directory.status()
        # The output was not cut while the agent was down.
        directory.trim()
        if status is None:
            raise LostError(
                "the program was killed by another process, or ended with the VM"
            )
        return _result(status, directory)

    def check(self, _vm: str = "") -> Sequence[str]:
        """Return which programs cannot be run, and the problems that `check` reports."""
        program = self._program
        path = self._environment.get("PATH", os.defpath)
        problems = [
            cannot_run(command[0], path)
            for command in (program.prepare, program.recover, program.check)
            if command
        ]
        if program.directory and not os.path.isdir(program.directory):
            problems.append(f"there is no directory {program.directory}")
        # One program may prepare and recover.
        problems = [sentence for sentence in dict.fromkeys(problems) if sentence]
        if program.check and not problems:
            problems = list(self._checked(program.check))
        return problems

    def _checked(self, command: Sequence[str]) -> Iterator[str]:
        """Run the program of `check`, and yield its problem."""
        try:
            done = subprocess.run(  # noqa: S603 - what the settings name
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=self._program.directory or "/",
                env={**self._environment, **dict(self._program.environment)},
                timeout=CHECK_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            yield f"{command[0]} did not end within {CHECK_SECONDS} s"
        except OSError as error:
            yield f"cannot start {command[0]}: {error.strerror}"
        else:
            if done.returncode:
                output = last_line(done.stdout.decode("utf-8", "replace"))
                yield f"{command[0]}: exit status {done.returncode}: {output}"

    def _run(self, command: Sequence[str], job: Job, context: RunContext) -> Result:
        if not command:
            return Result()
        directory = self._records.directory(job.run_id)
        if context.remaining() <= 0:
            raise context.ended(" before the program started")
        if (result := self._earlier(job, context)) is not None:
            return result
        # IDs are unique, but the journal may have been restored from a backup.
        directory.remove()
        environment = {
            **self._environment,
            **dict(self._program.environment),
            **variables(job),
        }
        try:
            used = self._made(directory, job)
            running = process.start(
                used, command, environment, directory=self._program.directory
            )
        except (OSError, ValueError) as error:
            raise HandlerError(
                f"cannot start {command[0]}: {error}",
                hint="Check the handler's program and the directory of `state`.",
            ) from error
        try:
            return self._ended(running, used, context)
        finally:
            if used is not directory:
                used.remove()

    def _earlier(self, job: Job, context: RunContext) -> Result | None:
        """Wait for a run of this handler from an agent whose journal was lost.

        Two runs at the same time would interfere. If the other run has the same event
        and phase, its result is the result of this run. Runs that have already ended
        are ignored.
        """
        for directory in self._records.directories_of(job.handler):
            if directory.claim():
                # The program of the run never started, and will not start now.
                continue
            if (running := process.running(directory)) is None:
                continue
            if subject_of(directory.name) == subject_of(job.run_id):
                return self._ended(running, directory, context)
            if not running.wait(context):
                raise context.ended(
                    f" while {directory.name} of a lost journal was running"
                )
        return None

    def _made(self, directory: RunDirectory, job: Job) -> RunDirectory:
        """Create the directory of a run; raises OSError.

        Preparing is more important than being found again. If the directory cannot be
        created, another place is used, where a later agent does not look.
        """
        event = json.dumps(forms.event_json(job.notice)).encode()
        try:
            directory.make(event)
        except OSError as error:
            directory.remove()
            logger.warning("handler %s runs without a record: %s", job.handler, error)
            directory = self._records.spare()
            directory.make(event)
        return directory

    def _ended(
        self, running: process.Process, directory: RunDirectory, context: RunContext
    ) -> Result:
        """Wait for the end of a program, and return its result."""
        if not running.wait(context):
            how = "had to be killed" if running.was_killed else "ended on SIGTERM"
            output = f"; last output: {last}" if (last := directory.last_line()) else ""
            raise context.ended(f", and it {how}{output}")
        if (status := running.status()) is None:
            raise HandlerError("the program was killed by another process")
        return _result(status, directory)


def variables(job: Job) -> dict[str, str]:
    """Return the environment variables of a run.

    Each name has a long form, `FOREWARN_EVENT_…`, and a short form without `EVENT`.
    """
    texts = {
        **forms.event_words(job.notice),
        "phase": job.phase.value,
        "deadline": format_instant(job.stop_at // SECOND * SECOND),
        "vm": job.vm,
        # Give the seconds too: a shell can calculate with them, but would have to parse
        # a deadline.
        "timeout": str(max(0, (job.stop_at - job.now) // SECOND)),
        "handler": job.handler,
        "attempt": str(job.attempt),
        "run": job.run_id,
    }
    return {
        f"FOREWARN_{middle}{name.upper()}": forms.variable(text)
        for name, text in texts.items()
        for middle in ("EVENT_", "")
    }


def cannot_run(word: str, path: str) -> str:
    """Return why a program cannot be run; empty if no problem was found."""
    if os.sep in word:
        places = [word]
    else:
        places = [
            os.path.join(directory or ".", word) for directory in path.split(os.pathsep)
        ]
    if not (files := [place for place in places if os.path.isfile(place)]):
        return f"there is no program {word}"
    if not any(os.access(file, os.X_OK) for file in files):
        return f"{files[0]} is not executable: run chmod +x on it"
    return ""


def _result(status: int, directory: RunDirectory) -> Result:
    last = directory.last_line()
    if status == 0:
        return Result(detail=last)
    if status in {_NOT_EXECUTABLE, _NOT_FOUND} and last:
        how = f"exit status {status}: the shell could not start the program, or it printed"
    elif status > _SIGNAL:
        how = f"ended by signal {status - _SIGNAL}"
    else:
        how = f"exit status {status}"
    raise HandlerError(f"{how}: {last}" if last else how)


def python_worker(settings: HandlerSettings, ground: Ground) -> ExecWorker:
    """Return the worker for a handler whose actions are entry points."""
    # -P keeps modules in the current directory out. Modules in a directory that the
    # settings name are wanted.
    safe = () if settings.directory else ("-P",)

    def words(then: str, *entries: str) -> tuple[str, ...]:
        start = (sys.executable, *safe, "-u", "-c", _CALL, then)
        return (*start, *entries) if entries else ()

    # Check that the functions can be imported and called, even without a `check`.
    entries = (*settings.check, *settings.prepare, *settings.recover)
    return ExecWorker(
        replace(
            settings,
            prepare=words("call", *settings.prepare),
            recover=words("call", *settings.recover),
            check=words("call" if settings.check else "look", *entries),
        ),
        ground,
    )
