"""The contract of stores: concurrent transactions.

A store may refuse the second of two writers at its first write, or at its end. A test
therefore runs every order of two writers' steps and counts the successful ones. It
asserts only that no acknowledged write is lost or contradicted.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations
from typing import TypeVar

import pytest

from forewarn.fleet.model import Host, HostState, Tenant
from forewarn.store import kinds
from forewarn.store.port import (
    TRANSACTION_ATTEMPTS,
    ConflictError,
    Reader,
    StaleWriteError,
    Store,
    Transaction,
)
from tests.support.hand_transactions import HandTransaction, begin

T = TypeVar("T")


def present(record: T | None) -> T:
    assert record is not None
    return record


def add_hosts(store: Store, *names: str) -> None:
    def work(tx: Transaction) -> None:
        for name in names:
            tx.add(Host(name=name, capacity=0))

    store.transact(work)


def count_up(tx: Transaction, name: str) -> int:
    """Add one to a host's capacity, as one who read it, thought and wrote it."""
    host = present(tx.get(Host, name))
    new = replace(host, capacity=(host.capacity or 0) + 1)
    return tx.replace(host, new).capacity or 0


def capacity(store: Store, name: str) -> int | None:
    return present(store.read(lambda reader: reader.get(Host, name))).capacity


# -- again after a conflict --------------------------------------------------------


def test_conflicting_work_is_retried_with_new_reads(store: Store) -> None:
    add_hosts(store, "h1")
    others: list[int] = []

    def interfere() -> None:
        other = begin(store)
        try:
            count_up(other, "h1")
            other.commit()
            others.append(1)
        except ConflictError:  # it waits until we are through
            other.rollback()

    attempts: list[int] = []

    def work(tx: Transaction) -> None:
        attempts.append(1)
        host = present(tx.get(Host, "h1"))
        if len(attempts) == 1:
            interfere()
        tx.replace(host, replace(host, capacity=(host.capacity or 0) + 1))

    store.transact(work)
    assert capacity(store, "h1") == 1 + len(others)
    assert len(attempts) == 1 + len(others)


def test_conflicting_work_is_retried_a_limited_number_of_times(store: Store) -> None:
    attempts: list[int] = []

    def work(tx: Transaction) -> None:
        attempts.append(1)
        assert tx.get(Tenant, "shop") is None, "the last attempt was not forgotten"
        tx.add(Tenant(name="shop"))
        raise ConflictError("again")

    with pytest.raises(ConflictError, match="again"):
        store.transact(work)
    assert len(attempts) == TRANSACTION_ATTEMPTS
    assert store.read(lambda reader: reader.get(Tenant, "shop")) is None


def test_last_attempt_can_succeed(store: Store) -> None:
    attempts: list[int] = []

    def work(tx: Transaction) -> int:
        attempts.append(1)
        tx.add(Tenant(name="shop"))
        if len(attempts) < TRANSACTION_ATTEMPTS:
            raise ConflictError("again")
        return len(attempts)

    assert store.transact(work) == TRANSACTION_ATTEMPTS
    assert store.read(lambda reader: reader.get(Tenant, "shop"))


def test_work_with_a_stale_record_may_read_again(store: Store) -> None:
    add_hosts(store, "h1")
    held = [present(store.read(lambda reader: reader.get(Host, "h1")))]
    store.transact(lambda tx: count_up(tx, "h1"))

    def work(tx: Transaction) -> Host:
        try:
            return tx.replace(held[0], replace(held[0], zone="2"))
        except StaleWriteError:
            held[0] = present(tx.get(Host, "h1"))
            raise

    store.transact(work)
    assert held[0].capacity == 1
    host = present(store.read(lambda reader: reader.get(Host, "h1")))
    assert host == replace(held[0], zone="2", revision=2)


def test_nested_transaction_is_refused(store: Store) -> None:
    add_hosts(store, "h1")

    def work(tx: Transaction) -> int:
        return store.transact(lambda inner: count_up(inner, "h1"))

    with pytest.raises(AssertionError, match="inside another"):
        store.transact(work)
    store.transact(lambda tx: count_up(tx, "h1"))
    assert capacity(store, "h1") == 1


# -- two writers, step by step -----------------------------------------------------

SEGMENTS = 4  # what stands between the yields of a script
ORDERS = [
    tuple(0 if place in first else 1 for place in range(2 * SEGMENTS))
    for first in combinations(range(2 * SEGMENTS), SEGMENTS)
]
"""Every order in which two writers can take their steps."""

Work = Callable[[HandTransaction], Iterator[None]]


def steps(store: Store, work: Work, through: list[Work]) -> Iterator[None]:
    """Take one writer's steps; note in `through` that it got through."""
    transaction = begin(store)
    try:
        yield from work(transaction)
        transaction.commit()
        through.append(work)
    except ConflictError:
        transaction.rollback()


def interleave(store: Store, order: tuple[int, ...], *works: Work) -> list[Work]:
    """Let two writers take their steps in this order; return who got through."""
    through: list[Work] = []
    writers = [steps(store, work, through) for work in works]
    for number in order:
        next(writers[number], None)
    assert all(next(writer, "over") == "over" for writer in writers)
    return through


@pytest.mark.slow
def test_no_update_is_lost(store: Store) -> None:
    def increment(tx: HandTransaction) -> Iterator[None]:
        yield
        host = present(tx.get(Host, "h1"))
        yield
        tx.replace(host, replace(host, capacity=(host.capacity or 0) + 1))
        yield

    add_hosts(store, "h1")
    expected = 0
    for order in ORDERS:
        through = interleave(store, order, increment, increment)
        expected += len(through)
        assert through, f"both writers failed in the order {order}"
        assert capacity(store, "h1") == expected, order
    assert len(ORDERS) < expected < 2 * len(ORDERS)


@pytest.mark.slow
def test_concurrent_adds_of_one_key_succeed_once(store: Store) -> None:
    def add(zone: str) -> Work:
        def work(tx: HandTransaction) -> Iterator[None]:
            yield
            record = tx.get(Host, "h1")
            yield
            if record is None:
                tx.add(Host(name="h1", zone=zone))
            yield

        return work

    for order in ORDERS:
        first, second = add("1"), add("2")
        through = interleave(store, order, first, second)
        host = present(store.read(lambda reader: reader.get(Host, "h1")))
        assert through[0] is (first if host.zone == "1" else second), order
        store.transact(lambda tx, host=host: tx.remove(host))


@pytest.mark.slow
@pytest.mark.parametrize("is_taken_first", [True, False])
def test_rule_over_two_rows_holds_with_the_safety_row(
    store: Store, is_taken_first: bool
) -> None:
    """Each writer takes its own host down if the other is up."""

    def take_down(mine: str, other: str) -> Work:
        def work(tx: HandTransaction) -> Iterator[None]:
            if is_taken_first:
                tx.lock_safety_rows(["web", "db"])
            yield
            host = present(tx.get(Host, mine))
            may_go_down = present(tx.get(Host, other)).state is HostState.UP
            yield
            if not is_taken_first:
                tx.lock_safety_rows(["web"])
            if may_go_down:
                tx.replace(host, replace(host, state=HostState.DOWN))
            yield

        return work

    add_hosts(store, "h1", "h2")
    for order in ORDERS:
        through = interleave(store, order, take_down("h1", "h2"), take_down("h2", "h1"))
        hosts = store.read(lambda reader: reader.select(kinds.ALL_HOSTS))
        assert through, f"both writers failed in the order {order}"
        assert [host.state for host in hosts].count(HostState.DOWN) == 1, order

        def restore(tx: Transaction, hosts: list[Host] = hosts) -> None:
            for host in hosts:
                tx.replace(host, replace(host, state=HostState.UP))

        store.transact(restore)


@pytest.mark.slow
def test_writers_of_different_scopes_both_succeed_eventually(store: Store) -> None:
    def increment(name: str) -> Work:
        def work(tx: HandTransaction) -> Iterator[None]:
            tx.lock_safety_rows([name])
            yield
            host = present(tx.get(Host, name))
            yield
            tx.replace(host, replace(host, capacity=(host.capacity or 0) + 1))
            yield

        return work

    add_hosts(store, "h1", "h2")
    both = {"h1": increment("h1"), "h2": increment("h2")}
    for number, order in enumerate(ORDERS, start=1):
        through = interleave(store, order, *both.values())
        assert through, f"both writers failed in the order {order}"
        for name, work in both.items():
            if work not in through:
                store.transact(lambda tx, name=name: count_up(tx, name))
            assert capacity(store, name) == number, order


def test_conflict_leaves_no_writes_of_the_loser(store: Store) -> None:
    add_hosts(store, "h1")
    first, second = begin(store), begin(store)
    losers: list[HandTransaction] = []
    for name, tx in (("shop", first), ("bank", second)):
        try:
            tx.add(Tenant(name=name))
            count_up(tx, "h1")
            tx.lock_safety_rows(["web"])
        except ConflictError:
            losers.append(tx)
    for tx in (first, second):
        try:
            tx.commit()
        except ConflictError:
            losers.append(tx)
    assert set(losers) == {second}
    assert capacity(store, "h1") == 1
    tenants = store.read(lambda reader: reader.select(kinds.ALL_TENANTS))
    assert [tenant.name for tenant in tenants] == ["shop"]


# -- who reads meanwhile -----------------------------------------------------------


def test_reader_does_not_see_uncommitted_changes(store: Store) -> None:
    add_hosts(store, "h1")
    writer = begin(store)
    count_up(writer, "h1")
    assert capacity(store, "h1") == 0
    writer.commit()
    assert capacity(store, "h1") == 1


def test_reader_sees_a_consistent_snapshot(store: Store) -> None:
    add_hosts(store, "h1", "h2")

    def write(tx: Transaction) -> None:
        count_up(tx, "h1")
        count_up(tx, "h2")
        tx.remove(present(tx.get(Host, "h3")))
        tx.add(Host(name="h4"))

    def work(reader: Reader) -> list[Host]:
        before = reader.select(kinds.ALL_HOSTS)
        store.transact(write)
        assert [reader.get(Host, name) for name in ("h1", "h4")] == [before[0], None]
        assert reader.select(kinds.ALL_HOSTS) == before
        return before

    add_hosts(store, "h3")
    assert [host.name for host in store.read(work)] == ["h1", "h2", "h3"]
    after = store.read(lambda reader: reader.select(kinds.ALL_HOSTS))
    assert [host.name for host in after] == ["h1", "h2", "h4"]
    assert [host.capacity for host in after] == [1, 1, None]


def test_any_thread_may_read_while_another_writes(store: Store) -> None:
    add_hosts(store, "h1")
    capacities: list[int | None] = []

    def work(tx: Transaction) -> None:
        count_up(tx, "h1")
        thread = threading.Thread(
            target=lambda: capacities.append(capacity(store, "h1"))
        )
        thread.start()
        thread.join()

    store.transact(work)
    assert capacities == [0]


def test_concurrent_writer_threads_lose_no_update(store: Store) -> None:
    add_hosts(store, "h1")

    def write() -> None:
        for _ in range(20):
            store.transact(lambda tx: count_up(tx, "h1"))

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert capacity(store, "h1") == 80


def test_error_in_a_reader_is_propagated(store: Store) -> None:
    def work(reader: Reader) -> None:
        raise LookupError("work failed")

    with pytest.raises(LookupError, match="work failed"):
        store.read(work)
    assert store.read(lambda reader: reader.get(Host, "h1")) is None
