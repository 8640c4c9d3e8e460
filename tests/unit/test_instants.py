"""Instants and durations, and their texts."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.instants import (
    DAY,
    DURATION_MAX,
    HOUR,
    MILLISECOND,
    MINUTE,
    SECOND,
    describe_duration,
    format_duration,
    format_http_date,
    format_instant,
    parse_duration,
    parse_http_date,
    parse_instant,
    round_up_to_second,
)

EXAMPLE = parse_instant("2022-04-11T22:26:58Z")
YEAR_9999 = parse_instant("9999-12-31T23:59:59Z")


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("0", 0),
        ("0s", 0),
        ("7us", 7),
        ("500ms", 500 * MILLISECOND),
        ("7s", 7 * SECOND),
        (" 15m ", 15 * MINUTE),
        ("1h30m", 90 * MINUTE),
        ("1.5h", 90 * MINUTE),
        ("7d", 7 * DAY),
        ("PT5M", 5 * MINUTE),
        ("PT15M", 15 * MINUTE),
        ("P1DT2H3M4.5S", DAY + 2 * HOUR + 3 * MINUTE + 4 * SECOND + 500_000),
        ("P7D", 7 * DAY),
        ("3650d", DURATION_MAX),
    ],
)
def test_durations_are_parsed(text: str, duration: int) -> None:
    assert parse_duration(text) == duration


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "5",
        "m",
        "-5m",
        "5 m",
        "5M",
        "5mx",
        "1e3s",
        "P",
        "PT",
        "pt5m",
        "P1Y",
        "5w",
    ],
)
def test_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration such as"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["3651d", "P3651D", "99999999999999999d"])
def test_a_duration_has_a_limit(text: str) -> None:
    with pytest.raises(ValueError, match="longer than ten years"):
        parse_duration(text)


@given(st.integers(0, DURATION_MAX))
def test_formatted_durations_are_parsed_back(duration: int) -> None:
    assert parse_duration(format_duration(duration)) == duration


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (0, "0s"),
        (15 * MINUTE, "15m"),
        (90 * MINUTE, "1h30m"),
        (25 * HOUR + 1, "1d1h1us"),
        (1_500_000, "1s500ms"),
    ],
)
def test_durations_are_formatted_briefly(duration: int, text: str) -> None:
    assert format_duration(duration) == text


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (-5, "0 s"),
        (0, "0 s"),
        (1, "1 s"),
        (SECOND, "1 s"),
        (7 * MINUTE + 12 * SECOND, "7 m 12 s"),
        (7 * DAY, "7 d"),
        (DAY + HOUR + MINUTE + SECOND, "1 d 1 h"),
        (DAY + SECOND, "1 d 1 s"),
    ],
)
def test_durations_are_described_in_words(duration: int, text: str) -> None:
    assert describe_duration(duration) == text


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("1970-01-01T00:00:00Z", 0),
        (" 1970-01-01T00:00:01.000002Z ", SECOND + 2),
        ("1970-01-01T02:00:00+02:00", 0),
        ("1969-12-31T23:59:59Z", -SECOND),
        ("1970-01-01t00:00:01z", SECOND),
        ("1970-01-01 00:01Z", MINUTE),
        ("1969-12-31T22:30:00,5-0130", SECOND // 2),
        # More digits than an instant has, as a Go program writes them.
        ("1970-01-01T00:00:00.123456789Z", 123_456),
    ],
)
def test_instants_are_parsed(text: str, instant: int) -> None:
    assert parse_instant(text) == instant


@given(
    st.datetimes(
        timezones=st.builds(
            timezone,
            st.integers(-23 * 60, 23 * 60).map(
                lambda minutes: timedelta(minutes=minutes)
            ),
        )
    )
)
def test_isoformat_instants_are_parsed(moment: datetime) -> None:
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    assert parse_instant(moment.isoformat()) == (
        (moment - epoch) // timedelta(microseconds=1)
    )


@pytest.mark.parametrize(
    "text",
    [
        *("", "now", "2026-13-01T00:00:00Z", "0000-01-01T00:00:00Z"),
        *("2026-11-21T24:00:00Z", "2026-11-21T10:00:60Z", "2026-11-21T10:00:00+24:00"),
        # ISO 8601, but not RFC 3339.
        *("20261121T100000Z", "2026-W47-6T10:00:00Z", "2026-11-21T10Z"),
        *("2026-11-21T10:00:00.Z", "2026-11-21T10:00:00Z.", "٢٠٢٦-11-21T10:00:00Z"),
    ],
)
def test_invalid_instant_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time such as"):
        parse_instant(text)


@pytest.mark.parametrize("text", ["2026-11-21T10:00:00", "2026-11-21"])
def test_instant_without_an_offset_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="has no offset: add Z for UTC, or"):
        parse_instant(text)


@given(st.integers(0, YEAR_9999))
def test_formatted_instants_are_parsed_back(instant: int) -> None:
    assert parse_instant(format_instant(instant)) == instant


def test_instant_has_a_fraction_only_if_it_is_not_zero() -> None:
    assert format_instant(EXAMPLE) == "2022-04-11T22:26:58Z"
    assert format_instant(EXAMPLE + 5) == "2022-04-11T22:26:58.000005Z"


@pytest.mark.clause("2.7")
def test_http_date_is_formatted() -> None:
    assert format_http_date(EXAMPLE) == "Mon, 11 Apr 2022 22:26:58 GMT"
    assert format_http_date(0) == "Thu, 01 Jan 1970 00:00:00 GMT"


@pytest.mark.clause("2.7")
@given(st.integers(0, YEAR_9999))
def test_http_date_has_29_characters(instant: int) -> None:
    assert len(format_http_date(instant)) == 29


@pytest.mark.clause("2.7")
@given(st.integers(parse_instant("0001-01-01T00:00:00Z"), YEAR_9999))
def test_http_date_matches_the_standard_library(instant: int) -> None:
    moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(
        seconds=instant // SECOND
    )
    assert format_http_date(instant) == format_datetime(moment, usegmt=True)


@given(st.integers(parse_instant("0001-01-01T00:00:00Z"), YEAR_9999))
def test_formatted_http_date_is_parsed_back(instant: int) -> None:
    assert parse_http_date(format_http_date(instant)) == instant // SECOND * SECOND


@pytest.mark.parametrize(
    "text",
    [
        "Mon, 11 Apr 2022 22:26:58 GMT",
        " Mon, 11 Apr 2022 22:26:58 UTC ",
        "Monday, 11-April-2022 22:26:58 GMT",
        "11 apr 2022 22:26:58",
        "Sun, 11 Apr 2022 22:26:58.5 +0000",
    ],
)
def test_http_date_variants_are_parsed(text: str) -> None:
    assert parse_http_date(text) == EXAMPLE


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Mon, 32 Apr 2022 22:26:58 GMT",
        "Mon, 11 Abc 2022 22:26:58 GMT",
        "Mon, 11 Apr 2022 25:26:58 GMT",
        "Mon, 11 Apr 2022 22:26:58 +0200",
        "Mon, 11 Apr 0000 22:26:58 GMT",
        "2022-04-11T22:26:58Z",
    ],
)
def test_invalid_http_date_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_http_date(text)


@pytest.mark.clause("2.7")
@given(st.integers(-DAY, YEAR_9999))
def test_instant_is_rounded_up_to_a_whole_second(instant: int) -> None:
    rounded = round_up_to_second(instant)
    assert rounded % SECOND == 0
    assert instant <= rounded < instant + SECOND
