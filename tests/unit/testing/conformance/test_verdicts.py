"""Tests that verdicts need matching witnesses."""

from collections.abc import Iterator

import pytest

from forewarn.testing.conformance.check import (
    WITNESSES_MAX,
    Failed,
    NotTried,
    Passed,
    Witness,
    judge,
)
from forewarn.testing.conformance.documents import Exchange

EXCHANGE = Exchange(number=1, at=0, took=0, method="GET", target="/", headers=())
GOOD = Witness(saw="a thing", exchanges=(EXCHANGE,))
BAD = Witness(saw="a thing", exchanges=(EXCHANGE,), complaint="it is broken")


def test_passed_check_needs_a_good_witness() -> None:
    with pytest.raises(ValueError, match="needs a witness"):
        Passed(witnesses=(), count=0)
    with pytest.raises(ValueError, match="needs a witness"):
        Passed(witnesses=(GOOD,), count=0)
    with pytest.raises(ValueError, match="cannot have a witness"):
        Passed(witnesses=(GOOD, BAD), count=2)


def test_witness_needs_an_exchange() -> None:
    with pytest.raises(ValueError, match="needs an exchange: a thing"):
        Witness(saw="a thing", exchanges=())


def test_failed_check_needs_a_complaint() -> None:
    with pytest.raises(ValueError, match="needs a complaint"):
        Failed(witness=GOOD)


def test_untried_check_must_name_its_need() -> None:
    with pytest.raises(ValueError, match="must name what it needs"):
        NotTried(needs="")
    assert judge((), needs="an event") == NotTried(needs="an event")


def test_first_complaint_decides_and_ends_the_search() -> None:
    numbers: list[int] = []

    def witnesses() -> Iterator[Witness]:
        for number, witness in enumerate((GOOD, BAD, GOOD)):
            numbers.append(number)
            yield witness

    assert judge(witnesses(), needs="x") == Failed(witness=BAD)
    assert numbers == [0, 1]


def test_the_first_witnesses_are_kept_and_all_are_counted() -> None:
    many = [Witness(saw=str(n), exchanges=(EXCHANGE,)) for n in range(100)]
    verdict = judge(many, needs="x")
    assert verdict == Passed(witnesses=tuple(many[:WITNESSES_MAX]), count=100)


def test_remark_of_any_witness_is_kept() -> None:
    remarkable = Witness(saw="z", exchanges=(EXCHANGE,), remark="it is odd")
    verdict = judge([*[GOOD] * 100, remarkable, GOOD], needs="x")
    assert isinstance(verdict, Passed)
    assert verdict.remark == "it is odd"
    assert (len(verdict.witnesses), verdict.count) == (WITNESSES_MAX, 102)
