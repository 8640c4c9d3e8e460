"""The command `conform`: a report on an endpoint, as text, JSON or a file.

It needs no extra packages, so that it can run inside a VM.
"""

import contextlib
import json
import signal
import sys
import threading
from typing import Any

from forewarn.cli import files
from forewarn.cli.command_table import Call, CommandError, Exit
from forewarn.cli.stopping import Terminals, interruptible
from forewarn.cli.times import duration
from forewarn.clock import SystemClock
from forewarn.instants import SECOND
from forewarn.testing.client import HttpClient
from forewarn.testing.conformance.examination import Examination, Finding
from forewarn.testing.conformance.report import (
    Report,
    Watched,
    document,
    evidence,
    line,
    markdown,
    name_of,
    report,
    summary,
)
from forewarn.texts import json_text, printable

POLL_SECONDS = 1.0
"""Interval between two reads of a watch, in seconds: that of a good client."""

SPEED_MAX = 1e6
"""Maximum of --speed: it makes a notice of 15 minutes a millisecond."""

_WHERE = "Use the host and port of a metadata endpoint, as in http://127.0.0.1:8301."

_STYLES = {"pass": "\x1b[32m", "fail": "\x1b[1;31m", "not tried": "\x1b[2m"}
_PLAIN = "\x1b[0m"


def conform(call: Call) -> int:
    """Check an endpoint; return 1 if a check failed or no document was seen."""
    url = call.text("endpoint")
    polls = round((duration(call, "watch") or 0) / (POLL_SECONDS * SECOND))
    speed = _speed(call.text("speed"))
    if file := call.text("report"):
        files.need_writable(file)
    try:
        client = HttpClient(url, pause=threading.Event().wait)
    except ValueError as error:
        raise CommandError(Exit.USAGE, str(error), hint=_WHERE) from error
    watch = _Watch()
    examination = Examination(
        client,
        approve=call.flag("approve"),
        now=SystemClock().now,
        pause=watch.pause,
        wait=watch.wait,
        others_approve=call.flag("others_approve"),
        speed=speed,
    )
    findings: list[Finding] = []
    speaks = not call.flag("json")
    shows = call.flag("evidence")
    colors = sys.stdout.isatty() and not call.environ.get("NO_COLOR")
    try:
        with watch:
            for finding in examination.run(polls):
                findings.append(finding)
                if speaks:
                    _print_finding(finding, shows=shows, colors=colors)
    except OSError as error:
        raise CommandError(
            Exit.UNREACHABLE,
            f"cannot reach the endpoint at {url}: {error}",
            hint=_WHERE,
        ) from error
    watched = Watched(
        polls=examination.polls,
        documents=len(examination.seen.newest),
        ended=examination.ended,
    )
    result = report(url, findings, watched)
    print(
        printable(summary(result)) if speaks else json_text(document(result), indent=2),
        flush=True,
    )
    if file:
        _write(file, result, with_evidence=shows)
    return Exit.DONE if result.passed else Exit.FAILED


def _speed(text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    # A NaN fails this comparison too.
    if not 1 / SPEED_MAX <= speed <= SPEED_MAX:
        raise CommandError(
            Exit.USAGE,
            f"--speed: {text!r} is not a number above 0",
            hint="Use the factor by which notices are shortened, as in --speed 60.",
        )
    return speed


class _Watch(contextlib.ExitStack):
    """The pauses of a watch. Ctrl-C ends the watch, and the report follows.

    SIGTERM does the same, and so does SIGHUP when a terminal is closed. Before the
    watch, and on a second Ctrl-C, they end the program.
    """

    def __init__(self) -> None:
        super().__init__()
        self._stopped = threading.Event()
        self._has_begun = False
        self._terminals = Terminals()

    def wait(self) -> None:
        """Wait between two requests."""
        self._stopped.wait(POLL_SECONDS)

    def pause(self) -> bool:
        """Wait for the next read; return whether the watch must end."""
        if not self._has_begun:
            self._has_begun = True
            self.enter_context(interruptible(self._on_signal))
        return self._stopped.wait(POLL_SECONDS)

    def _on_signal(self, number: int, _: object) -> None:
        self._terminals.discard_closed()
        if self._stopped.is_set() and number in (signal.SIGINT, signal.SIGTERM):
            raise KeyboardInterrupt
        self._stopped.set()


def _print_finding(finding: Finding, *, shows: bool, colors: bool) -> None:
    verdict = f"{name_of(finding.verdict):<9}"
    if colors:
        verdict = f"{_STYLES[verdict.rstrip()]}{verdict}{_PLAIN}"
    print(f"{finding.clause:<5} {verdict}  {printable(line(finding))}", flush=True)
    if shows:
        for text in evidence(finding):
            print(f"        {text}", flush=True)


def _write(file: str, result: Report, *, with_evidence: bool) -> None:
    if file.endswith(".json"):
        value: dict[str, Any] = document(result)
        files.write_text(file, json.dumps(value, indent=2) + "\n")
    else:
        files.write_text(file, markdown(result, with_evidence=with_evidence))
