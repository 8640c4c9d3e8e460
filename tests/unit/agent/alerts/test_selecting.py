"""The selection of alerts that count, as the settings define it."""

from __future__ import annotations

import pytest

from forewarn.agent.alerts.reading import WORDS_MAX, selection, selector

DISK = {"alertname": "DiskFull", "severity": "page", "team": "db"}


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("DiskFull", True),
        ("diskfull", False),
        ("Disk", False),
        ("Disk*", True),
        ("*", True),
        ("Disk?ull", True),
        ("[CD]iskFull", True),
        ("severity=page", True),
        ("severity=p*", True),
        ("severity=info", False),
        ("alertname=DiskFull", True),
        ("zone=", True),
        ("zone=*", True),
        ("zone=?*", False),
        ("severity=", False),
        ("DiskFull severity=page  team=db", True),
        ("DiskFull severity=page team=web", False),
        ("severity=page NodeDown", False),
    ],
)
def test_selector_matches(text: str, is_one: bool) -> None:
    assert selector(text).matches(DISK) is is_one


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (" ", "must have 1 to 20 words"),
        ("a " * (WORDS_MAX + 1), "must have 1 to 20 words"),
        ('DiskFull{severity="page"}', "without braces and quotes"),
        ('severity="page"', "without braces and quotes"),
        ("severity!=page", "the only operator is ="),
        ("severity=~page|ticket", "the only operator is ="),
        ("a-b=c", '"a-b" is not a valid label name'),
        ("=c", '"" is not a valid label name'),
    ],
)
def test_invalid_selector_error_gives_the_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        selector(text)


@pytest.mark.parametrize(
    ("only", "ignore", "counts"),
    [
        ((), (), True),
        (("DiskFull",), (), True),
        (("NodeDown",), (), False),
        (("NodeDown", "severity=page"), (), True),
        ((), ("DiskFull",), False),
        (("severity=page",), ("team=db",), False),
        (("severity=page",), ("team=web",), True),
    ],
)
def test_selection_counts_matching_alerts(
    only: tuple[str, ...], ignore: tuple[str, ...], counts: bool
) -> None:
    assert selection(only, ignore).counts(DISK) is counts
