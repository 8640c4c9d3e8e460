"""Maintenance windows in fleet files, and as lines."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn import toml
from forewarn.fleet.errors import FleetFileError
from forewarn.fleet.export import export_fleet
from forewarn.fleet.file import read_fleet
from forewarn.fleet.merge import plan
from forewarn.fleet.window_fields import (
    ALL_DAYS,
    WINDOWS_MAX,
    line_of,
    table_of,
    window_of,
)
from forewarn.fleet.windows import Window
from forewarn.instants import HOUR, MINUTE

SCOPE = '[[scope]]\nname = "web"\nkind = "scale-set"\nmaintenance_window = '
SATURDAY = Window(days=(5,), start=120, length=4 * HOUR, timezone="Europe/Berlin")

WINDOWS = st.builds(
    Window,
    days=st.sets(st.integers(0, 6), min_size=1).map(lambda days: tuple(sorted(days))),
    start=st.integers(0, 24 * 60 - 1),
    length=st.integers(1, 7 * 24 * 60).map(lambda minutes: minutes * MINUTE),
    timezone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York"]),
)


def windows(text: str) -> tuple[Window, ...]:
    scope = read_fleet(SCOPE + text, name="fleet.toml").scopes["web"]
    return scope.maintenance_window


def test_one_table_is_one_window() -> None:
    text = (
        '{ days = ["sat"], start = "02:00", length = "4h", timezone = "Europe/Berlin" }'
    )
    assert windows(text) == (SATURDAY,)


def test_window_without_days_and_timezone_opens_every_day_in_utc() -> None:
    every_day = Window(days=ALL_DAYS, start=1320, length=HOUR)
    assert windows('[{ start = "22:00", length = "1h" }]') == (every_day,)


@given(st.lists(WINDOWS, min_size=1, max_size=3))
def test_exported_windows_are_read_back(wanted: list[Window]) -> None:
    text = SCOPE + toml.value([table_of(window) for window in wanted])
    fleet = read_fleet(text, name="fleet.toml")
    again = export_fleet(fleet.tenants.values(), fleet.scopes.values(), (), ())
    assert read_fleet(again, name="again").scopes == fleet.scopes


@given(WINDOWS)
def test_line_of_a_window_is_read_back(window: Window) -> None:
    assert window_of(line_of(window)) == window


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            '"sat 02:00"',
            "must be a table with start and length, or a list of such tables",
        ),
        ('[{ start = "02:00" }, 3]', "must be a table with start and length"),
        (
            '{ start = "24:00", length = "1h" }',
            'start: must be a time of day such as "22:00"',
        ),
        ('{ start = "02:00" }', "length: is missing"),
        ('{ start = "02:00", length = "8d" }', "length: must be at most 7d"),
        ('{ start = "02:00", lenght = "1h" }', "there is no key 'lenght'"),
        (
            '{ start = "02:00", length = "1h", timezone = "Europe/Berln" }',
            "timezone: there is no time zone 'Europe/Berln' (did you mean 'Europe/Berlin'?)",
        ),
        (
            "[" + '{ start = "02:00", length = "1h" }, ' * (WINDOWS_MAX + 1) + "]",
            "must have at most 20 windows, not 21",
        ),
    ],
)
def test_invalid_window_is_refused_with_its_key(text: str, problem: str) -> None:
    with pytest.raises(FleetFileError) as error:
        windows(text)
    assert "scope.maintenance_window" in str(error.value)
    assert problem.replace("'", '"') in str(error.value).replace("'", '"')


@pytest.mark.parametrize("line", ["", "sat", "sat 02:00", "02:00 4h UTC and more"])
def test_line_with_another_number_of_words_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="is not a line such as"):
        window_of(line)


def test_window_that_was_set_otherwise_stays_until_the_file_changes_it() -> None:
    night = '{ start = "22:00", length = "1h" }'
    file = read_fleet(SCOPE + night, name="fleet.toml")
    (scope,) = file.scopes.values()
    actual = replace(scope, maintenance_window=(SATURDAY,))

    def merged(text: str) -> list[str]:
        wanted = read_fleet(SCOPE + text, name="fleet.toml")
        merge = plan(
            wanted, tenants=file.tenants.values(), scopes=[actual], hosts=(), vms=()
        )
        return list(merge.lines())

    (note,) = merged(night)
    assert note == (
        "scope web keeps maintenance_window sat 02:00 4h Europe/Berlin "
        "(the file says 22:00 1h UTC)"
    )
    assert merged('{ start = "23:00", length = "1h" }') == [
        "~ scope web: maintenance_window sat 02:00 4h Europe/Berlin → 23:00 1h UTC"
    ]
