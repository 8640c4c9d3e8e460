"""The follower publishes the committed documents, and only then confirms them."""

from dataclasses import replace

import pytest

from forewarn.control.transactions.publishing import guest_of, snapshot_of
from forewarn.fleet.model import Host, Vm, VmState
from forewarn.protocol import documents
from forewarn.protocol.published import Publication
from forewarn.protocol.views import View
from forewarn.store.memory_cluster import MemoryCluster, MemoryLeaderStore, SharedMemory
from forewarn.store.port import StoreError, Transaction
from tests.support.processes import eventually
from tests.support.replicas import HandClock, Replica, view_of, vm_of


class Fleet:
    """A database with a leader, who writes, and a follower."""

    def __init__(self) -> None:
        self.shared = SharedMemory()
        cluster = MemoryCluster(self.shared)
        row = cluster.take(cluster.lease(), holder="a", url="")
        assert row is not None
        self.store = MemoryLeaderStore(self.shared, row.term)
        self.clock = HandClock()
        self.replica = Replica(self.shared, "b", self.clock)

    def add(self, *records: View | Vm | Host) -> None:
        def work(tx: Transaction) -> None:
            for record in records:
                tx.add(record)

        self.store.transact(work)

    def change(self, key: str, **fields: object) -> None:
        kind = View if key.startswith("v") else Vm

        def work(tx: Transaction) -> None:
            old = tx.get(kind, key)
            assert old is not None
            tx.replace(old, replace(old, **fields))

        self.store.transact(work)

    def remove(self, *records: tuple[type[View | Vm], str]) -> None:
        def work(tx: Transaction) -> None:
            for kind, key in records:
                record = tx.get(kind, key)
                assert record is not None
                tx.remove(record)

        self.store.transact(work)


@pytest.fixture
def fleet() -> Fleet:
    new_fleet = Fleet()
    new_fleet.add(view_of("v1"), vm_of("a1", view="v1"))
    return new_fleet


def test_follower_reads_everything_and_then_the_feed(fleet: Fleet) -> None:
    replica = fleet.replica
    assert not replica.answers(0)
    replica.follower.turn()
    assert replica.answers(0)
    assert (set(replica.views), replica.guests) == ({"v1"}, {"a1"})
    fleet.add(view_of("v2"), vm_of("a2", view="v2"), Host(name="h1", capacity=0))
    fleet.change("v1", incarnation=7)
    replica.follower.turn()
    assert (set(replica.views), replica.guests) == ({"v1", "v2"}, {"a1", "a2"})
    assert replica.views["v1"].incarnation == 7
    assert replica.follower.position == fleet.store.number


def test_removed_and_deleted_records_are_gone(fleet: Fleet) -> None:
    fleet.add(view_of("v2"), vm_of("a2", view="v2"))
    fleet.replica.follower.turn()
    fleet.change("a1", state=VmState.DELETED)

    fleet.remove((View, "v2"), (Vm, "a2"))
    fleet.replica.follower.turn()
    assert (set(fleet.replica.views), fleet.replica.guests) == ({"v1"}, set())


def test_follower_that_is_too_far_behind_reads_everything_again(fleet: Fleet) -> None:
    fleet.add(view_of("v2"), vm_of("a2", view="v2"))
    fleet.replica.follower.turn()

    fleet.remove((View, "v2"), (Vm, "a2"))
    fleet.add(view_of("v3"))
    MemoryCluster(fleet.shared).prune(fleet.store.number)
    fleet.replica.follower.turn()
    assert (set(fleet.replica.views), fleet.replica.guests) == ({"v1", "v3"}, {"a1"})


@pytest.mark.parametrize("is_last", [False, True])
def test_what_is_gone_is_removed_although_the_first_read_of_everything_failed(
    fleet: Fleet,
    is_last: bool,
) -> None:
    """Within it, or with the publication of what is gone."""
    follower = fleet.replica.follower
    fleet.add(view_of("v2"), vm_of("a2", view="v2"))
    follower.turn()
    fleet.remove((View, "v2"), (Vm, "a2"))
    MemoryCluster(fleet.shared).prune(fleet.store.number)
    publish = follower._publish

    def failing(publication: Publication) -> None:
        if publication.guests_gone if is_last else publication.guests:
            raise StoreError("the event loop does not take documents")
        publish(publication)

    follower._publish = failing
    follower.turn()
    assert "a2" in fleet.replica.guests
    follower._publish = publish
    follower.turn()
    assert (set(fleet.replica.views), fleet.replica.guests) == ({"v1"}, {"a1"})


def test_document_that_this_version_renders_otherwise_is_not_served(
    fleet: Fleet,
) -> None:
    fleet.replica.follower.turn()
    assert documents.digest(()) != "other"
    fleet.change("v1", digest="other")
    fleet.replica.follower.turn()
    assert "v1" not in fleet.replica.views
    fleet.replica.follower.follow()
    fleet.replica.follower.turn()
    assert "v1" not in fleet.replica.views


def test_position_is_confirmed_after_the_publication(fleet: Fleet) -> None:
    replica = fleet.replica
    replica.follower.turn()
    fleet.change("v1", incarnation=7)
    positions: list[int] = []
    publish = replica.follower._publish

    def spying(publication: Publication) -> None:
        positions.append(fleet.shared.replicas["b"].position)
        publish(publication)

    replica.follower._publish = spying
    replica.follower.turn()
    assert positions == [fleet.store.number - 1]
    assert fleet.shared.replicas["b"].position == fleet.store.number


def test_follower_answers_until_its_read_lease_ends(fleet: Fleet) -> None:
    replica = fleet.replica
    replica.follower.turn()
    replica.line.fails_at = "send follow"
    fleet.clock.advance(4.9)
    assert replica.follower.turn() == pytest.approx(0.2)
    assert replica.answers(0)
    fleet.clock.advance(0.1)
    assert not replica.answers(0)
    replica.line.fails_at = ""
    replica.follower.turn()
    assert replica.answers(0)


def test_slow_database_gives_no_longer_read_lease(fleet: Fleet) -> None:
    fleet.replica.line.during = {"send write_replica": [3.0], "answer follow": [2.0]}
    fleet.replica.follower.turn()
    # The confirmation begins another read lease with the next snapshot only.
    assert not fleet.replica.answers(0)
    fleet.replica.follower.turn()
    assert fleet.replica.answers(0)


def test_database_that_lost_transactions_is_not_followed(fleet: Fleet) -> None:
    replica = fleet.replica
    replica.follower.turn()
    before = fleet.shared.lease
    fleet.shared.lease = replace(before, number=before.number - 1)
    for _ in range(6):
        fleet.clock.advance(1.0)
        replica.follower.turn()
    assert not replica.answers(0)


@pytest.mark.parametrize("has_lost", [False, True])
def test_follower_that_stops_removes_its_row(fleet: Fleet, has_lost: bool) -> None:
    """Then no approval waits for it; a row above the database shows others a loss."""
    fleet.replica.follower.turn()
    if has_lost:
        lease = fleet.shared.lease
        fleet.shared.lease = replace(lease, number=lease.number - 1)
        fleet.clock.advance(1.0)
        fleet.replica.follower.turn()
    fleet.replica.follower.stop()
    assert ("b" in fleet.shared.replicas) == has_lost


def test_leader_only_writes_its_row(fleet: Fleet) -> None:
    replica = fleet.replica
    replica.follower.lead()
    fleet.add(view_of("v2"))
    replica.follower.turn()
    assert set(replica.views) == {"v1"}
    assert "b" in fleet.shared.replicas
    replica.follower.follow()
    fleet.clock.advance(1.0)
    replica.follower.turn()
    assert set(replica.views) == {"v1", "v2"}


def test_what_the_plane_published_is_removed_though_the_feed_is_too_short(
    fleet: Fleet,
) -> None:
    replica = fleet.replica
    replica.follower.turn()
    replica.follower.lead()
    fleet.add(view_of("v2"), vm_of("a2", view="v2"))
    published = Publication(
        views=(snapshot_of(view_of("v2"), ()),),
        guests=(guest_of(vm_of("a2", view="v2")),),
    )
    replica.publish(published)
    replica.follower.note(published)
    replica.follower.follow()

    # The next leader removes both, and the feed forgets it.
    fleet.remove((View, "v2"), (Vm, "a2"))
    MemoryCluster(fleet.shared).prune(fleet.store.number)
    replica.follower.turn()
    assert (set(replica.views), replica.guests) == ({"v1"}, {"a1"})


def published_by(fleet: Fleet) -> list[str]:
    """Return the views that are published from now on, in order."""
    view_ids: list[str] = []
    publish = fleet.replica.follower._publish

    def spying(publication: Publication) -> None:
        view_ids.extend(view.view_id for view in publication.views)
        publish(publication)

    fleet.replica.follower._publish = spying
    return view_ids


def test_new_leader_serves_what_is_committed_without_reading_everything(
    fleet: Fleet,
) -> None:
    fleet.add(view_of("v2"))
    fleet.replica.follower.turn()
    fleet.change("v1", incarnation=7)
    view_ids = published_by(fleet)
    assert fleet.replica.follower.lead() == ()
    assert view_ids == ["v1"]
    assert fleet.replica.views["v1"].incarnation == 7
    # Documents that it publishes as the leader are in the feed.
    fleet.change("v2", incarnation=8)
    fleet.replica.follower.follow()
    fleet.replica.follower.turn()
    assert view_ids == ["v1", "v2"]


def test_new_leader_names_the_views_that_it_renders_otherwise(fleet: Fleet) -> None:
    fleet.add(view_of("v2"))
    fleet.change("v1", digest="other")
    fleet.replica.follower.turn()
    fleet.change("v2", digest="other")
    assert fleet.replica.follower.lead() == ("v1", "v2")
    fleet.replica.follower.follow()
    fleet.change("v1", digest=documents.digest(()))
    assert fleet.replica.follower.lead() == ("v2",)


def test_new_leader_publishes_everything_if_the_last_round_failed(fleet: Fleet) -> None:
    replica = fleet.replica
    fleet.add(view_of("v2"), vm_of("a2", view="v2"))
    replica.follower.turn()
    fleet.remove((View, "v2"), (Vm, "a2"))
    fleet.add(view_of("v3"))
    fleet.change("v1", digest="other")
    replica.line.fails_at = "send follow"
    assert replica.follower.lead() is None
    assert set(replica.views) == {"v1", "v2"}
    assert fleet.store.read(replica.follower.publish_all_of) == ("v1",)
    assert (set(replica.views), replica.guests) == ({"v3"}, {"a1"})


def test_thread_follows_commits(fleet: Fleet) -> None:
    fleet.replica.follower.start()
    fleet.change("v1", incarnation=9)
    eventually(
        lambda: (
            "v1" in fleet.replica.views and fleet.replica.views["v1"].incarnation == 9
        ),
        bool,
        what="the publication",
    )
    fleet.replica.follower.stop()
