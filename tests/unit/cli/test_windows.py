"""`forewarn window`: a tenant or operator sets, shows and clears maintenance windows."""

import json
from collections.abc import Callable

import pytest

from forewarn.reporting.windows import OPENINGS_SHOWN
from tests.unit.cli.conftest import Ended

Run = Callable[..., Ended]

SATURDAY = "sat,sun 02:00 4h Europe/Berlin"


@pytest.mark.usefixtures("service")
def test_windows_are_set_shown_and_cleared(forewarn: Run) -> None:
    ended = forewarn("window", "show")
    assert (ended.status, ended.out) == (0, "no scope has a maintenance window\n")
    ended = forewarn(
        "window", "set", "web", "--window", SATURDAY, "--window", "22:00 1h"
    )
    assert ended.status == 0, ended.err
    assert ended.out.startswith(f"scope web: {SATURDAY}; 22:00 1h UTC (next: ")
    (shown,) = json.loads(forewarn("window", "show", "--json").out)
    assert (shown["scope"], shown["windows"]) == ("web", [SATURDAY, "22:00 1h UTC"])
    assert len(shown["openings"]) == OPENINGS_SHOWN
    assert shown["openings"][0]["opens"] in forewarn("window", "show", "web").out
    exported = forewarn("fleet", "export").out
    assert 'timezone = "Europe/Berlin"' in exported
    ended = forewarn("window", "clear", "web", "--reason", "tests are over")
    assert ended.out == "scope web can be maintained at any time\n"
    history = forewarn("history").out
    assert "window set" in history
    assert "window cleared" in history


@pytest.mark.usefixtures("service")
def test_invalid_windows_are_refused_with_a_hint(forewarn: Run) -> None:
    ended = forewarn("window", "set", "web", "--window", "sat 25:00 4h")
    assert ended.status == 4
    assert "'sat 25:00 4h' is not a window: start: must be a time of day" in ended.err
    assert "hint: Write it like 'sat,sun 02:00 4h Europe/Berlin'." in ended.err
    many = [word for _ in range(21) for word in ("--window", "22:00 1h")]
    ended = forewarn("window", "set", "web", *many)
    assert "a scope has at most 20 windows, not 21" in ended.err
    ended = forewarn("window", "clear", "web")
    assert (ended.status, "scope web has no maintenance window" in ended.err) == (
        4,
        True,
    )


@pytest.mark.usefixtures("service")
def test_tenant_sets_windows_of_its_own_scopes_only(forewarn: Run) -> None:
    token = forewarn("token", "create", "--tenant", "shop").out.strip()
    own = ("--token", token)
    ended = forewarn("window", "set", "web", "db", "--window", SATURDAY, *own)
    assert ended.status == 1
    assert "scope web: sat,sun" in ended.out
    assert "there is no scope 'db'" in ended.err
    assert forewarn("window", "set", "db", "--window", "22:00 1h").status == 0
    (shown,) = json.loads(forewarn("window", "show", "--json", *own).out)
    assert shown["scope"] == "web"
    ended = forewarn("window", "show", "db", *own)
    assert (ended.status, "there is no scope 'db'" in ended.err) == (4, True)
    assert SATURDAY in forewarn("history", *own).out


@pytest.mark.usefixtures("service")
def test_waits_show_what_a_window_holds_and_until_when(forewarn: Run) -> None:
    assert forewarn("window", "set", "web", "--window", SATURDAY).status == 0
    assert forewarn("maintain", "h1", "h2", "--impact", "reboot").status == 0
    (held,) = json.loads(forewarn("waits", "--json").out)["held"]
    assert (held["scope"], held["kind"]) == ("web", "window closed")
    ended = forewarn("waits")
    assert ended.status == 0
    assert "HELD BY" in ended.out
    assert f"the maintenance window of scope web opens at {held['until']}" in ended.out
