"""`conform`: the report on an endpoint, for people, programs and files."""

import json
import sys
import threading
from typing import Any

from forewarn.cli import files, output
from forewarn.cli.failure import CommandError, Exit
from forewarn.cli.words import Call
from forewarn.clock import SystemClock
from forewarn.instants import SECOND, parse_duration
from forewarn.testing.client import HttpClient
from forewarn.testing.conformance import Finding, Report, Verdict, examine, report
from forewarn.texts import printable

POLL_SECONDS = 1.0
"""Between two reads of a watch: what a good client does."""

_WHERE = "name the host and port of a metadata endpoint, as in http://127.0.0.1:8301"

_STYLES = {
    Verdict.PASSED: "\x1b[32m",
    Verdict.FAILED: "\x1b[1;31m",
    Verdict.NOT_TRIED: "\x1b[2m",
}
_PLAIN = "\x1b[0m"


def conform(call: Call) -> int:
    """Check an endpoint; return 1 if a clause is broken."""
    url = call.text("endpoint")
    polls = _polls(call.text("watch"))
    if file := call.text("report"):
        files.need_writable(file)
    pause = threading.Event().wait
    try:
        client = HttpClient(url, pause=pause)
    except ValueError as error:
        raise CommandError(Exit.USAGE, str(error), hint=_WHERE) from error
    findings: list[Finding] = []
    speaks = not call.flag("json")
    try:
        for finding in examine(
            client,
            approve=call.flag("approve"),
            polls=polls,
            pause=lambda: pause(POLL_SECONDS),
            now=SystemClock().now,
        ):
            findings.append(finding)
            if speaks:
                _say(finding)
    except OSError as error:
        raise CommandError(
            Exit.UNREACHABLE,
            f"the endpoint at {url} cannot be reached: {error}",
            hint=_WHERE,
        ) from error
    found = report(url, findings)
    if speaks:
        output.line(_summary(found))
    else:
        output.document(_document(found))
    if file:
        _write(file, found)
    return Exit.DONE if found.passed else Exit.FAILED


def _polls(watch: str) -> int:
    try:
        return round(parse_duration(watch) / (POLL_SECONDS * SECOND))
    except ValueError as error:
        raise CommandError(Exit.USAGE, f"--watch: {error}") from error


def _say(finding: Finding) -> None:
    verdict = f"{finding.verdict.value:<9}"
    if sys.stdout.isatty():
        verdict = f"{_STYLES[finding.verdict]}{verdict}{_PLAIN}"
    said = ": ".join(filter(None, (finding.expected, printable(finding.seen))))
    print(f"{finding.clause:<5} {verdict}  {said}", flush=True)


def _summary(found: Report) -> str:
    counts = ", ".join(
        f"{found.count(verdict)} {words}"
        for verdict, words in (
            (Verdict.PASSED, "kept"),
            (Verdict.FAILED, "broken"),
            (Verdict.NOT_TRIED, "not tried"),
        )
    )
    return f"{found.url}: {counts}"


def _document(found: Report) -> dict[str, Any]:
    return {
        "url": found.url,
        "passed": found.passed,
        "findings": [
            {
                "clause": each.clause,
                "expected": each.expected,
                "verdict": each.verdict.value,
                "seen": each.seen,
            }
            for each in found.findings
        ],
    }


def _write(file: str, found: Report) -> None:
    if file.endswith(".json"):
        text = json.dumps(_document(found), indent=2) + "\n"
    else:
        text = _markdown(found)
    files.write_text(file, text)


def _markdown(found: Report) -> str:
    lines = [
        f"# {found.url}",
        "",
        _summary(found),
        "",
        "| clause | expected | verdict | seen |",
        "|---|---|---|---|",
    ]
    for each in found.findings:
        cells = (each.clause, each.expected, each.verdict.value, each.seen)
        escaped = (printable(cell).replace("|", "\\|") for cell in cells)
        lines.append(f"| {' | '.join(escaped)} |")
    return "\n".join([*lines, ""])
