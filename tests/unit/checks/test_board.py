"""The last results of checks, and from when they no longer count."""

from forewarn.checks.board import Board
from forewarn.checks.model import CheckResult, Outcome
from forewarn.instants import MINUTE, SECOND

AT = 1_000 * MINUTE


def result(outcome: Outcome = Outcome.PASS, *, at: int = AT) -> CheckResult:
    return CheckResult(name="errors", outcome=outcome, reason="0.001", at=at)


def board() -> Board:
    return Board({"errors": MINUTE, "latency": MINUTE})


def test_check_is_unknown_until_it_was_asked() -> None:
    fresh = board()
    assert fresh.latest("errors", now=AT).outcome is Outcome.UNKNOWN
    assert fresh.latest("errors", now=AT).reason == "it was not asked since the start"
    assert fresh.take(result())
    assert fresh.latest("errors", now=AT + MINUTE) == result()
    assert fresh.latest("latency", now=AT).outcome is Outcome.UNKNOWN


def test_old_result_is_unknown_and_says_what_it_was() -> None:
    asked = board()
    asked.take(result())
    late = asked.latest("errors", now=AT + MINUTE + 1)
    assert late.outcome is Outcome.UNKNOWN
    assert late.at == AT
    assert late.reason == "its last answer is 1 m 1 s old: 0.001"


def test_result_of_an_earlier_question_does_not_replace_a_later_one() -> None:
    asked = board()
    asked.take(result(at=AT + SECOND))
    assert not asked.take(result(Outcome.FAIL))
    assert asked.latest("errors", now=AT + SECOND).outcome is Outcome.PASS
    assert asked.take(result(Outcome.FAIL, at=AT + SECOND))
    assert not asked.take(result(Outcome.FAIL, at=AT + MINUTE))


def test_check_that_is_not_configured_is_never_stored_or_needed() -> None:
    empty = Board({})
    assert not empty.take(result())
    found = empty.latest("errors", now=AT)
    assert found.outcome is Outcome.UNKNOWN
    assert found.reason == "there is no check errors in the settings"
    empty.need({"errors"})
    assert empty.needed == frozenset()
    asked = board()
    asked.need(["errors", "weather"])
    assert asked.needed == {"errors"}
    asked.need([])
    assert asked.needed == frozenset()
