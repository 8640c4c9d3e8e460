"""`record`: record the answers of an endpoint, without approving anything.

It needs no extra of the package, because it runs inside VMs.
"""

import os
import stat
import sys
import threading
from collections.abc import Callable
from dataclasses import replace

from forewarn import __version__
from forewarn.cli.command_table import Call, CommandError, Exit
from forewarn.cli.stopping import StatusLine, Terminals, interruptible
from forewarn.cli.times import duration
from forewarn.clock import Clock, SystemClock
from forewarn.instants import (
    MILLISECOND,
    SECOND,
    Micros,
    describe_duration,
    format_duration,
    format_instant,
)
from forewarn.protocol import versions
from forewarn.sim.pseudonyms import Pseudonyms
from forewarn.sim.recording import Header, describe
from forewarn.testing.recorder import Asker, Polled, Recorder

ENDPOINT = "http://169.254.169.254"
"""Default URL of the endpoint of a VM."""

NAME_SECONDS = 2.0
"""Timeout for the name of the VM, before the first poll."""

POLL_MIN: Micros = 10 * MILLISECOND
"""Minimum polling interval: a shorter one would be a load test."""

STANDARD_OUTPUT = "-"


def record(call: Call) -> int:
    """Record an endpoint until a signal or the end of --for; return the status."""
    url = call.text("endpoint") or call.environ.get("FOREWARN_ENDPOINT") or ENDPOINT
    clock = SystemClock()
    header = _header(call, url)
    try:
        asker = Asker(url, api_version=header.api_version)
    except ValueError as error:
        raise CommandError(
            Exit.USAGE,
            str(error),
            hint="Use the host and port of a metadata endpoint.",
        ) from error
    timeout, lasts = duration(call, "timeout") or 0, duration(call, "for")
    hide = _hide(header)
    sheet = _Sheet(call.text("o"))
    screen = _Screen(sheet.other)
    try:
        vm = asker.name(timeout_seconds=NAME_SECONDS)
        vm = vm if hide is None else hide.name(vm)
        header = replace(header, vm=vm, started=clock.now())
        recorder = Recorder(
            asker,
            clock=clock,
            write=sheet.write,
            header=header,
            timeout=timeout,
            hide=hide,
        )
        screen.say(f"recording {url} to {sheet.name}; no event is approved")
        stops = _Stops()
        with interruptible(stops.on_signal):
            why = _run(
                recorder, clock=clock, lasts=lasts, report=screen.report, stops=stops
            )
            recorder.end(why)
    finally:
        screen.clear()
        sheet.close()
    screen.say(_summary(recorder, sheet.name, why))
    return Exit.DONE if recorder.answers else Exit.UNREACHABLE


def _header(call: Call, url: str) -> Header:
    poll = duration(call, "poll") or 0
    if poll < POLL_MIN:
        raise CommandError(
            Exit.USAGE, f"--poll: must be at least {format_duration(POLL_MIN)}"
        )
    hides = call.flag("pseudonyms")
    return Header(
        api_version=call.text("version"),
        started=0,
        poll=poll,
        endpoint="" if hides else url,
        tool=f"forewarn {__version__}",
        pseudonyms=hides,
    )


def _hide(header: Header) -> Pseudonyms | None:
    if not header.pseudonyms:
        return None
    version = versions.parse(header.api_version)
    assert version is not None, "the parser accepts only known versions"
    return Pseudonyms(underscore=version.underscore)


def _run(
    recorder: Recorder,
    *,
    clock: Clock,
    lasts: Micros | None,
    report: Callable[[Polled, Micros], None],
    stops: "_Stops",
) -> str:
    """Poll until the end; return the reason of the end."""
    ends = None if lasts is None else clock.monotonic() + lasts / SECOND
    while ends is None or clock.monotonic() < ends:
        try:
            stops.may_interrupt = True
            if stops.is_set():
                break
            polled = recorder.poll()
        except KeyboardInterrupt:
            # The interrupted poll does not count.
            break
        finally:
            stops.may_interrupt = False
        report(polled, clock.now())
        pause = polled.pause_seconds
        if ends is not None:
            pause = min(pause, max(ends - clock.monotonic(), 0.0))
        if stops.wait(pause):
            break
    else:
        return "the recording time has elapsed"
    return "interrupted"


class _Stops(threading.Event):
    """An event that SIGINT, SIGTERM and SIGHUP set. They also interrupt a poll."""

    def __init__(self) -> None:
        super().__init__()
        self.may_interrupt = False
        self._terminals = Terminals()

    def on_signal(self, *_: object) -> None:
        """Handle a signal."""
        self._terminals.discard_closed()
        self.set()
        if self.may_interrupt:
            self.may_interrupt = False
            raise KeyboardInterrupt


class _Sheet:
    """The output file. Each line is durable before the next poll."""

    def __init__(self, name: str) -> None:
        self._owns = name != STANDARD_OUTPUT
        self._is_regular = False
        self.name = name if self._owns else "(standard output)"
        self.other = sys.stdout if self._owns else sys.stderr
        """The stream for messages to the user."""
        if not self._owns:
            self._file = sys.stdout.fileno()
            return
        try:
            self._file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise CommandError(
                Exit.USAGE, f"{name} cannot be written: {error.strerror}"
            ) from error
        about = os.fstat(self._file)
        self._is_regular = stat.S_ISREG(about.st_mode)
        if self._is_regular and about.st_size:
            os.close(self._file)
            raise CommandError(
                Exit.USAGE,
                f"{name} already exists and is not empty",
                hint="Choose another name; a recording is never overwritten.",
            )

    def write(self, line: str) -> None:
        """Write one line durably, so that it survives a crash of the VM."""
        data = line.encode("ascii")
        try:
            while data:
                data = data[os.write(self._file, data) :]
            if self._owns and self._is_regular:
                os.fsync(self._file)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise CommandError(
                Exit.FAILED, f"{self.name} cannot be written: {error.strerror}"
            ) from error

    def close(self) -> None:
        """Close the file."""
        if self._owns:
            os.close(self._file)


class _Screen(StatusLine):
    """The progress output."""

    def report(self, polled: Polled, now: Micros) -> None:
        """Report a poll: print a change, and update the status line."""
        stamp = format_instant(now - now % SECOND)
        if polled.moment is not None:
            self.say(f"{stamp} {describe(polled.moment.outcome)}")
        self.show(f"{stamp} {polled.polls} polls, the last as above")


def _summary(recorder: Recorder, name: str, why: str) -> str:
    failed = recorder.polls - recorder.answers
    lasted = recorder.at - recorder.at % SECOND
    return (
        f"{name}: {recorder.polls} polls in {describe_duration(lasted)}, "
        f"{recorder.different} changes, {failed} without an answer; {why}"
    )
