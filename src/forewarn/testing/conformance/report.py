"""The report on an endpoint: findings in order, with their exchanges as evidence.

It has no side effects: it returns JSON values and lines of text.
"""

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from forewarn.instants import MILLISECOND, format_instant
from forewarn.testing.client import Headers
from forewarn.testing.conformance.check import (
    Failed,
    NotTried,
    Passed,
    Verdict,
    Witness,
)
from forewarn.testing.conformance.documents import Exchange, shown
from forewarn.testing.conformance.examination import Finding
from forewarn.texts import printable

FORMAT = 2
"""Version of the JSON format. It rises if a reader of an earlier version would
misunderstand it. The first version had neither a number nor evidence."""

BODY_BYTES_MAX = 4096
"""Maximum length of a body in a report, in bytes: a document with ten events. A report
has some hundred kilobytes, and at most ten megabytes."""

HEADERS_MAX = 30
HEADER_CHARACTERS_MAX = 256
"""Maximum number of headers of an answer in a report, and maximum length of each value
in characters: far more than usual answers have."""

NAMES: dict[type[Verdict], str] = {
    Passed: "pass",
    Failed: "fail",
    NotTried: "not tried",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """Facts about the document and the watch."""

    documents: int
    """Number of distinct documents in the examination; 0 if none could be read."""
    polls: int = 0
    """Number of reads of the watch."""
    ended: str = ""
    """Reason why the watch ended early; empty if it did not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The findings about one server."""

    url: str
    findings: tuple[Finding, ...]
    watched: Watched

    def count(self, verdict: type[Verdict]) -> int:
        """Return how many findings have this verdict."""
        return sum(isinstance(finding.verdict, verdict) for finding in self.findings)

    @property
    def passed(self) -> bool:
        """Return whether no check failed and the document was seen."""
        return not self.count(Failed) and self.watched.documents > 0


def report(url: str, findings: Sequence[Finding], watched: Watched) -> Report:
    """Return a report with the findings in the order of the clauses."""
    in_order = sorted(
        findings, key=lambda finding: [*map(int, finding.clause.split("."))]
    )
    return Report(url=url, findings=tuple(in_order), watched=watched)


def name_of(verdict: Verdict) -> str:
    """Return the name of a verdict."""
    return NAMES[type(verdict)]


def detail(verdict: Verdict) -> str:
    """Return the complaint, the need, or the remark of a verdict; it may be empty."""
    if isinstance(verdict, Failed):
        return verdict.witness.complaint
    if isinstance(verdict, NotTried):
        return f"needs {verdict.needs}"
    return verdict.remark


def witnesses_of(verdict: Verdict) -> tuple[Witness, ...]:
    """Return the stored evidence of a verdict."""
    if isinstance(verdict, NotTried):
        return ()
    return (verdict.witness,) if isinstance(verdict, Failed) else verdict.witnesses


def summary(report: Report) -> str:
    """Return the summary line of the text output."""
    counts = (
        f"{report.count(Passed)} passed, {report.count(Failed)} failed, "
        f"{report.count(NotTried)} not tried"
    )
    line = f"{report.url}: {counts}"
    if report.watched.ended:
        line += f"; the watch ended early: {report.watched.ended}"
    if not report.watched.documents:
        line += "; no document was seen, so the result says little"
    return line


# JSON.


def document(report: Report) -> dict[str, Any]:
    """Return the report as JSON."""
    used: dict[int, Exchange] = {}
    findings = [_finding(finding, used) for finding in report.findings]
    return {
        "format": FORMAT,
        "url": report.url,
        "passed": report.passed,
        "counts": {
            "pass": report.count(Passed),
            "fail": report.count(Failed),
            "not tried": report.count(NotTried),
        },
        "watch": {
            "polls": report.watched.polls,
            "documents": report.watched.documents,
            "ended_early": report.watched.ended,
        },
        "findings": findings,
        "exchanges": [_exchange(used[number]) for number in sorted(used)],
    }


def _finding(finding: Finding, used: dict[int, Exchange]) -> dict[str, Any]:
    verdict = finding.verdict
    count = verdict.count if isinstance(verdict, Passed) else 1
    evidence = witnesses_of(verdict)
    for witness in evidence:
        used.update((exchange.number, exchange) for exchange in witness.exchanges)
    return {
        "clause": finding.clause,
        "expected": finding.expected,
        "verdict": name_of(verdict),
        "seen": "" if isinstance(verdict, NotTried) else detail(verdict),
        "needs": verdict.needs if isinstance(verdict, NotTried) else "",
        "witnesses": 0 if isinstance(verdict, NotTried) else count,
        "evidence": [
            {
                "saw": witness.saw,
                "exchanges": [exchange.number for exchange in witness.exchanges],
            }
            for witness in evidence
        ],
    }


def _exchange(exchange: Exchange) -> dict[str, Any]:
    answer: dict[str, Any] | None = None
    if exchange.answer is not None:
        answer = {
            "status": exchange.status,
            "headers": _headers(exchange.answer.headers),
            **_body(exchange.payload),
        }
    return {
        "number": exchange.number,
        "at": format_instant(exchange.at),
        "milliseconds": round(exchange.took / MILLISECOND, 3),
        "request": {
            "method": exchange.method,
            "target": exchange.target,
            "headers": _headers(exchange.headers),
            **_body(exchange.body or b""),
        },
        "answer": answer,
        "failure": exchange.failure,
        **_received(exchange),
    }


def _received(exchange: Exchange) -> dict[str, Any]:
    """Return the defect of an incomplete answer; empty for any other exchange."""
    if exchange.broken is None:
        return {}
    return {"broken": {"how": exchange.broken.value, **_body(exchange.received)}}


def _headers(headers: Headers) -> list[list[str]]:
    return [
        [name, value[:HEADER_CHARACTERS_MAX]] for name, value in headers[:HEADERS_MAX]
    ]


def _body(body: bytes) -> dict[str, Any]:
    """Return a body, as text if possible, with its length before truncation."""
    cut = body[:BODY_BYTES_MAX]
    members: dict[str, Any] = {"body_bytes": len(body)}
    try:
        # Drop a character that the truncation has split.
        text = cut.decode("utf-8", "strict" if cut == body else "ignore")
    except UnicodeDecodeError:
        text = "\0"
    if all(character.isprintable() or character in "\t\r\n" for character in text):
        return members | {"body": text}
    return members | {"body_base64": base64.b64encode(cut).decode()}


# Text.


def line(finding: Finding) -> str:
    """Return a finding without its verdict, as a line of text."""
    return ": ".join(filter(None, (finding.expected, detail(finding.verdict))))


def evidence(finding: Finding) -> Iterator[str]:
    """Yield the evidence of a finding as lines of text."""
    witnesses = witnesses_of(finding.verdict)
    for witness in witnesses:
        yield f"saw {printable(witness.saw)}"
        for exchange in witness.exchanges:
            yield f"  {printable(_exchange_line(exchange))}"
    if isinstance(finding.verdict, Passed) and finding.verdict.count > len(witnesses):
        yield f"and {finding.verdict.count - len(witnesses)} more"


def _exchange_line(exchange: Exchange) -> str:
    sent = f"{exchange.method} {exchange.target}"
    if exchange.body is not None:
        sent += f" {shown(exchange.body)}"
    at = format_instant(exchange.at)
    return f"#{exchange.number} {at} {sent} -> {exchange.outcome}"


def markdown(report: Report, *, with_evidence: bool) -> str:
    """Return the report as Markdown."""
    lines = [
        f"# {report.url}",
        "",
        summary(report),
        "",
        "| clause | expected | verdict | seen or needed |",
        "|---|---|---|---|",
    ]
    for finding in report.findings:
        cells = (
            finding.clause,
            finding.expected,
            name_of(finding.verdict),
            detail(finding.verdict),
        )
        escaped = (printable(cell).replace("|", "\\|") for cell in cells)
        lines.append(f"| {' | '.join(escaped)} |")
    if with_evidence:
        lines += ["", "## Evidence"]
        for finding in report.findings:
            if listed := list(evidence(finding)):
                title = (
                    f"{finding.clause} {finding.expected}: {name_of(finding.verdict)}"
                )
                lines += ["", f"### {title}", "", "```text", *listed, "```"]
    return "\n".join([*lines, ""])
