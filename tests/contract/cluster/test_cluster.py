"""The contract of clusters: the lease, the fence, the feed and the rows of replicas."""

import threading
from dataclasses import replace
from typing import Protocol

import pytest

from forewarn.cluster.port import LeaseRow, Moment, ReplicaRow, Role, StandbyState
from forewarn.fleet.model import Host, Tenant
from forewarn.store.feed import FEED_KEYS, FollowedCluster, LeaderStore
from forewarn.store.port import NotLeaderError, Reader, StoreError, Transaction

PATIENCE = 30.0
"""Seconds after which a wait that must end has failed."""


class Database(Protocol):
    def cluster(self) -> FollowedCluster: ...

    def store(self, term: int) -> LeaderStore: ...


def take(cluster: FollowedCluster, holder: str = "a") -> LeaseRow:
    row = cluster.take(cluster.lease(), holder=holder, url=f"http://{holder}")
    assert row is not None
    return row


def add(store: LeaderStore, *records: Host | Tenant) -> int:
    def work(tx: Transaction) -> None:
        for record in records:
            tx.add(record)

    store.transact(work)
    return store.number


def host(name: str) -> Host:
    return Host(name=name, capacity=0)


def moment(cluster: FollowedCluster, after: int | None) -> Moment:
    return cluster.follow(after, lambda _reader, moment: moment)


def replica(key: str, position: int = 0) -> ReplicaRow:
    return ReplicaRow(key=key, name=key, url=f"http://{key}", position=position)


# The lease


def test_only_one_of_two_candidates_takes_the_lease(database: Database) -> None:
    first, second = database.cluster(), database.cluster()
    lease_row = first.lease()
    assert lease_row.holder == ""
    row = first.take(lease_row, holder="a", url="http://a", seconds=2.5)
    assert row is not None
    assert row.seconds == 2.5
    assert row == first.lease() == second.lease()
    assert row is not None
    assert (row.term, row.holder, row.url) == (lease_row.term + 1, "a", "http://a")
    assert row.beat > lease_row.beat
    assert second.take(lease_row, holder="b", url="http://b") is None
    assert second.lease() == row


def test_renewal_keeps_candidates_away(database: Database) -> None:
    leader, candidate = database.cluster(), database.cluster()
    row = take(leader)
    lease_row = candidate.lease()
    renewed = leader.renew(row.term)
    assert renewed == replace(row, beat=row.beat + 1)
    assert renewed is not None
    assert renewed.seconds == row.seconds
    assert candidate.take(lease_row, holder="b", url="") is None
    assert take(candidate, "b").term == row.term + 1
    assert leader.renew(row.term) is None
    assert leader.lease().holder == "b"


def test_released_lease_keeps_its_term(database: Database) -> None:
    leader, candidate = database.cluster(), database.cluster()
    row = take(leader)
    assert leader.release(row.term)
    assert candidate.lease() == replace(row, holder="")
    assert take(candidate, "b").term == row.term + 1
    assert not leader.release(row.term)
    assert candidate.lease().holder == "b"


# The fence


def test_each_writing_transaction_has_the_next_number(database: Database) -> None:
    cluster = database.cluster()
    row = take(cluster)
    store = database.store(row.term)
    assert store.number == row.number
    assert add(store, host("h1")) == row.number + 1
    assert add(store, Tenant(name="shop")) == row.number + 2
    assert cluster.lease().number == row.number + 2
    with pytest.raises(ZeroDivisionError):
        store.transact(lambda tx: [tx.add(host("h2")), 1 // 0])
    assert store.number == cluster.lease().number == row.number + 2
    again = database.store(take(cluster, "b").term)
    assert add(again, host("h2")) == row.number + 3


def test_no_transaction_of_an_old_term_commits_after_a_takeover(
    database: Database,
) -> None:
    cluster, candidate = database.cluster(), database.cluster()
    store = database.store(take(cluster).term)
    add(store, host("h1"))
    row = take(candidate, "b")
    with pytest.raises(NotLeaderError):
        add(store, host("h2"))
    with pytest.raises(NotLeaderError):
        database.store(row.term - 1)
    assert store.read(lambda reader: reader.get(Host, "h2")) is None
    assert cluster.lease() == row
    assert moment(cluster, row.number).rows == ()


def test_takeover_ends_a_transaction_of_the_old_term(database: Database) -> None:
    """A leader that was stopped within a transaction must not keep the lease."""
    cluster, candidate = database.cluster(), database.cluster()
    store = database.store(take(cluster).term)

    def work(tx: Transaction) -> None:
        tx.add(host("h1"))
        take(candidate, "b")

    with pytest.raises(StoreError):
        store.transact(work)
    assert store.read(lambda reader: reader.get(Host, "h1")) is None
    row = cluster.lease()
    assert row.holder == "b"
    assert add(database.store(row.term), host("h1")) == row.number + 1


def test_renewal_does_not_wait_for_a_transaction(database: Database) -> None:
    cluster = database.cluster()
    row = take(cluster)
    store = database.store(row.term)

    def work(tx: Transaction) -> None:
        tx.add(host("h1"))
        renewed = cluster.renew(row.term)
        assert renewed is not None
        assert renewed.beat == row.beat + 1

    store.transact(work)
    assert store.number == row.number + 1


# The feed


def test_snapshot_has_the_records_of_its_feed(database: Database) -> None:
    cluster, follower = database.cluster(), database.cluster()
    row = take(cluster)
    store = database.store(row.term)
    add(store, Tenant(name="shop"))  # no replica follows tenants
    number = add(store, host("h1"), host("h2"))

    def work(reader: Reader, moment: Moment) -> None:
        assert moment.rows is not None
        (found,) = moment.rows
        assert (found.number, found.term) == (number, row.term)
        assert found.changes == (("Host", "h1"), ("Host", "h2"))
        assert moment.number == moment.lease.number == number
        assert reader.get(Host, "h2") == host("h2")

    follower.follow(row.number, work)
    assert moment(follower, number).rows == ()
    assert moment(follower, None).rows is None
    assert moment(follower, None).number == number


def test_replaced_and_removed_records_are_in_the_feed(database: Database) -> None:
    cluster = database.cluster()
    store = database.store(take(cluster).term)
    number = add(store, host("h1"), host("h2"))

    def work(tx: Transaction) -> None:
        tx.replace(host("h1"), replace(host("h1"), capacity=3))
        tx.remove(host("h2"))

    store.transact(work)
    rows = moment(cluster, number).rows
    assert rows is not None
    (row,) = rows
    assert row.changes is not None
    assert sorted(row.changes) == [("Host", "h1"), ("Host", "h2")]


def test_snapshot_does_not_move_on(database: Database) -> None:
    cluster = database.cluster()
    store = database.store(take(cluster).term)
    number = add(store, host("h1"))

    def work(reader: Reader, moment: Moment) -> None:
        written = threading.Thread(target=lambda: add(store, host("h2")))
        written.start()
        assert moment.number == number
        assert reader.get(Host, "h2") is None
        written.join(timeout=0 if "memory" in type(cluster).__module__ else PATIENCE)
        assert reader.get(Host, "h2") is None
        threads.append(written)

    threads: list[threading.Thread] = []
    cluster.follow(number, work)
    threads[0].join(PATIENCE)
    assert moment(cluster, number).number == number + 1


def test_large_change_has_no_keys(database: Database) -> None:
    cluster = database.cluster()
    store = database.store(take(cluster).term)
    number = add(store, *(host(f"h{number}") for number in range(FEED_KEYS + 1)))
    rows = moment(cluster, number - 1).rows
    assert rows is not None
    assert [row.changes for row in rows] == [None]


def test_feed_is_pruned_up_to_a_number(database: Database) -> None:
    cluster = database.cluster()
    store = database.store(take(cluster).term)
    first = add(store, host("h1"))
    second = add(store, host("h2"))
    cluster.prune(first)
    assert moment(cluster, first - 1).rows is None
    rows = moment(cluster, first).rows
    assert rows is not None
    assert [row.number for row in rows] == [second]
    cluster.prune(second)
    cluster.prune(first)
    assert moment(cluster, first).rows is None
    assert moment(cluster, second).rows == ()


def test_condition_has_the_length_of_the_feed_and_no_standby(
    database: Database,
) -> None:
    cluster = database.cluster()
    store = database.store(take(cluster).term)
    before = cluster.condition()
    add(store, host("h1"))
    add(store, host("h2"))
    after = cluster.condition()
    assert after.feed_rows == before.feed_rows + 2
    # The server of the tests has no standby.
    assert after.standby is StandbyState.NOT_SET


# The rows of replicas


def test_each_write_of_a_row_raises_its_beat(database: Database) -> None:
    cluster, other = database.cluster(), database.cluster()
    cluster.write_replica(replica("b", 3))
    other.write_replica(replica("a"))
    first, second = cluster.replicas()
    assert (first.key, second) == ("a", replace(replica("b", 3), beat=second.beat))
    cluster.write_replica(
        replace(replica("b", 2), role=Role.LEADS, led_for=2.5, version="1", lease=2.4)
    )
    (again,) = (row for row in other.replicas() if row.key == "b")
    assert (again.beat, again.position) == (second.beat + 1, 3)
    assert (again.role, again.led_for, again.version) == (Role.LEADS, 2.5, "1")
    assert (second.role, second.led_for, second.version) == (Role.FOLLOWS, None, "")
    assert (again.lease, second.lease) == (2.4, None)


def test_row_is_removed_only_with_the_beat_that_was_seen(database: Database) -> None:
    cluster = database.cluster()
    cluster.write_replica(replica("b"))
    (seen,) = cluster.replicas()
    cluster.write_replica(replica("b"))
    assert not cluster.remove_replica(seen)
    (now,) = cluster.replicas()
    assert cluster.remove_replica(now)
    assert not cluster.remove_replica(now)
    assert cluster.replicas() == ()
    cluster.write_replica(replica("b", 5))
    assert [row.position for row in cluster.replicas()] == [5]


def test_row_that_comes_again_has_a_beat_that_it_never_had(database: Database) -> None:
    """A leader that saw the first row, and missed its end, must not think it unchanged."""
    cluster = database.cluster()
    for _ in range(3):
        cluster.write_replica(replica("b"))
    (seen,) = cluster.replicas()
    assert cluster.remove_replica(seen)
    for _ in range(3):
        cluster.write_replica(replica("b"))
        (again,) = cluster.replicas()
        assert again.beat > seen.beat
        assert not cluster.remove_replica(seen)


# The bell


def test_commit_and_confirmed_position_ring_the_bell(database: Database) -> None:
    leader, follower = database.cluster(), database.cluster()
    row = take(leader)
    store = database.store(row.term)
    follower.wait(0)
    number = add(store, host("h1"))
    assert follower.wait(PATIENCE)
    leader.wait(0)
    follower.write_replica(replica("b", number))
    assert leader.wait(PATIENCE)


def test_takeover_and_release_ring_the_bell(database: Database) -> None:
    leader, follower = database.cluster(), database.cluster()
    follower.wait(0)
    row = take(leader)
    assert follower.wait(PATIENCE)
    follower.wait(0)
    leader.release(row.term)
    assert follower.wait(PATIENCE)


def test_wake_ends_a_wait(database: Database) -> None:
    cluster = database.cluster()
    take(cluster)
    cluster.wait(0)
    cluster.wake()
    cluster.wait(PATIENCE)
    waits = threading.Thread(target=cluster.wait, args=(PATIENCE * 10,))
    waits.start()
    cluster.wake()
    waits.join(PATIENCE)
    assert not waits.is_alive()


def test_closed_cluster_refuses_everything(database: Database) -> None:
    cluster = database.cluster()
    cluster.close()
    cluster.close()
    with pytest.raises(StoreError):
        cluster.lease()
