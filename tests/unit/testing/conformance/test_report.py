"""Tests of the report: evidence with bytes and times, limited in size."""

import base64
import json
from typing import Any

from forewarn.testing.client import Answer
from forewarn.testing.conformance.check import (
    WITNESSES_MAX,
    Failed,
    NotTried,
    Witness,
    judge,
)
from forewarn.testing.conformance.documents import Exchange
from forewarn.testing.conformance.examination import Finding
from forewarn.testing.conformance.report import (
    BODY_BYTES_MAX,
    Report,
    Watched,
    document,
    evidence,
    line,
    markdown,
    report,
    summary,
)

AT = 1_900_000_000_123_456


def exchange(number: int, body: bytes = b"{}", sent: bytes | None = None) -> Exchange:
    return Exchange(
        number=number,
        at=AT + number,
        took=1500,
        method="POST" if sent else "GET",
        target="/x",
        headers=(("Metadata", "true"),),
        body=sent,
        answer=Answer(status=200, headers=(("ETag", '"1"'),), body=body),
    )


def witness(number: int, complaint: str = "", body: bytes = b"{}") -> Witness:
    return Witness(
        saw=f"thing {number}", exchanges=(exchange(number, body),), complaint=complaint
    )


def found(*witnesses: Witness, watched: Watched | None = None) -> Report:
    finding = Finding(
        clause="1.10", expected="it is so", verdict=judge(witnesses, needs="an event")
    )
    other = Finding(clause="1.2", expected="and so", verdict=NotTried(needs="a VM"))
    return report("http://x", [finding, other], watched or Watched(documents=1))


def only(value: dict[str, Any], clause: str = "1.10") -> dict[str, Any]:
    [finding_] = [
        finding for finding in value["findings"] if finding["clause"] == clause
    ]
    return finding_


def test_passed_check_lists_its_witnesses_and_their_bytes() -> None:
    value = document(found(witness(3, body=b'{"a":1}'), witness(9)))
    assert only(value) == {
        "clause": "1.10",
        "expected": "it is so",
        "verdict": "pass",
        "seen": "",
        "needs": "",
        "witnesses": 2,
        "evidence": [
            {"saw": "thing 3", "exchanges": [3]},
            {"saw": "thing 9", "exchanges": [9]},
        ],
    }
    assert [row["number"] for row in value["exchanges"]] == [3, 9]
    assert value["exchanges"][0] == {
        "number": 3,
        "at": "2030-03-17T17:46:40.123459Z",
        "milliseconds": 1.5,
        "request": {
            "method": "GET",
            "target": "/x",
            "headers": [["Metadata", "true"]],
            "body_bytes": 0,
            "body": "",
        },
        "answer": {
            "status": 200,
            "headers": [["ETag", '"1"']],
            "body_bytes": 7,
            "body": '{"a":1}',
        },
        "failure": "",
    }


def test_untried_check_has_a_need_and_no_evidence() -> None:
    finding = only(document(found()), "1.2")
    assert (finding["verdict"], finding["needs"]) == ("not tried", "a VM")
    assert (finding["witnesses"], finding["evidence"]) == (0, [])


def test_request_without_an_answer_reports_the_reason() -> None:
    lost = Exchange(
        number=1, at=AT, took=0, method="PUT", target="/", headers=(), failure="reset"
    )
    bad = Witness(saw="x", exchanges=(lost,), complaint="no answer")
    value = document(found(bad))
    assert value["exchanges"][0]["answer"] is None
    assert value["exchanges"][0]["failure"] == "reset"
    assert only(value)["seen"] == "no answer"


def test_bodies_are_truncated_with_their_length() -> None:
    long = b'{"a":"' + "é".encode() * 5000 + b'"}'
    answer = document(found(witness(1, body=long)))["exchanges"][0]["answer"]
    assert answer["body_bytes"] == len(long)
    assert BODY_BYTES_MAX - 4 <= len(answer["body"].encode()) <= BODY_BYTES_MAX
    answer = document(found(witness(1, body=b"\xff\x00")))["exchanges"][0]["answer"]
    assert base64.b64decode(answer["body_base64"]) == b"\xff\x00"


def test_report_size_is_bounded() -> None:
    """Every check has its maximum of witnesses, with two exchanges each."""
    checks, body = 80, b"\x00" * (1 << 20)
    findings = [
        Finding(
            clause="1.1",
            expected=str(check),
            verdict=judge(
                [
                    Witness(
                        saw="x" * 300,
                        exchanges=(exchange(2 * n, body), exchange(2 * n + 1, body)),
                    )
                    for n in range(check * WITNESSES_MAX, (check + 1) * WITNESSES_MAX)
                ],
                needs="x",
            ),
        )
        for check in range(checks)
    ]
    value = document(report("http://x", findings, Watched(documents=1)))
    assert len(json.dumps(value)) < 10_000_000


def test_result_without_documents_is_not_passed() -> None:
    assert found(witness(1)).passed
    assert not found(witness(1), witness(2, "no")).passed
    nothing = found(witness(1), watched=Watched(documents=0))
    assert not nothing.passed
    assert summary(nothing) == (
        "http://x: 1 passed, 0 failed, 1 not tried; no document was seen, so the result "
        "says little"
    )
    cut = found(witness(1), watched=Watched(documents=1, ended="it was interrupted"))
    assert summary(cut).endswith("; the watch ended early: it was interrupted")
    assert document(cut)["watch"]["ended_early"] == "it was interrupted"


def test_text_shows_the_evidence_on_demand() -> None:
    many = found(*(witness(n) for n in range(1, 12)))
    [finding] = [finding for finding in many.findings if finding.clause == "1.10"]
    shown = list(evidence(finding))
    assert shown[:2] == [
        "saw thing 1",
        "  #1 2030-03-17T17:46:40.123457Z GET /x -> 200 b'{}'",
    ]
    assert shown[-1] == "and 3 more"
    assert "thing 1" not in markdown(many, with_evidence=False)
    assert "thing 1" in markdown(many, with_evidence=True)
    assert line(finding) == "it is so"


def test_lines_are_safe_for_terminals_and_tables() -> None:
    bad = found(witness(1, "a | b \x1b[31m"))
    assert "a \\| b \\x1b[31m" in markdown(bad, with_evidence=True)
    [finding] = [
        finding for finding in bad.findings if isinstance(finding.verdict, Failed)
    ]
    assert line(finding) == "it is so: a | b \x1b[31m"
    assert "\x1b" not in "".join(evidence(finding))
