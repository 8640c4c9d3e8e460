"""`record`: record the answers of an endpoint, without approving anything.

It needs no extra of the package, because it runs inside VMs.
"""

import os
import signal
import stat
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

from forewarn import __version__
from forewarn.cli.command_table import Call
from forewarn.cli.failure import CommandError, Exit
from forewarn.cli.status_line import StatusLine
from forewarn.cli.stopping import Terminals, ending_signals
from forewarn.clock import Clock, SystemClock
from forewarn.instants import (
    MILLISECOND,
    SECOND,
    Micros,
    describe_duration,
    format_duration,
    format_instant,
    parse_duration,
)
from forewarn.protocol import versions
from forewarn.sim.pseudonyms import Pseudonyms
from forewarn.sim.recording import Header, describe
from forewarn.testing.asking import Asker
from forewarn.testing.recorder import Polled, Recorder

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
    timeout = _duration(call, "timeout")
    lasts = _duration(call, "for") if call.text("for") else None
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
        with _Stops() as stops:
            why = _run(
                recorder, clock=clock, lasts=lasts, tell=screen.tell, stops=stops
            )
            recorder.end(why)
    finally:
        screen.clear()
        sheet.close()
    screen.say(_summary(recorder, sheet.name, why))
    return Exit.DONE if recorder.answers else Exit.UNREACHABLE


def _header(call: Call, url: str) -> Header:
    poll = _duration(call, "poll")
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


def _duration(call: Call, key: str) -> Micros:
    try:
        return parse_duration(call.text(key))
    except ValueError as error:
        raise CommandError(Exit.USAGE, f"--{key}: {error}") from error


def _run(
    recorder: Recorder,
    *,
    clock: Clock,
    lasts: Micros | None,
    tell: Callable[[Polled, Micros], None],
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
        tell(polled, clock.now())
        pause = polled.pause_seconds
        if ends is not None:
            pause = min(pause, max(ends - clock.monotonic(), 0.0))
        if stops.wait(pause):
            break
    else:
        return "the time is over"
    return "interrupted"


class _Stops(threading.Event):
    """An event that SIGINT, SIGTERM and SIGHUP set. They also interrupt a poll."""

    def __init__(self) -> None:
        super().__init__()
        self.may_interrupt = False
        self._before: dict[int, Any] = {}
        self._terminals = Terminals()

    def __enter__(self) -> Self:
        for number in ending_signals():
            self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _hear(self, *_: object) -> None:
        self._terminals.leave()
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

    def tell(self, polled: Polled, now: Micros) -> None:
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
