"""What a store promises of transactions that meet.

A store may refuse the second of two writers where it begins to write, or at its
end. So a story here goes through every order of two writers' steps, counts who
got through, and asks only that nothing acknowledged is lost or contradicted.
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
    OpenTransaction,
    Reader,
    StaleWriteError,
    Store,
    StoreError,
    Transaction,
)

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


def test_work_that_met_another_writer_reads_afresh(store: Store) -> None:
    add_hosts(store, "h1")
    others: list[int] = []

    def interfere() -> None:
        other = store.begin()
        try:
            count_up(other, "h1")
            other.commit()
            others.append(1)
        except ConflictError:  # it waits until we are through
            other.rollback()

    attempts: list[int] = []

    def work(tx: Transaction) -> int:
        attempts.append(1)
        host = present(tx.get(Host, "h1"))
        if len(attempts) == 1:
            interfere()
        return tx.replace(host, replace(host, capacity=(host.capacity or 0) + 1)).key

    store.transact(work)
    assert capacity(store, "h1") == 1 + len(others)
    assert len(attempts) == 1 + len(others)


def test_work_is_run_again_only_so_often(store: Store) -> None:
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


def test_the_last_attempt_counts(store: Store) -> None:
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
    found = present(store.read(lambda reader: reader.get(Host, "h1")))
    assert found == replace(held[0], zone="2", revision=2)


def test_a_transaction_inside_another_is_refused(store: Store) -> None:
    add_hosts(store, "h1")

    def work(tx: Transaction) -> int:
        return store.transact(lambda inner: count_up(inner, "h1"))

    with pytest.raises(AssertionError, match="inside another"):
        store.transact(work)
    store.transact(lambda tx: count_up(tx, "h1"))
    assert capacity(store, "h1") == 1


# -- two writers, step by step -----------------------------------------------------

Script = Callable[[OpenTransaction], Iterator[None]]


def interleave(store: Store, scripts: tuple[Script, Script], order: set[int]) -> int:
    """Run two scripts, the first at the places in `order`; return who got through.

    The answer has bit 0 for the first and bit 1 for the second.
    """
    transactions = (store.begin(), store.begin())
    steps = [script(tx) for script, tx in zip(scripts, transactions, strict=True)]
    through = 0
    for place in range(2 * STEPS):
        number = 0 if place in order else 1
        try:
            next(steps[number], None)
            if sum((spot in order) is (place in order) for spot in range(place)) == (
                STEPS - 1
            ):
                transactions[number].commit()
                through |= 1 << number
        except ConflictError:
            transactions[number].rollback()
            steps[number] = iter(())
    return through


STEPS = 3
ORDERS = [set(order) for order in combinations(range(2 * STEPS), STEPS)]
