"""`simulate --replay FILE`: replay a recording, with a line of output for each change."""

import asyncio
import contextlib
from pathlib import Path

from forewarn.cli import files, link_local
from forewarn.cli.command_table import Call, CommandError, Exit
from forewarn.cli.junit_file import Report
from forewarn.cli.screen import Lines
from forewarn.cli.stopping import BY_SIGNAL, until_signal
from forewarn.cli.times import duration
from forewarn.clock import SystemClock
from forewarn.instants import SECOND, describe_duration
from forewarn.metadata.server import Address
from forewarn.problems import quoted
from forewarn.protocol.errors import ForewarnError
from forewarn.service.listening import url_of
from forewarn.service.loops import new_loop
from forewarn.sim import replay_judging
from forewarn.sim.faults.fault import Playbook
from forewarn.sim.faults.file import read_faults
from forewarn.sim.journal import JournalEntry
from forewarn.sim.news import News, What
from forewarn.sim.playlist import CUT, WAIT
from forewarn.sim.positions import Places, parse_places
from forewarn.sim.recording import Moment, describe
from forewarn.sim.replay import Replay, load, vm_names
from forewarn.sim.scenario.model import Expected, Outcome, length

GRACE_SECONDS = 0.5
"""Grace period for current requests at the end."""

PORTS_TRIED = 100
"""Maximum number of ports in use by other programs that are skipped."""

FORBIDDEN = ("scenario", "fleet", "admin", "name")
"""Options that a replay does not accept: it has no fleet and no operator API."""


def replay(call: Call, report: Report, *, speed: float, vms: int) -> int:
    """Serve the recording of `--replay`; return the exit status."""
    for name in FORBIDDEN:
        if call.text(name):
            shown = "a scenario" if name == "scenario" else f"--{name}"
            raise CommandError(Exit.USAGE, f"--replay cannot be combined with {shown}")
    if call.text("profile") == "real":
        raise CommandError(
            Exit.USAGE,
            "--replay cannot be combined with --profile real",
            hint="Remove --profile: a recording has the delays and the 429 of its endpoint.",
        )
    try:
        command = _Replaying(call, report, speed=speed, vms=vms)
        with contextlib.ExitStack() as undone:
            if call.flag("link_local"):
                undone.enter_context(link_local.served(call.environ))
            with asyncio.Runner(loop_factory=new_loop) as runner:
                return runner.run(command.run())
    except ForewarnError as error:
        raise CommandError(Exit.USAGE, error.message, hint=error.hint) from error


def faults_of(call: Call) -> tuple[Playbook, ...]:
    """Return the faults in the file of `--faults`; raises FaultFileError."""
    if not (name := call.text("faults")):
        return ()
    text, shown = files.read_text(name)
    return read_faults(text, name=shown)


_TOLD = {
    Outcome.PASSED: What.PASSED,
    Outcome.FAILED: What.FAILED,
    Outcome.ERROR: What.FAILED,
    Outcome.SKIPPED: What.SKIPPED,
}


class _Replaying:
    """One run of this command."""

    def __init__(self, call: Call, report: Report, *, speed: float, vms: int) -> None:
        """Read the arguments and files; raises ForewarnError, CommandError."""
        self._recording = load(Path(call.text("replay")))
        self._speed = speed
        self._vms = vm_names(self._recording, vms)
        self._exact = call.flag("exact")
        self._loops = call.flag("loop")
        self._stays = call.flag("stay")
        self._tells_deviations = call.text("profile") == "strict"
        listen = call.text("listen")
        self._places = parse_places(listen) if listen else Places()
        self._may_move = not listen
        self._first = link_local.ADDRESS if call.flag("link_local") else None
        self._faults = faults_of(call)
        wait = duration(call, "wait")
        self._wait_seconds = (WAIT if wait is None else wait) / SECOND
        self._start_after = duration(call, "start_after") or 0
        self._timeout = duration(call, "timeout", is_positive=True)
        self._voice = Lines(is_json=call.flag("json"))
        self._clock = SystemClock()
        self._file = call.text("replay")
        self._expected = Expected(call.text("expect") or Expected.SCENARIO.value)
        self._report = report
        self._turns = 0
        self._deviations = 0
        self._failures = 0
        self._met: set[str] = set()

    async def run(self) -> int:
        """Serve until the recording ends or a signal arrives."""
        stopped = until_signal()
        playing = Replay(self._recording, speed=self._speed, exact=self._exact)
        playing.on_moment = self._tell_moment
        playing.start_after = self._start_after
        playing.journal.on_seen.append(self._tell_seen)
        try:
            await self._open(playing)
            playing.faults.play_file(self._faults)
            self._announce(What.READY, self._about())
            return await self._play(playing, stopped)
        finally:
            await playing.stop(grace_seconds=GRACE_SECONDS)

    async def _play(self, playing: Replay, stopped: "asyncio.Future[int]") -> int:
        wait_seconds = self._wait_seconds
        while True:
            late = self._late(playing)
            playing.start(wait_seconds=wait_seconds)
            ticker = playing.ticker
            assert ticker is not None, "it was started"
            await asyncio.wait(
                {ticker, stopped, late}, return_when=asyncio.FIRST_COMPLETED
            )
            if ticker.done():
                # Raise the exception that ended it, if there was a bug.
                ticker.result()
            is_late = late.done() and not (ticker.done() or stopped.done())
            late.cancel()
            self._judge(playing, is_over=ticker.done(), is_late=is_late)
            if is_late:
                self._announce(What.END, f"ended, failures {self._failures}")
                return Exit.FAILED
            if stopped.done() or not self._loops:
                break
            wait_seconds = 0.0
            self._announce(What.RESET, "restarted: incarnations go back to the first")
        is_over = ticker.done()
        if is_over and self._stays and not stopped.done():
            self._announce(
                What.WAITING, "the recording has ended, and its last answer stays"
            )
            await stopped
        counts = {"failures": self._failures, "deviations": self._deviations}
        parts = [f"{kind} {number}" for kind, number in counts.items() if number]
        self._announce(What.END, ", ".join(["ended", *parts]))
        if not is_over and not self._loops:
            return BY_SIGNAL + stopped.result()
        return Exit.FAILED if any(counts.values()) else Exit.DONE

    def _late(self, playing: Replay) -> "asyncio.Future[None]":
        """Return a future that is done when the recording exceeds --timeout."""
        loop = asyncio.get_running_loop()
        late: asyncio.Future[None] = loop.create_future()
        seconds = None if self._timeout is None else self._timeout / SECOND

        def end() -> None:
            if not late.done():
                late.set_result(None)

        def begin() -> None:
            if seconds is not None:
                loop.call_later(seconds, end)

        playing.on_begin = begin
        return late

    def _judge(self, playing: Replay, *, is_over: bool, is_late: bool) -> None:
        """Report the findings about clients, and write the JUnit report."""
        cut = "" if is_over or self._loops else CUT
        if is_late:
            limit = length(self._timeout or 0)
            left = round((self._recording.length - playing.elapsed) / self._speed)
            cut = (
                f"it did not end within {limit} (--timeout); it waited for the rest "
                f"of the recording: {describe_duration(left)}"
            )
        result = replay_judging.judge(
            playing,
            name=Path(self._file).stem,
            file=self._file,
            expected=self._expected,
            is_over=is_over or is_late,
            cut=cut,
        )
        self._failures += len(result.failures)
        if is_over or is_late or not self._turns:
            # If a signal ends a loop, the latest complete iteration counts.
            self._report.write([result])
        self._turns += is_over
        for finding in result.findings:
            text = ": ".join(filter(None, (finding.what, finding.sentence)))
            self._announce(_TOLD[finding.outcome], text)

    async def _open(self, playing: Replay) -> None:
        """Listen for each VM; skip ports in use, if allowed."""
        places, passed_over = self._places, 0
        for number, vm in enumerate(self._vms):
            while True:
                at: Address = places.at(number + passed_over)
                if number == 0 and self._first is not None:
                    at = self._first
                try:
                    host, port = await playing.open(vm, host=at[0], port=at[1])
                    break
                except OSError as error:
                    if not self._may_move or at == self._first:
                        raise _not_there(at, error) from error
                    passed_over += 1
                    if passed_over > PORTS_TRIED:
                        raise _not_there(at, error) from error
            where = url_of((host, port))
            text = f"{vm} at {where} (FOREWARN_ENDPOINT={where})"
            self._announce(What.SERVING, text, vm=vm, url=where)

    def _about(self) -> str:
        recording = self._recording
        parts = [
            describe_duration(recording.length),
            f"api-version {recording.header.api_version}",
            f"changes {len(recording.moments)}",
        ]
        if self._speed != 1:
            parts.append(f"{self._speed:g} times as fast")
        if self._exact:
            parts.append("with the recorded dates")
        if recording.is_torn:
            parts.append("its incomplete last line is ignored")
        return ", ".join(parts)

    def _tell_moment(self, moment: Moment) -> None:
        seconds = moment.at / SECOND
        text = f"{seconds:.1f} s: {describe(moment.outcome)}"
        self._announce(What.EVENT, text, recorded_at=seconds)

    def _tell_seen(self, request: JournalEntry) -> None:
        if self._tells_deviations:
            for deviation in request.deviations:
                self._deviations += 1
                self._announce(
                    What.DEVIATION, f"{request.vm}: {deviation}", vm=request.vm
                )
        if request.approved:
            names = ", ".join(request.approved)
            if request.took_effect:
                text = f"{request.vm}: {names}; the recording does not change"
                self._announce(
                    What.APPROVED, text, vm=request.vm, approved=list(request.approved)
                )
            else:
                text = f"{request.vm}: {names}, with {request.status or 'no answer'}"
                self._announce(
                    What.REFUSED, text, vm=request.vm, refused=list(request.approved)
                )
        elif request.vm not in self._met:
            self._met.add(request.vm)
            self._announce(
                What.ASKED, f"{request.vm}: its first request", vm=request.vm
            )

    def _announce(self, kind: What, text: str, **facts: object) -> None:
        self._voice.show(News(at=self._clock.now(), what=kind, text=text, facts=facts))


def _not_there(at: Address, error: OSError) -> CommandError:
    return CommandError(
        Exit.FAILED,
        f"cannot listen at {at[0]}:{at[1]}: {error.strerror or quoted(str(error))}",
        hint="Stop the other listener, or choose another address with --listen.",
    )
