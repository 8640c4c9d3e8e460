"""`record`: watches an endpoint, approves nothing, and keeps what it answered.

It needs no extra, since it runs where the endpoint is: inside a VM.
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
from forewarn.sim.recording import Header, told
from forewarn.testing.asking import Asker
from forewarn.testing.recorder import Polled, Recorder

ENDPOINT = "http://169.254.169.254"
"""Where a VM finds its endpoint, unless somebody says otherwise."""

NAME_SECONDS = 2.0
"""For the VM's own name, before the first poll."""

POLL_MIN: Micros = 10 * MILLISECOND
"""Between two polls: less would be a load test."""

STANDARD_OUTPUT = "-"


def record(call: Call) -> int:
    """Record an endpoint until a signal or the end of the time; return the status."""
    url = call.text("endpoint") or call.environ.get("FOREWARN_ENDPOINT") or ENDPOINT
    clock = SystemClock()
    header = _header(call, url)
    try:
        asker = Asker(url, api_version=header.api_version)
    except ValueError as error:
        raise CommandError(
            Exit.USAGE,
            str(error),
            hint="name the host and port of a metadata endpoint",
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
        screen.say(f"recording {url} in {sheet.name}; nothing is approved")
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
            Exit.USAGE, f"--poll: at least {format_duration(POLL_MIN)} is needed"
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
    assert version is not None, "the parser takes known versions only"
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
    """Poll until it is enough; return why it was."""
    ends = None if lasts is None else clock.monotonic() + lasts / SECOND
    while ends is None or clock.monotonic() < ends:
        try:
            stops.may_interrupt = True
            if stops.is_set():
                break
            polled = recorder.poll()
        except KeyboardInterrupt:
            # In the middle of a poll, which is then none.
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
    """Is set by SIGINT, SIGTERM and SIGHUP; they also end a poll that takes long."""

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
    """Where the lines go; each is there before the next poll, whatever happens."""

    def __init__(self, name: str) -> None:
        self._owns = name != STANDARD_OUTPUT
        self._is_regular = False
        self.name = name if self._owns else "(standard output)"
        self.other = sys.stdout if self._owns else sys.stderr
        """Where people are told of it."""
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
                f"{name} is there already, and is not empty",
                hint="a recording is never overwritten: choose another name",
            )

    def write(self, line: str) -> None:
        """Write one line, so that not even a crash of the VM loses it."""
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
        """Let go of the file."""
        if self._owns:
            os.close(self._file)


class _Screen(StatusLine):
    """Tells a person how it goes."""

    def tell(self, polled: Polled, now: Micros) -> None:
        """Tell of a poll: what is new stays, the rest is the line that changes."""
        stamp = format_instant(now - now % SECOND)
        if polled.moment is not None:
            self.say(f"{stamp} {told(polled.moment.outcome)}")
        self.show(f"{stamp} {polled.polls} polls, the last as above")


def _summary(recorder: Recorder, name: str, why: str) -> str:
    failed = recorder.polls - recorder.answers
    lasted = recorder.at - recorder.at % SECOND
    return (
        f"{name}: {recorder.polls} polls in {describe_duration(lasted)}, "
        f"{recorder.different} changes, {failed} without an answer; {why}"
    )
