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
    new_board = board()
    new_board.take(result())
    late = new_board.latest("errors", now=AT + MINUTE + 1)
    assert late.outcome is Outcome.UNKNOWN
    assert late.at == AT
    assert late.reason == "its last answer is 1 m 1 s old: 0.001"


def test_result_after_one_that_was_too_old_is_news() -> None:
    checks = board()
    checks.take(result())
    assert not checks.take(result(at=AT + MINUTE))
    # Until then the check was unknown, and campaigns waited for it.
    assert checks.take(result(at=AT + 2 * MINUTE + 1))


def test_result_of_an_earlier_question_does_not_replace_a_later_one() -> None:
    new_board = board()
    new_board.take(result(at=AT + SECOND))
    assert not new_board.take(result(Outcome.FAIL))
    assert new_board.latest("errors", now=AT + SECOND).outcome is Outcome.PASS
    assert new_board.take(result(Outcome.FAIL, at=AT + SECOND))
    assert not new_board.take(result(Outcome.FAIL, at=AT + MINUTE))


def test_check_that_is_not_configured_is_never_stored_or_needed() -> None:
    empty = Board({})
    assert not empty.take(result())
    check_result = empty.latest("errors", now=AT)
    assert check_result.outcome is Outcome.UNKNOWN
    assert check_result.reason == "there is no check errors in the settings"
    empty.need({"errors"})
    assert empty.needed == frozenset()
    new_board = board()
    new_board.need(["errors", "weather"])
    assert new_board.needed == {"errors"}
    new_board.need([])
    assert new_board.needed == frozenset()


def test_check_counts_as_failed_after_so_many_failures_in_a_row() -> None:
    new_board = Board({"errors": MINUTE}, {"errors": 3})

    def answer(outcome: Outcome, second: int) -> bool:
        return new_board.take(result(outcome, at=AT + second * SECOND))

    def outcome() -> tuple[Outcome, str]:
        latest = new_board.latest("errors", now=AT + 9 * SECOND)
        return latest.outcome, latest.reason

    assert answer(Outcome.FAIL, 1)
    assert outcome() == (Outcome.UNKNOWN, "it failed 1 of 3 times: 0.001")
    assert not answer(Outcome.FAIL, 2)
    assert answer(Outcome.PASS, 3)
    assert outcome()[0] is Outcome.PASS
    assert answer(Outcome.FAIL, 4)
    # No answer is neither a failure nor a pass.
    assert answer(Outcome.UNKNOWN, 5)
    assert answer(Outcome.FAIL, 6)
    assert outcome()[0] is Outcome.UNKNOWN
    # The third failure is news, although the answer before was the same.
    assert answer(Outcome.FAIL, 7)
    assert outcome() == (Outcome.FAIL, "0.001")
    assert not answer(Outcome.FAIL, 8)
    assert outcome()[0] is Outcome.FAIL
