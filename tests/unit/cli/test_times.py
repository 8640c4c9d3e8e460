"""Times after a command: with an offset, relative, or in local time."""

import time  # noqa: TID251 - the zone of the process is set by it
from collections.abc import Callable, Iterator
from zoneinfo import ZoneInfo

import pytest

from forewarn.cli.command_table import CommandError, Exit
from forewarn.cli.times import with_offset
from tests.unit.cli.conftest import Ended, Served

Run = Callable[..., Ended]

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have this process live in Berlin."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-21T10:00:00Z",
        "2026-11-21T10:00:00+05:45",
        "+30m",
        "24h",
        "tomorrow",
        "",
    ],
)
def test_other_texts_are_passed_to_the_service(text: str) -> None:
    assert with_offset(text, zone=BERLIN) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-21T10:00", "2026-11-21T10:00:00+01:00"),
        ("2026-07-01 10:00:30", "2026-07-01T10:00:30+02:00"),
        ("2026-07-01", "2026-07-01T00:00:00+02:00"),
    ],
)
@pytest.mark.usefixtures("berlin")
def test_local_time_gets_the_zone_offset_of_that_date(text: str, expected: str) -> None:
    assert with_offset(text, zone=BERLIN) == expected
    assert with_offset(text) == expected


@pytest.mark.parametrize("text", ["2026-10-25T02:30", "2026-03-29T02:30"])
@pytest.mark.usefixtures("berlin")
def test_local_time_during_an_offset_change_is_refused(text: str) -> None:
    for zone in (BERLIN, None):
        with pytest.raises(CommandError, match="occurs twice or never") as caught:
            with_offset(text, zone=zone)
        assert caught.value.status is Exit.USAGE
        offsets = caught.value.hint
        assert "+02:00" in offsets
        assert "+01:00" in offsets


@pytest.mark.parametrize(
    "text",
    [
        "2030-01-01T04:00:00+02:00",
        "2030-01-01T07:45:00+05:45",
        "2029-12-31T21:00:00-05:00",
        "2030-01-01 03:00",
    ],
)
@pytest.mark.usefixtures("berlin")
def test_request_accepts_any_offset_and_local_time(
    service: Served, forewarn: Run, text: str
) -> None:
    ended = forewarn("maintain", "h1", "--impact", "freeze", "--not-before", text)
    assert (ended.status, ended.err) == (0, "")
    assert "2030-01-01T02:00:00Z" in ended.out
    output = forewarn("history", "--since", "2029-12-31 00:00", "--until", "2030-01-02")
    assert (output.status, output.err) == (0, "")
    assert "maintain" in output.out


def test_termination_of_spot_vm_reports_that_no_vm_gets_notice(
    service: Served, forewarn: Run
) -> None:
    ended = forewarn("terminate", "db_0")
    assert (ended.status, ended.err) == (0, "")
    assert "no event, so no VM gets notice" in ended.out
    assert "`forewarn evict VM` gives a Spot VM the notice of a Preempt" in ended.out
