"""`forewarn defer`, `expedite`, `deferrals` and `upcoming`, as a tenant and an operator."""

import json
from collections.abc import Callable

import pytest

from forewarn.cli.list_state import ListState
from forewarn.cli.upcoming import UPCOMING
from forewarn.instants import SECOND
from tests.unit.cli.conftest import Ended

Run = Callable[..., Ended]


@pytest.fixture
def tenant(forewarn: Run) -> tuple[str, str]:
    """Return the option with a token of the tenant `shop`."""
    return "--token", forewarn("token", "create", "--tenant", "shop").out.strip()


@pytest.mark.usefixtures("service")
def test_tenant_defers_and_expedites_its_maintenance(
    forewarn: Run, tenant: tuple[str, str]
) -> None:
    assert forewarn("deferrals").out == "no maintenance is deferred or expedited\n"
    begins = ("--not-before", "+5h")
    assert forewarn("maintain", "h1", "--impact", "reboot", *begins).status == 0
    later = ("--until", "+2d", "--reason", "month end")
    ended = forewarn("defer", "web_0", *later, *tenant)
    assert ended.status == 0, ended.err
    assert ended.out.startswith("the maintenance of VM web_0 is deferred until ")
    (seen,) = json.loads(forewarn("deferrals", "--json", *tenant).out)
    assert (seen["vm"], seen["deferrals"], seen["rollout"]) == ("web_0", 1, None)
    for times in (seen["until"], seen["at"], ended.out):
        assert "." not in times.removesuffix(".\n"), "tenants read whole seconds"
    period = forewarn("availability", *tenant).out.partition("\n")[0]
    assert period.startswith("from 20")
    assert "." not in period
    (shown,) = json.loads(forewarn("deferrals", "--json", "--tenant", "shop").out)
    assert (shown["reason"], shown["until"]) == ("month end", seen["until"])
    assert shown["rollout"].startswith("ro-")
    (rollout,) = json.loads(forewarn("rollout", "list", "--json").out)
    assert rollout["states"] == {"Postponed": 1, "Cancelled": 1}
    message = forewarn("explain", "h1").out
    assert "tenant shop has deferred VM web_0 until" in message
    history = forewarn("history", *tenant).out
    assert "maintenance deferred" in history
    ended = forewarn("defer", "web_0", "--clear", "--reason", "wrong VM", *tenant)
    assert ended.out == "the maintenance of VM web_0 is no longer deferred\n"
    assert "over" in forewarn("deferrals", *tenant).out
    (cleared,) = json.loads(forewarn("deferrals", "--json", *tenant).out)
    assert (cleared["over"], cleared["deferrals"]) == (True, 1)
    assert "deferral cleared" in forewarn("history", *tenant).out
    for wrong in ((), ("--clear", *later)):
        ended = forewarn("defer", "web_0", *wrong, *tenant)
        assert ended.status == 4
        assert "give either a time or the end of a deferral" in ended.err
    ended = forewarn("expedite", "web_0", "--reason", "ready", *tenant)
    assert ended.out == (
        "the maintenance of VM web_0 comes first when its host can be maintained, and is "
        "approved before an agent in a VM has prepared\n"
    )
    assert "at once" in forewarn("deferrals").out


@pytest.mark.usefixtures("service")
def test_refused_deferrals_say_why_and_reveal_nothing(
    forewarn: Run, tenant: tuple[str, str]
) -> None:
    later = ("--until", "+2d", "--reason", "month end")
    ended = forewarn("defer", "web_0", *later, *tenant)
    assert ended.status == 4
    assert "no maintenance of VM web_0 is planned or announced" in ended.err
    assert forewarn("maintain", "h1", "--impact", "reboot").status == 0
    ended = forewarn("defer", "web_0", "--until", "+9d", "--reason", "x", *tenant)
    assert "maintenance is deferred by at most 7 d" in ended.err
    ended = forewarn("defer", "db_0", *later, *tenant)
    assert "there is no VM or scope 'db_0'" in ended.err
    ended = forewarn("expedite", "db_0", *tenant)
    assert "there is no VM 'db_0'" in ended.err


@pytest.mark.usefixtures("service")
def test_tenant_lists_its_coming_work_and_the_operator_sees_the_same(
    forewarn: Run, tenant: tuple[str, str]
) -> None:
    assert forewarn("upcoming", *tenant).out == "no work is planned or announced\n"
    assert forewarn("maintain", "h1", "h2", "--impact", "reboot").status == 0
    first, second = json.loads(forewarn("upcoming", "--json", *tenant).out)
    assert [row["vm"] for row in (first, second)] == ["web_0", "web_1"]
    assert {first["impact"], second["impact"]} == {"reboot"}
    assert (first["state"], second["state"]) == ("Announced", "Planned")
    assert first["operation"] in forewarn("operations", *tenant).out
    assert second["operation"] is None
    # No pace of the rollout is known yet.
    assert (first["latest"] is None, second["latest"] is None) == (False, True)
    shown = forewarn("upcoming", "--tenant", "shop")
    assert shown.out == forewarn("upcoming", *tenant).out
    assert "unknown: there is no estimate yet" in shown.out
    explained = forewarn("explain", "web_1", *tenant).out
    assert "Coming work on it:\n  * planned: reboot, not before 20" in explained
    assert "h2" not in explained.replace(":", " ").split()
    (only,) = json.loads(forewarn("upcoming", "--vm", "web_1", "--json", *tenant).out)
    assert only == second
    assert (
        len(json.loads(forewarn("upcoming", "--scope=web", "--json", *tenant).out)) == 2
    )


@pytest.mark.usefixtures("service")
def test_coming_work_of_others_is_unknown_and_an_operator_names_a_tenant(
    forewarn: Run, tenant: tuple[str, str]
) -> None:
    assert forewarn("maintain", "h1", "h2", "--impact", "reboot").status == 0
    for options in (("--vm", "db_0"), ("--scope", "db"), ("--tenant", "bank")):
        ended = forewarn("upcoming", *options, *tenant)
        assert (ended.status, ended.out) == (4, "")
        assert "there is no" in ended.err
    ended = forewarn("upcoming")
    assert "name the tenant whose coming work to list" in ended.err
    assert "Add --tenant NAME" in ended.err
    assert "there is no tenant 'nope'" in forewarn("upcoming", "--tenant", "nope").err


def test_watched_work_has_a_row_until_it_begins() -> None:
    state = ListState(UPCOMING)
    work = {
        "work": "3f",
        "vm": "web_0",
        "scope": "web",
        "impact": "reboot",
        "state": "Planned",
        "earliest": "2026-11-21T02:00:00Z",
        "latest": None,
        "why_unknown": "there is no estimate yet",
    }
    assert state.take("upcoming", work, now=0)
    state.take("ready", {}, now=0)
    assert state.take("upcoming", {**work, "state": "Announced"}, now=3 * SECOND)
    ((row,), _) = state.shown(5)
    assert list(state.cells(row)) == [
        *("web_0", "Announced", "00:00:03Z", "reboot", "2026-11-21T02:00:00Z"),
        *("unknown: there is no estimate yet", "web"),
    ]
    over = {"work": "3f", "vm": "web_0", "scope": "web", "state": "Over", "ended": "x"}
    assert not state.take("upcoming", over, now=4 * SECOND)
    assert state.shown(5) == ([], 0)


@pytest.mark.usefixtures("service")
def test_scope_is_not_expedited_as_a_whole(
    forewarn: Run, tenant: tuple[str, str]
) -> None:
    assert forewarn("maintain", "h1", "--impact", "reboot").status == 0
    ended = forewarn("expedite", "web", "--reason", "drained", *tenant)
    assert ended.status == 4
    assert "web is a scope, whose VMs are expedited one by one" in ended.err
    assert "Run `forewarn upcoming --scope web` to see" in ended.err
    ended = forewarn("expedite", "web", "--reason", "drained")
    assert "--scope web --tenant shop`" in ended.err
    ended = forewarn("expedite", "db", "--reason", "drained", *tenant)
    assert "there is no VM 'db'" in ended.err


@pytest.mark.usefixtures("service")
def test_deferrals_of_a_scope_are_listed(
    forewarn: Run, tenant: tuple[str, str]
) -> None:
    begins = ("--not-before", "+5h")
    assert forewarn("maintain", "h1", "--impact", "reboot", *begins).status == 0
    assert forewarn("defer", "web_0", "db", "--until", "+2d").status == 0
    for scope, vm in (("web", "web_0"), ("db", None)):
        document = json.loads(forewarn("deferrals", "--scope", scope, "--json").out)
        assert [(row["scope"], row["vm"]) for row in document] == [(scope, vm)]
    for scope, *options in (("nope",), ("db", *tenant)):
        ended = forewarn("deferrals", "--scope", scope, *options)
        assert (ended.status, ended.out) == (4, "")
        assert f"there is no scope '{scope}'" in ended.err
