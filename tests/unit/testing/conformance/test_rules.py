"""Tests of each rule without observations, with a pass, and with a violation."""

import pytest

from forewarn.testing.conformance.check import Failed, NotTried, Passed, Rule
from forewarn.testing.conformance.checks import RULES
from forewarn.testing.conformance.transcript import Transcript
from tests.support.broken_rules import BROKEN
from tests.support.rule_stories import KEPT, Told
from tests.support.shown_documents import Story

RULE_BY_TITLE = {rule.title: rule for rule in RULES}


def test_each_rule_has_passing_and_failing_stories() -> None:
    assert set(KEPT) == set(BROKEN) == set(RULE_BY_TITLE)
    assert all(BROKEN.values())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.title)
def test_rule_without_observations_is_not_tried(rule: Rule) -> None:
    verdict = rule.judge(Transcript())
    assert isinstance(verdict, NotTried)
    assert verdict.needs


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.title)
def test_rule_passes_in_its_story(rule: Rule) -> None:
    story = KEPT[rule.title]()
    verdict = rule.judge(story.seen)
    assert isinstance(verdict, Passed), verdict
    numbers = {*range(1, len(story.requests) + 1)}
    for witness in verdict.witnesses:
        assert {exchange.number for exchange in witness.exchanges} <= numbers


@pytest.mark.parametrize(
    ("title", "told", "part"),
    [(title, *story) for title, stories in BROKEN.items() for story in stories],
)
def test_rule_fails_in_its_failing_stories(title: str, told: Told, part: str) -> None:
    verdict = RULE_BY_TITLE[title].judge(told().seen)
    assert isinstance(verdict, Failed), verdict
    assert part in verdict.witness.complaint


WITHOUT_EVENTS = (
    "1.1 each GET of the document is answered",
    "1.10 the ETag is the incarnation",
    "1.10 a GET without a tag gets the whole document",
    "1.12 JSON has its content type, in UTF-8",
    "1.12 each answer is complete",
    "1.12 each answer is well-formed",
    "1.12 no body is compressed without a request for it",
    "1.3 every version is served",
    "2.1 compact: no blanks outside strings",
    "2.1 Events is an array, empty without events",
    "2.1 two members: DocumentIncarnation, Events",
    "2.10 all versions have one incarnation",
    "2.10 one incarnation has one content",
    "2.10 the incarnation is an integer from 1 on",
    "7.1 the first request gets a document",
)


def test_empty_document_passes_no_rule_about_events() -> None:
    transcript = Story().show().wait().seen
    passed = [
        f"{rule.clause} {rule.title}"
        for rule in RULES
        if isinstance(rule.judge(transcript), Passed)
    ]
    assert sorted(passed) == sorted(WITHOUT_EVENTS)
