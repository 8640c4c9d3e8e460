"""The records of the command driver and its shims: a directory for each call.

`OPERATION.GENERATION/` has the accepted call (`call.json`) and the records of the shim
of each VM's program. It has `stop` if the call must end early, and `told` when control
has stored the result. The directory is created as a whole, so a call was either
accepted or not. Any process of the service can find the state of a call in the
records, even if another process began it.
"""

import contextlib
import functools
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from forewarn.drivers import program_output, shim
from forewarn.drivers.marks import Reading, Trace, mark_of
from forewarn.drivers.port import Call, CallVm, DriverError
from forewarn.drivers.step_notes import step_from
from forewarn.ids import RandomIds
from forewarn.instants import Micros
from forewarn.problems import hint_for
from forewarn.protocol.enumerations import Enumeration
from forewarn.protocol.host_steps import HostStep
from forewarn.protocol.operations import Action
from forewarn.texts import readable


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The program of one VM."""

    vm: str
    to_host: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A call as it was accepted, with the input of its programs."""

    call: Call
    runs: tuple[Run, ...]
    timeout: float | None
    """Maximum seconds for each program; None: no limit."""
    grace: float
    """Seconds between SIGTERM and SIGKILL."""


def note_of(plan: Plan) -> dict[str, Any]:
    """Return the call in the form that its directory keeps and its shims read."""
    call = plan.call
    text = mark_of(call).text
    note: dict[str, Any] = {
        "action": call.action.value,
        "operation": call.operation_id,
        "generation": call.generation,
        "host": call.host,
        "seconds": call.duration_seconds,
        "term": call.term,
        "store": call.store,
    }
    if call.step is not None:
        return {**_note_of_step(plan, call.step), **note}
    runs = [
        {
            "vm": run.vm,
            "to_host": run.to_host,
            "words": run.words,
            "input": {
                **note,
                "vm": run.vm,
                "to_host": run.to_host or None,
                "mark": text,
                "closed": call.closed,
                "waiting": call.waiting,
            },
        }
        for run in plan.runs
    ]
    return {**note, "timeout": plan.timeout, "grace": plan.grace, "runs": runs}


def _note_of_step(plan: Plan, step: HostStep) -> dict[str, Any]:
    call = plan.call
    about = {"step": step.kind.value, "name": step.name, "campaign": call.campaign}
    request = {
        "visit": call.operation_id,
        "generation": call.generation,
        "host": call.host,
        **about,
        "arguments": dict(step.arguments),
        "mark": mark_of(call).text,
        "term": call.term,
        "store": call.store,
    }
    runs = [
        {"vm": "", "to_host": "", "words": run.words, "input": request}
        for run in plan.runs
    ]
    limits = {"timeout": plan.timeout, "grace": plan.grace}
    return {**about, "arguments": request["arguments"], **limits, "runs": runs}


def plan_from(note: dict[str, Any]) -> Plan:
    """Return the call of a note; raises KeyError, ValueError, TypeError."""
    runs = tuple(
        Run(vm=run["vm"], to_host=run["to_host"], words=tuple(run["words"]))
        for run in note["runs"]
    )
    step = step_from(note)
    return Plan(
        call=Call(
            operation_id=note["operation"],
            generation=note["generation"],
            action=Action(note["action"]),
            host=note["host"],
            vms=()
            if step
            else tuple(CallVm(vm=run.vm, to_host=run.to_host) for run in runs),
            duration_seconds=note["seconds"],
            step=step,
            campaign=note.get("campaign", ""),
            term=note.get("term", 0),
            store=note.get("store", ""),
        ),
        runs=runs,
        timeout=note["timeout"],
        grace=note["grace"],
    )


REPORTED = "told"

IDENTITY = "memory.json"
"""The file with the identity of the records. The name is not hidden, so that a shell
pattern that removes all records also removes their identity."""

_NEW = ".new-"
"""The prefix of the temporary name of a call's directory, until it is complete."""

DONE_STATUS = 0
RUNS_STATUS = 1
UNTOLD_STATUS = 2
DOWN_STATUS = 3
"""Exit statuses: done; failed and the VM runs; failed and the VM does not run. Other
statuses are failures that tell nothing about the VM."""
NOT_NEEDED_STATUS = 70
"""Exit status of a step `needed`: the host does not need the work."""

LAST_WORDS_CHARACTERS = 200
"""Maximum characters of output in a report: a line or two; the records have more."""

_NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]*)\.([0-9]{1,9})", re.ASCII)


class RunState(Enumeration):
    """The state of the program of one VM."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    LOST = "lost"
    """The program was started, its shim is gone, and there is no recorded end."""


UNDER_WAY = frozenset({RunState.WAITING, RunState.RUNNING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of the program of one VM."""

    state: RunState
    reason: str = ""
    running: bool | None = None
    """Whether the VM runs; None: the program did not tell."""
    host: str = ""
    """The host that the VM is on, if the program reported it."""
    is_watched: bool = False
    """The shim of the program is alive, so the program can be stopped."""
    paused: Micros | None = None
    """How long the VM was paused, if the program reported it."""
    is_not_needed: bool = False
    """Whether the program ended with NOT_NEEDED_STATUS."""


_WAITING = Progress(state=RunState.WAITING)
_STOPPED = Progress(state=RunState.FAILED, reason="it was stopped before it began")


class CallDirectory:
    """The records of one call."""

    def __init__(self, path: Path, operation_id: str, generation: int) -> None:
        """Name the call; read nothing yet."""
        self.path = path
        self.operation_id = operation_id
        self.generation = generation
        self._ends: dict[int, Progress] = {}

    @functools.cached_property
    def plan(self) -> Plan:
        """Return the call as it was accepted; raises DriverError."""
        note = _read(self.path / shim.CALL)
        try:
            return plan_from(note or {})
        except (KeyError, ValueError, TypeError) as error:
            raise DriverError(f"{self.path / shim.CALL} is not a record") from error

    def number_of(self, plan: Plan, run: Run) -> int | None:
        """Return the number of the program that does the work of `run`; None: none."""
        own_plan = self.plan
        if own_plan.call.step or plan.call.step:
            # Each step of a visit runs after the earlier ones, and is never the same.
            return 0 if own_plan.call.step and plan.call.step else None
        if (own_plan.call.action, own_plan.call.host) != (
            plan.call.action,
            plan.call.host,
        ):
            return None
        for number, own_run in enumerate(own_plan.runs):
            if (own_run.vm, own_run.to_host) == (run.vm, run.to_host):
                return number
        return None

    # Reading

    def progress_of(self, number: int) -> Progress:
        """Return the progress of the program of one VM."""
        known = self._ends.get(number)
        if known is not None:
            return known
        start = self.path / f"{number}.start"
        if not start.exists():
            return _STOPPED if self.is_stopped else _WAITING
        # First look for the process, then read the record: a shim records, then ends.
        claimed = _read(start)
        is_watched = _is_alive(claimed)
        is_running = is_watched or _is_alive(_read(self.path / f"{number}.program"))
        end = _read(self.path / f"{number}.end")
        if end is None and claimed is not None and "end" in claimed:
            end = claimed
        if end is not None:
            self._ends[number] = _progress_of(end)
            return self._ends[number]
        if is_running:
            return Progress(state=RunState.RUNNING, is_watched=is_watched)
        return Progress(state=RunState.LOST)

    def progress(self) -> list[Progress]:
        """Return the progress of each program; raises DriverError."""
        return [self.progress_of(number) for number in range(len(self.plan.runs))]

    @property
    def is_stopped(self) -> bool:
        """Return whether the call must end early."""
        return (self.path / shim.STOP).exists()

    @property
    def is_reported(self) -> bool:
        """Return whether control has stored the result."""
        return (self.path / REPORTED).exists()

    # Writing

    def record_end(
        self, number: int, *, end: str, status: int | None, output: str
    ) -> None:
        """Record the end of a program without a shim; raises OSError."""
        note = {"end": end, "status": status, "output": output}
        shim.write(self.path / f"{number}.end", note)

    def record_unstarted(self, number: int, *, end: str, output: str) -> None:
        """Record that a program does not run, unless a shim has started it.

        The claim says so by itself: a disk that is full has no room for a second record.
        Raises OSError if even that cannot be written.
        """
        note = {"pid": 0, "identity": "", "end": end, "status": None, "output": output}
        if shim.claim(self.path / f"{number}.start", note):
            with contextlib.suppress(OSError):
                self.record_end(number, end=end, status=None, output=output)

    def stop(self) -> None:
        """Request the end of all programs of the call; raises OSError."""
        shim.write(self.path / shim.STOP, {})

    def note_reported(self) -> None:
        """Record that control has the result; after a crash, it may be reported again."""
        (self.path / REPORTED).touch()


class CallDirectories:
    """The directory that contains the directories of all calls."""

    def __init__(self, path: Path) -> None:
        """Create the directory if it is missing; raises DriverError."""
        self.path = path.absolute()
        try:
            self.path.mkdir(mode=0o700, exist_ok=True)
            self._is_used = any(True for _ in self.each())
            self.identity = self._identify()
            for left in (*self.path.glob(f"{_NEW}*"), *self.path.glob(".old-*")):
                shutil.rmtree(left, ignore_errors=True)
        except OSError as error:
            raise DriverError(
                f"the command driver's records {path} cannot be used: {error.strerror}",
                hint=hint_for(error),
            ) from error

    def _identify(self) -> str:
        """Return the identity of the records; create one if there is none.

        If the records had calls before and have none now, someone deleted the calls.
        The records then get a new identity. The first call does not count while its
        directory has its temporary name: a crash prevented its acceptance.
        """
        note = _read(self.path / IDENTITY) or {}
        identity = note.get("id", "")
        first = self.path / f"{_NEW}{note.get('first')}"
        had_calls = note.get("used") and not first.exists()
        if not identity or (had_calls and not self._is_used):
            identity = RandomIds().short("memory")
            note = {}
        # After the first call, its name must not explain a later crash.
        if note.get("used") != self._is_used or note.get("first"):
            self._write_identity(identity, is_used=self._is_used)
        return identity

    def _write_identity(self, identity: str, *, is_used: bool, first: str = "") -> None:
        note = {"id": identity, "used": is_used, "first": first}
        shim.write(self.path / IDENTITY, note)

    def each(self) -> Iterator[CallDirectory]:
        """Yield all calls, in no particular order."""
        for path in self.path.iterdir():
            if named := _NAME.fullmatch(path.name):
                yield CallDirectory(path, named[1], int(named[2]))

    def accept(
        self, plan: Plan, taken_over: Mapping[int, dict[str, Any]] | None = None
    ) -> CallDirectory:
        """Record a call as a whole; raises DriverError if that fails.

        None of its programs starts if it is `taken_over` from another memory. The
        mapping then has the ends of those that have a known end.
        """
        call = plan.call
        name = f"{call.operation_id}.{call.generation}"
        if not _NAME.fullmatch(name):
            raise DriverError(f"{name!r} is not the name of a call")
        fresh, path = self.path / f"{_NEW}{name}", self.path / name
        try:
            fresh.mkdir()
            shim.write(fresh / shim.CALL, note_of(plan))
            if taken_over is not None:
                _write_ends(fresh, len(plan.runs), taken_over)
            if not self._is_used:
                # Write the mark first, so that a crash leaves no call without it.
                self._write_identity(self.identity, is_used=True, first=name)
            fresh.rename(path)
            shim.sync_directory(self.path)
            self._is_used = True
        except OSError as error:
            shutil.rmtree(fresh, ignore_errors=True)
            shutil.rmtree(path, ignore_errors=True)
            if not self._is_used:
                with contextlib.suppress(OSError):
                    self._write_identity(self.identity, is_used=False)
            raise DriverError(
                f"the call cannot be recorded in {self.path}: {error.strerror}"
            ) from error
        return CallDirectory(path, call.operation_id, call.generation)

    def remove(self, directory: CallDirectory) -> None:
        """Remove a call as a whole; the next start removes the rest after a crash."""
        old = self.path / f".old-{directory.path.name}"
        with contextlib.suppress(OSError):
            directory.path.rename(old)
        shutil.rmtree(old, ignore_errors=True)


def _write_ends(
    directory: Path, count: int, ends: Mapping[int, dict[str, Any]]
) -> None:
    for number in range(count):
        shim.write(directory / f"{number}.start", {"pid": 0, "identity": ""})
        if number in ends:
            shim.write(directory / f"{number}.end", ends[number])


def end_by_mark(trace: Trace, reading: Reading) -> dict[str, Any] | None:
    """Return the end of a program according to a mark; None: the mark tells none."""
    output = f"vm-host: {reading.host}\n" if reading.host else ""
    if trace is Trace.DONE:
        return {"end": "marked", "status": DONE_STATUS, "output": output}
    if trace is Trace.FAILED:
        statuses = {True: RUNS_STATUS, False: DOWN_STATUS, None: UNTOLD_STATUS}
        status = statuses[reading.running]
        return {"end": "marked", "status": status, "output": output}
    if trace is Trace.NOT_STARTED:
        return {"end": "unbegun", "status": None, "output": ""}
    return None


def has_calls(path: Path) -> bool:
    """Return whether a directory of records has any call; change nothing."""
    try:
        return any(_NAME.fullmatch(entry.name) for entry in path.iterdir())
    except OSError:
        # The directory does not exist, or opening it later reports why it cannot be
        # used.
        return False


def _read(path: Path) -> dict[str, Any] | None:
    """Return a record; None if there is no readable one."""
    try:
        note = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return cast("dict[str, Any]", note) if isinstance(note, dict) else None


def _is_alive(note: dict[str, Any] | None) -> bool:
    if not note or not note["identity"]:
        return False
    return shim.identity(note["pid"]) == note["identity"]


_ENDS = {
    "unstartable": "the program could not be started{after}",
    "withdrawn": "it was not started, because its call was aborted",
    "stopped": "it was stopped{after}",
    "timed out": "the program exceeded its timeout and was ended{after}",
    "marked": "its end was not recorded; the mark says that it failed",
    "unbegun": "the mark says that it was not started",
    "probed": "its end was not recorded; the probe reported a failure{after}",
}
"""Reasons of a failure by the kind of end, with the last output of the program."""


_TELLING = frozenset({"exited", "probed", "marked"})
"""The kinds of end whose exit status tells about the VM."""


def _progress_of(end: dict[str, Any]) -> Progress:
    """Return the meaning of a recorded end."""
    how, status, output = end["end"], end.get("status"), end.get("output", "")
    last = readable(output, last=LAST_WORDS_CHARACTERS)
    after = f": {last}" if last else ""
    if how == "carried" or (how in _TELLING and status == DONE_STATUS):
        return Progress(
            state=RunState.DONE,
            reason=last,
            host=program_output.host_in(output),
            paused=program_output.pause_in(output),
        )
    reason = f"exit status {status}{after}"
    if how in _ENDS:
        reason = _ENDS[how].format(after=after)
    elif status is not None and status < 0:
        reason = f"the program was ended by signal {-status}{after}"
    return Progress(
        state=RunState.FAILED,
        reason=reason,
        running=_RUNNING.get(status) if how in _TELLING else None,
        host=program_output.host_in(output),
        is_not_needed=how == "exited" and status == NOT_NEEDED_STATUS,
    )


_RUNNING: Mapping[int | None, bool] = {RUNS_STATUS: True, DOWN_STATUS: False}
"""Whether a VM runs after a failure, by the exit status."""
