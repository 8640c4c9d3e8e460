"""`conform` finds each planted defect, or the table says why nobody could.

Everything is real but the sockets and the time: the bytes of HTTP, and a clock that
the requests and pauses turn.
"""

import pytest

from forewarn.testing.conformance.checks import CHECKS
from forewarn.testing.conformance.report import Watched, document, report, told
from forewarn.testing.conformance.verdicts import Failed, Passed
from tests.support import planted
from tests.support.planted_expected import FOUND, SURE, UNDECIDABLE, Course
from tests.support.planted_runs import broken, examined

pytestmark = pytest.mark.slow


def test_each_defect_is_found_or_said_to_be_undecidable() -> None:
    assert FOUND.keys().isdisjoint(UNDECIDABLE)
    assert FOUND.keys() | UNDECIDABLE.keys() == planted.DEFECTS.keys()


def test_each_clause_at_which_a_defect_is_found_is_asked_about() -> None:
    clauses = {check.clause for check in CHECKS}
    assert {clause for found in FOUND.values() for clause in found.clauses} <= clauses


def test_each_reason_is_one_sentence() -> None:
    for name, reason in UNDECIDABLE.items():
        assert reason[0].isupper() or reason[0] in "`1234567890", name
        assert reason.endswith("."), name
        assert ". " not in reason, name
        assert "|" not in reason, name


@pytest.mark.parametrize("name", FOUND)
def test_a_defect_is_found(name: str) -> None:
    """By its clause, and with what was seen: requests, answers and times."""
    wanted = FOUND[name]
    findings = examined(planted.DEFECTS[name], wanted.course)
    assert set(wanted.clauses) <= set(broken(findings)), broken(findings)
    for finding in findings:
        if isinstance(finding.verdict, Failed):
            assert finding.verdict.witness.exchanges, finding.expected
            assert all(each.at for each in finding.verdict.witness.exchanges)


@pytest.mark.parametrize("course", SURE)
@pytest.mark.parametrize("name", UNDECIDABLE)
def test_what_is_undecidable_is_not_found(name: str, course: Course) -> None:
    """Otherwise it belongs into the other table."""
    assert broken(examined(planted.DEFECTS[name], course)) == {}


@pytest.mark.parametrize("course", Course)
def test_a_server_without_defects_breaks_nothing(course: Course) -> None:
    assert broken(examined(None, course)) == {}


def test_a_server_without_defects_keeps_each_clause_that_is_asked_about() -> None:
    """With witnesses, which the report has with their bytes and times."""
    kept: set[str] = set()
    for course in Course:
        findings = examined(None, course)
        value = document(report("http://x", findings, Watched(documents=1)))
        exchanges = {each["number"]: each for each in value["exchanges"]}
        for finding in value["findings"]:
            if finding["verdict"] != "pass":
                continue
            kept.add(finding["expected"])
            for witness in finding["evidence"]:
                seen = [exchanges[number] for number in witness["exchanges"]]
                assert seen
                assert all(each["answer"] and each["at"] for each in seen)
    assert kept == {check.title for check in CHECKS}


def test_a_line_end_is_remarked_on() -> None:
    findings = examined(planted.DEFECTS["line-end"], Course.APPROVING)
    [compact] = [each for each in findings if "compact" in each.expected]
    assert isinstance(compact.verdict, Passed)
    assert "it ends with a line break" in told(compact.verdict)
