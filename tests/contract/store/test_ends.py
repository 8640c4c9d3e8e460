"""The contract of stores: ended transactions, and the end of the store."""

import pytest

from forewarn.fleet.model import Host
from forewarn.store.port import Store, StoreError
from tests.support.hand_transactions import begin


def add_host(store: Store) -> None:
    store.transact(lambda tx: tx.add(Host(name="h1")))


def get_host(store: Store) -> Host | None:
    return store.read(lambda reader: reader.get(Host, "h1"))


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_ended_transaction_rejects_further_use(store: Store, end: str) -> None:
    tx = begin(store)
    getattr(tx, end)()
    with pytest.raises(StoreError):
        tx.add(Host(name="h1"))
    with pytest.raises(StoreError):
        tx.get(Host, "h1")
    with pytest.raises(StoreError):
        tx.commit()
    tx.rollback()


def test_closed_store_rejects_further_use(store: Store) -> None:
    add_host(store)
    tx = begin(store)
    tx.add(Host(name="h2"))
    store.close()
    store.close()
    with pytest.raises(StoreError):
        tx.commit()
    with pytest.raises(StoreError, match="closed"):
        begin(store)
    with pytest.raises(StoreError, match="closed"):
        add_host(store)
    with pytest.raises(StoreError, match="closed"):
        get_host(store)


def test_store_cannot_be_closed_by_its_own_transaction(store: Store) -> None:
    with pytest.raises(AssertionError):
        store.transact(lambda tx: store.close())
    add_host(store)
    assert get_host(store)
