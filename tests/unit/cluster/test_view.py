"""The replicas as one of them sees them."""

from dataclasses import replace
from typing import Any

import pytest

from forewarn.cluster import view as views
from forewarn.cluster.port import Condition, LeaseRow, ReplicaRow, Role, StandbyState
from forewarn.cluster.view import Look, View, Watch, looked


def lease(number: int = 10, **more: Any) -> LeaseRow:
    row = LeaseRow(term=3, holder="a 1", url="", beat=1, number=number)
    return replace(row, **more)


def row(name: str, position: int, beat: int, **more: Any) -> ReplicaRow:
    return ReplicaRow(
        key=f"{name} 1", name=name, url="", position=position, beat=beat, **more
    )


class Watcher:
    """Looks every second at a leader `a` and a follower `b`."""

    def __init__(self) -> None:
        self.watch, self.at = Watch(), 100.0

    def look(
        self,
        number: int,
        position: int,
        *more: ReplicaRow,
        seconds: float = 1.0,
        **of: Any,
    ) -> View:
        self.at += seconds
        beat = int(self.at)
        rows = (
            row("a", 0, beat, role=Role.LEADS, led_for=50.0),
            row("b", position, beat),
            *more,
        )
        look = Look(at=self.at, lease=lease(number, **of), rows=rows)
        self.watch = looked(self.watch, look)
        return self.view()

    def view(self, seconds: float = 0.0) -> View:
        return views.view(self.watch, self.at + seconds, observer="b 1")


def of(view: View, name: str) -> views.ReplicaView:
    (found,) = (replica for replica in view.replicas if replica.row.name == name)
    return found


def test_nothing_is_known_before_the_first_look() -> None:
    view = Watcher().view()
    assert (view.age, view.lease, view.leader, view.replicas) == (None, None, None, ())
    assert view.has_leader is None
    assert not view.lacks_standby


def test_leader_is_named_with_the_time_for_which_it_leads() -> None:
    watcher = Watcher()
    watcher.look(10, 10)
    view = watcher.view(0.5)
    assert view.has_leader
    assert view.observer_name == "b"
    assert view.leader is of(view, "a")
    assert view.led_for == 50.5
    # Its own row does not say how far its documents are: it has published them itself.
    assert (of(view, "a").entries, of(view, "a").seconds) == (0, 0.0)
    assert (of(view, "b").entries, of(view, "b").seconds) == (0, 0.0)
    assert view.lagging == view.refusing == ()


def test_follower_is_behind_since_the_look_that_showed_what_it_lacks() -> None:
    watcher = Watcher()
    watcher.look(10, 10)
    assert of(watcher.look(12, 10), "b").seconds == 0.0
    assert of(watcher.look(13, 10), "b").entries == 3
    view = watcher.view(0.25)
    assert of(view, "b").seconds == 1.25
    # It has the first two meanwhile, so only the third one counts.
    assert of(watcher.look(13, 12), "b").seconds == 1.0
    assert of(watcher.look(13, 13), "b").seconds == 0.0
    assert watcher.watch.numbers == ()


def test_replica_that_lags_for_long_is_a_problem() -> None:
    watcher = Watcher()
    watcher.look(11, 10)
    for _ in range(9):
        assert watcher.look(11, 10).lagging == ()
    (lagging,) = watcher.look(11, 10).lagging
    assert lagging.row.name == "b"


def test_numbers_are_bounded_and_the_oldest_is_kept() -> None:
    watcher = Watcher()
    for number in range(11, 11 + 3 * views.NUMBERS_KEPT):
        watcher.look(number, 10)
        assert len(watcher.watch.numbers) <= views.NUMBERS_KEPT
    assert of(watcher.view(), "b").seconds == 3 * views.NUMBERS_KEPT - 1


def test_silent_replica_is_unknown() -> None:
    watcher = Watcher()
    other = row("c", 10, beat=7)
    watcher.look(10, 10, other)
    for _ in range(4):
        assert of(watcher.look(10, 10, other), "c").role is Role.FOLLOWS
    silent = of(watcher.look(10, 10, other), "c")
    assert (silent.role, silent.entries, silent.seconds) == (None, None, None)
    assert silent.silent_for == views.SILENT_SECONDS
    assert watcher.view().lagging == (silent,)


def test_everything_is_unknown_while_the_database_is_away() -> None:
    watcher = Watcher()
    watcher.look(10, 10)
    view = watcher.view(views.SILENT_SECONDS)
    assert view.has_leader is None
    assert (view.age, view.led_for) == (views.SILENT_SECONDS, None)
    assert [replica.role for replica in view.replicas] == [None, None]
    assert view.condition is view.standby is None
    assert not view.lacks_standby


@pytest.mark.parametrize(
    ("holder", "has_leader"), [("", False), ("gone 1", False), ("a 1", True)]
)
def test_lease_without_a_known_holder_has_no_leader(
    holder: str, *, has_leader: bool
) -> None:
    view = Watcher().look(10, 10, holder=holder)
    assert view.has_leader is has_leader
    if not has_leader:
        assert view.led_for is None
        # The old leader has not written its row again.
        assert of(view, "a").role is Role.UNSURE


def test_new_leader_leads_before_it_has_written_its_row() -> None:
    view = Watcher().look(10, 10, holder="b 1", term=4)
    assert view.leader is of(view, "b")
    assert of(view, "b").role is Role.LEADS
    assert view.led_for is None


def test_replica_that_saw_lost_transactions_refuses_to_lead() -> None:
    other = row("c", 12, beat=7, role=Role.BEHIND)
    view = Watcher().look(10, 10, other)
    assert view.refusing == (of(view, "c"),)
    assert (of(view, "c").entries, of(view, "c").seconds) == (None, None)
    assert view.lagging == ()


def test_leases_of_running_replicas_differ_until_all_are_the_same() -> None:
    watcher = Watcher()
    assert watcher.look(10, 10).differing == ()
    other = row("c", 10, beat=7, lease=6.0)
    # The leader and `b` have an older version, which writes no lease.
    assert watcher.look(10, 10, other).differing == ()
    fourth = row("d", 10, beat=7, lease=2.4)
    view = watcher.look(10, 10, other, fourth)
    assert [replica.row.name for replica in view.differing] == ["c", "d"]
    stopped = row("d", 10, beat=8, lease=2.4, role=Role.STOPPED)
    assert watcher.look(10, 10, other, stopped).differing == ()
    same = row("d", 10, beat=9, lease=6.0)
    assert watcher.look(10, 10, other, same).differing == ()
    # One that is silent may have ended with its old lease.
    assert watcher.look(10, 10, other, fourth).differing
    assert watcher.view(views.SILENT_SECONDS).differing == ()


def test_takeovers_count_for_a_while() -> None:
    watcher = Watcher()
    watcher.look(10, 10)
    assert watcher.look(10, 10).takeovers == 0
    assert watcher.look(10, 10, term=5).takeovers == 2
    assert not watcher.view().is_flapping
    # A number that went back is not a takeover.
    assert watcher.look(10, 10, term=4).takeovers == 2
    assert watcher.look(10, 10, term=6).is_flapping
    assert watcher.view(4.0).is_flapping
    # They grow old while the database is away, too.
    assert watcher.view(views.FLAPPING_SECONDS).takeovers == 0
    view = watcher.look(10, 10, term=6, seconds=views.FLAPPING_SECONDS)
    assert view.takeovers == 0


@pytest.mark.parametrize("standby", StandbyState)
def test_database_needs_a_standby_only_for_several_replicas(
    standby: StandbyState,
) -> None:
    watcher = Watcher()
    watcher.look(10, 10)
    watcher.watch = replace(watcher.watch, condition=Condition(standby=standby))
    lacks = standby in {StandbyState.NOT_SET, StandbyState.MISSING}
    assert watcher.view().lacks_standby is lacks
    alone = Look(at=watcher.at, lease=lease(), rows=(row("a", 0, 1),))
    watcher.watch = looked(watcher.watch, alone)
    assert not watcher.view().lacks_standby
