"""`conform` finds each planted defect, or the table says why no client can.

Everything is real but the sockets and the time: the bytes of HTTP, and a clock that
the requests and pauses turn.
"""

import contextlib

import pytest

from forewarn.clock import SystemClock
from forewarn.testing.client import HttpClient
from forewarn.testing.conformance import traffic_questions
from forewarn.testing.conformance.check import Failed, NotTried, Passed
from forewarn.testing.conformance.checks import CHECKS
from forewarn.testing.conformance.inquiry import Inquiry, UntriedError
from forewarn.testing.conformance.report import Watched, detail, document, report
from tests.support import planted
from tests.support.planted_expected import FOUND, SURE, UNDECIDABLE, Course
from tests.support.planted_runs import broken, examined
from tests.support.profiles import amounts, some

pytestmark = pytest.mark.slow

GOES_ON = "a connection stays usable after each answer"

ON_ONE_CONNECTION = {
    "head-with-body": "nothing follows the refusal of a HEAD",
    "unchanged-with-body": "nothing follows a 304",
    "body-left-behind": GOES_ON,
    "closed-unsaid": GOES_ON,
    "length-too-small": GOES_ON,
}
"""Defects of what follows an answer, and what finds them."""


def test_each_defect_is_either_found_or_undecidable() -> None:
    assert FOUND.keys().isdisjoint(UNDECIDABLE)
    assert FOUND.keys() | UNDECIDABLE.keys() == planted.DEFECTS.keys()
    for defect in planted.DEFECTS.values():
        assert defect.is_decidable == (defect.name in FOUND), defect


def test_each_clause_with_a_planted_defect_is_checked() -> None:
    clauses = {check.clause for check in CHECKS}
    assert {clause for found in FOUND.values() for clause in found.clauses} <= clauses


def test_each_reason_is_one_sentence() -> None:
    for name, reason in UNDECIDABLE.items():
        assert reason[0].isupper() or reason[0] in "`1234567890", name
        assert reason.endswith("."), name
        assert ". " not in reason, name
        assert "|" not in reason, name


@pytest.mark.parametrize("name", some(FOUND, usual=[*FOUND][::4]))
def test_a_defect_is_found(name: str) -> None:
    """The finding has its clause and its evidence: requests, responses and times."""
    wanted = FOUND[name]
    findings = examined(planted.DEFECTS[name], wanted.course.plan)
    assert set(wanted.clauses) <= set(broken(findings)), broken(findings)
    for finding in findings:
        if isinstance(finding.verdict, Failed):
            assert finding.verdict.witness.exchanges, finding.expected
            assert all(exchange.at for exchange in finding.verdict.witness.exchanges)


@pytest.mark.amounts
@pytest.mark.parametrize("course", SURE[: amounts().courses])
@pytest.mark.parametrize("name", UNDECIDABLE)
def test_undecidable_defects_are_not_found(name: str, course: Course) -> None:
    """Otherwise it belongs into the other table."""
    assert broken(examined(planted.DEFECTS[name], course.plan)) == {}


@pytest.mark.parametrize("course", Course)
def test_server_without_defects_breaks_no_clause(course: Course) -> None:
    assert broken(examined(None, course.plan)) == {}


def test_server_without_defects_passes_each_checked_clause() -> None:
    """With witnesses, which the report has with their bytes and times."""
    passed: set[str] = set()
    for course in Course:
        findings = examined(None, course.plan)
        value = document(report("http://x", findings, Watched(documents=1)))
        exchanges = {exchange["number"]: exchange for exchange in value["exchanges"]}
        for finding in value["findings"]:
            if finding["verdict"] != "pass":
                continue
            passed.add(finding["expected"])
            for witness in finding["evidence"]:
                shown = [exchanges[number] for number in witness["exchanges"]]
                assert shown
                assert all(exchange["answer"] and exchange["at"] for exchange in shown)
    assert passed == {check.title for check in CHECKS}


def test_trailing_line_break_is_noted() -> None:
    findings = examined(planted.DEFECTS["line-end"], Course.APPROVING.plan)
    [compact] = [finding for finding in findings if "compact" in finding.expected]
    assert isinstance(compact.verdict, Passed)
    assert "it ends with a line break" in detail(compact.verdict)


def test_html_error_pages_break_the_error_clause() -> None:
    """And that of the list of versions in such an error, but none of statuses."""
    broken_checks = broken(
        examined(planted.DEFECTS["error-as-page"], Course.APPROVING.plan)
    )
    assert set(broken_checks) == {"1.8", "1.11"}
    assert "the body is not JSON: 4" in broken_checks["1.8"]


def test_blank_is_reported_with_its_offset() -> None:
    broken_checks = broken(examined(planted.DEFECTS["blanks"], Course.APPROVING.plan))
    assert set(broken_checks) == {"2.1"}
    assert "byte 23 is a blank outside strings: " in broken_checks["2.1"]


@pytest.mark.system
@pytest.mark.parametrize("name", ["", *ON_ONE_CONNECTION])
def test_defects_of_one_connection_are_found_over_sockets(name: str) -> None:
    """Nothing changes meanwhile."""
    broken_titles: list[str] = []
    defect = planted.DEFECTS.get(name)
    with planted.serving(defect, pace=planted.AT_ONCE) as served:
        client = HttpClient(served.url, timeout_seconds=20)
        inquiry = Inquiry(client, now=SystemClock().now)
        for question in traffic_questions.ON_ONE_CONNECTION:
            with contextlib.suppress(UntriedError):
                if isinstance(question.ask(inquiry), Failed):
                    broken_titles.append(question.title)
    assert broken_titles == ([ON_ONE_CONNECTION[name]] if name else [])


def test_announced_connection_close_is_not_a_defect() -> None:
    """Nor does the client wait for what will not come."""
    findings = examined(planted.DEFECTS["closed-each-time"], Course.APPROVING.plan)
    [goes_on] = [finding for finding in findings if finding.expected == GOES_ON]
    assert isinstance(goes_on.verdict, NotTried)
    assert goes_on.verdict.needs == traffic_questions.A_KEPT_CONNECTION
