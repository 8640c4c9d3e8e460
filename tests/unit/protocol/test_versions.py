"""The table of api-versions."""

from __future__ import annotations

import pytest

from forewarn.protocol import versions
from forewarn.protocol.events import EventType


@pytest.mark.clause("1.3")
def test_there_are_seven_versions_oldest_first() -> None:
    names = [version.name for version in versions.VERSIONS]
    assert names == [
        "2017-03-01",
        "2017-08-01",
        "2017-11-01",
        "2019-01-01",
        "2019-04-01",
        "2019-08-01",
        "2020-07-01",
    ]
    assert versions.NEWEST.name == "2020-07-01"
    assert [version.order for version in versions.VERSIONS] == list(range(7))


@pytest.mark.clause("1.3")
@pytest.mark.parametrize(
    "text",
    ["", "latest", "{latest}", "2020-07-1", " 2020-07-01", "2020-07-15", "2021-02-01"],
)
def test_unknown_version_is_not_parsed(text: str) -> None:
    assert versions.parse(text) is None


@pytest.mark.clause("1.3")
def test_each_name_gives_its_version() -> None:
    for version in versions.VERSIONS:
        assert versions.parse(version.name) is version


@pytest.mark.clause("1.4", "1.6")
def test_only_the_preview_has_underscores_and_an_optional_header() -> None:
    first, *others = versions.VERSIONS
    assert first.underscore
    assert not first.header_enforced
    assert not any(version.underscore for version in others)
    assert all(version.header_enforced for version in others)


@pytest.mark.clause("1.4", "1.5")
@pytest.mark.parametrize(
    ("event_type", "since"),
    [
        (EventType.FREEZE, "2017-03-01"),
        (EventType.REBOOT, "2017-03-01"),
        (EventType.REDEPLOY, "2017-03-01"),
        (EventType.PREEMPT, "2017-11-01"),
        (EventType.TERMINATE, "2019-01-01"),
    ],
)
def test_a_type_is_hidden_before_its_version(event_type: EventType, since: str) -> None:
    shown = [v.name for v in versions.VERSIONS if event_type not in v.hidden]
    assert shown == [v.name for v in versions.VERSIONS if v.name >= since]


@pytest.mark.clause("1.4")
def test_each_version_adds_its_members() -> None:
    added = {
        version.name: (version.description, version.source, version.duration)
        for version in versions.VERSIONS[3:]
    }
    assert added == {
        "2019-01-01": (False, False, False),
        "2019-04-01": (True, False, False),
        "2019-08-01": (True, True, False),
        "2020-07-01": (True, True, True),
    }


@pytest.mark.clause("1.8")
def test_the_newest_three_are_offered_newest_first() -> None:
    assert versions.NEWEST_NAMES == ("2020-07-01", "2019-08-01", "2019-04-01")
