"""`cluster show` as it is printed."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from forewarn.cluster.port import Condition, LeaseRow, Role, StandbyState
from forewarn.cluster.view import Look, View, looked
from tests.unit.cli.conftest import REPLICAS, Ended
from tests.unit.cluster.test_view import Watcher, row

Run = Callable[..., Ended]


@pytest.fixture
def shown(
    forewarn: Run, monkeypatch: pytest.MonkeyPatch
) -> Callable[[View], list[str]]:
    """Return a way to print what replica `b` sees."""

    def show(view: View) -> list[str]:
        monkeypatch.setattr(REPLICAS, "found", view)
        ended = forewarn("cluster", "show")
        assert (ended.status, ended.err) == (0, "")
        return ended.out.splitlines()

    return show


@pytest.mark.usefixtures("service")
def test_cluster_is_printed_as_a_table_or_json(
    forewarn: Run, monkeypatch: pytest.MonkeyPatch, shown: Callable[[View], list[str]]
) -> None:
    watcher = Watcher()
    watcher.look(10, 10)
    unseen = Condition(standby=StandbyState.UNKNOWN)
    watcher.watch = replace(watcher.watch, condition=unseen)
    head, standby, columns, first, second = shown(watcher.look(12, 10))
    assert head == "a leads for 50 s (term 3), says b"
    assert standby.startswith("synchronous standby: unknown")
    assert standby.endswith(
        'sudo -u postgres psql -c "GRANT pg_read_all_stats TO forewarn"'
    )
    assert columns.split() == [
        "REPLICA",
        "ROLE",
        "BEHIND",
        "LAST",
        "SIGN",
        "LEASE",
        "VERSION",
        "URL",
    ]
    assert first.split()[:3] == ["a", "leads", "-"]
    assert second.split()[:6] == ["b", "follows", "2", "entries,", "0.0", "s"]
    assert json.loads(forewarn("cluster", "show", "--json").out)["leader"] == "a"
    assert "follows  1 entry, 0.0 s" in shown(watcher.look(13, 12))[-1]
    monkeypatch.setattr(REPLICAS, "found", None)
    ended = forewarn("cluster", "show")
    assert (
        ended.out == "this service has no cluster: it runs alone, with its own store\n"
    )
    assert json.loads(forewarn("cluster", "show", "--json").out)["replicated"] is False


@pytest.mark.usefixtures("service")
def test_different_leases_are_shown_with_the_remedy(
    shown: Callable[[View], list[str]],
) -> None:
    watcher = Watcher()
    long, short = row("c", 10, 1, lease=6.0), row("d", 10, 1, lease=2.4)
    *_, third, fourth, remedy = shown(watcher.look(10, 10, long, short))
    assert "  6s  " in third
    assert "  2s400ms  " in fourth
    assert remedy == (
        "the replicas have different leases. Set the same `[cluster] lease` on all "
        "replicas, and restart them one after the other, the leader last"
    )


@pytest.mark.usefixtures("service")
def test_unknown_and_refused_are_answers(shown: Callable[[View], list[str]]) -> None:
    watcher = Watcher()
    assert shown(watcher.view())[0] == (
        "unknown: b has had no answer of the database since it started"
    )
    view = watcher.look(10, 10, row("c", 11, 1, role=Role.BEHIND), term=5)
    *_, refusing, why = shown(view)
    assert refusing.split()[:3] == ["c", "refuses", "unknown"]
    assert why.startswith("the database has lost transactions that replica c has seen")
    assert "`forewarn store restored`" in why
    assert shown(watcher.view(20))[0] == (
        "unknown: b has had no answer of the database for 20 s"
    )
    # No right is missing: nothing at all is known of the database.
    assert "synchronous standby" not in "".join(shown(watcher.view(20)))
    view = watcher.look(10, 10, holder="", term=7)
    assert shown(view)[0] == "no replica leads (term 7), says b"
    free = LeaseRow(term=8, holder="b 1", url="", beat=1, number=10)
    watcher.watch = looked(
        watcher.watch, Look(at=watcher.at, lease=free, rows=(row("b", 10, 1),))
    )
    assert shown(watcher.view())[0] == (
        "b leads for an unknown time (term 8, 3 takeovers in 15 minutes), says b"
    )
