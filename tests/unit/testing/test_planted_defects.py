"""Tests that each planted defect has a description and changes an answer."""

import re

import pytest

from tests.support import planted
from tests.support.planted.playing import Exchange, Visit

CLAUSES = (12, 10, 6, 8, 9, 4, 4)
"""Number of clauses in each section about endpoints."""

DEFECTS = list(planted.DEFECTS.values())


@pytest.fixture(scope="module")
def quick() -> list[Exchange]:
    """A visit to the healthy server."""
    return list(Visit(pace=planted.QUICK).play())


@pytest.fixture(scope="module")
def at_once() -> list[Exchange]:
    """A visit to the healthy server where everything is there at once."""
    return list(Visit(pace=planted.AT_ONCE).play())


def test_defects_cover_each_part_of_the_protocol() -> None:
    clauses = {defect.clause for defect in DEFECTS}
    assert clauses <= {
        f"{section}.{number}"
        for section, last in enumerate(CLAUSES, start=1)
        for number in range(1, last + 1)
    }
    assert {clause.partition(".")[0] for clause in clauses} == set("1234567")
    assert {f"1.{n}" for n in range(1, 13)} <= clauses
    assert {f"2.{n}" for n in range(1, 11)} <= clauses
    assert {f"3.{n}" for n in range(1, 7)} <= clauses
    assert sum(defect.is_decidable for defect in DEFECTS) >= 34 + 7


def test_each_defect_has_a_description_and_a_check() -> None:
    for defect in DEFECTS:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", defect.name), defect
        assert re.fullmatch(r"[A-Z0-9`/].*[.)]", defect.wrong), defect
        assert re.fullmatch(r".*[^.]", defect.why), defect
        parts = (defect.story, defect.endpoint, defect.connection)
        wrong = [part for part in parts if ".faults_" in part.__module__]
        assert len(wrong) == 1, defect


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_each_defect_changes_an_answer(
    defect: planted.Defect, quick: list[Exchange], at_once: list[Exchange]
) -> None:
    right = at_once if defect.pace.at_once else quick
    wrong = Visit(defect, defect.pace).play()
    pairs = zip(right, wrong, strict=False)
    assert any(one.got != other.got for one, other in pairs)


@pytest.mark.parametrize(
    "defect",
    [defect for defect in DEFECTS if defect.story is not planted.Story],
    ids=lambda defect: defect.name,
)
def test_story_with_a_defect_runs_to_its_end(defect: planted.Defect) -> None:
    """A step at the wrong time must not stop the later steps."""
    assert [exchange.vm for exchange in Visit(defect).play()][-2:] == ["web_0", "web_1"]


def test_runs_without_a_defect_are_identical(
    quick: list[Exchange], at_once: list[Exchange]
) -> None:
    assert list(Visit(pace=planted.QUICK).play()) == quick
    assert list(Visit(pace=planted.AT_ONCE).play()) == at_once
