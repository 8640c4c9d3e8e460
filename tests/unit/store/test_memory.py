"""Properties of the memory store beyond the contract."""

import pytest

from forewarn.fleet.model import Tenant
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from forewarn.store.port import TRANSACTION_ATTEMPTS, ConflictError, Transaction
from tests.support.hand_transactions import begin


def test_memory_store_simulates_write_conflicts() -> None:
    answers = [True, True, False]
    store = MemoryStore(conflict=lambda: answers.pop(0))
    attempts: list[int] = []

    def work(tx: Transaction) -> None:
        attempts.append(1)
        tx.add(Tenant(name="shop"))

    store.transact(work)
    assert len(attempts) == 3
    assert store.read(lambda reader: len(reader.select(kinds.ALL_TENANTS))) == 1


def test_transaction_fails_after_repeated_conflicts() -> None:
    attempts: list[bool] = []

    def always() -> bool:
        attempts.append(True)
        return True

    store = MemoryStore(conflict=always)
    with pytest.raises(ConflictError):
        store.transact(lambda tx: tx.add(Tenant(name="shop")))
    assert len(attempts) == TRANSACTION_ATTEMPTS
    assert store.read(lambda reader: reader.get(Tenant, "shop")) is None


def test_manual_transactions_get_no_simulated_conflict() -> None:
    store = MemoryStore(conflict=lambda: True)
    tx = begin(store)
    tx.add(Tenant(name="shop"))
    tx.commit()
    assert store.read(lambda reader: reader.get(Tenant, "shop"))


def test_open_view_keeps_only_replaced_records() -> None:
    """The past is kept for open views, and goes with them."""
    store = MemoryStore()
    store.transact(lambda tx: tx.add(Tenant(name="shop")))
    view = begin(store)
    for number in range(3):
        store.transact(
            lambda tx, number=number: tx.add(Tenant(name=f"tenant {number}"))
        )
    assert len(view.select(kinds.ALL_TENANTS)) == 1
    view.rollback()
    assert store._state.views == set()
