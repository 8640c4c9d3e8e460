"""A store that was restored from a backup: it begins above all that was served.

Relays and VMs may have documents that the restored store does not know. A relay follows no
store that has lost what it has served, because it cannot tell a restored store from an old
copy of a store. An operator says that it was restored. `note` then begins a term, and an
epoch of each view, above all of the lost store, so that all relays follow it. Replicas
remember the numbers of transactions in the same way, so the next one is above all of them.
"""

from dataclasses import replace
from typing import Protocol, runtime_checkable

from forewarn.protocol.views import View
from forewarn.store import kinds, sequence
from forewarn.store.port import Store, StoreError, Transaction, every
from forewarn.store.records import LEADER_KEY, Leader

TERMS = 10_000
"""Number of terms that the lost store can have had since the backup: a restart every
minute for a week. Keys have room for a hundred times as many."""

INCARNATIONS = 1_000_000
"""Number of documents that a view can have had since the backup: one a second for eleven
days. A client reads incarnations as integers of 32 bits, so a view can be restored 2,000
times."""

TRANSACTIONS = 10**12
"""Number of transactions that the lost database can have had since the backup: three years
of 10,000 a second. Numbers have 63 bits: room for nine million restores."""


@runtime_checkable
class NumberedStore(Protocol):
    """A store whose replicas remember the numbers of its transactions."""

    def skip_numbers(self, count: int) -> None:
        """Let the next transaction have a number that is higher by `count`."""
        ...


def note(store: Store) -> int:
    """Begin above all that was served from the lost store; return the number of views.

    It is one transaction: after a crash, all of it is done, or nothing. Only numbers can
    have been left out. A second call does no harm. Raises StoreError.
    """
    if isinstance(store, NumberedStore):
        store.skip_numbers(TRANSACTIONS)
    return store.transact(_note)


def _note(tx: Transaction) -> int:
    leader = tx.get(Leader, LEADER_KEY)
    if leader is None:
        raise StoreError(
            "no service has written to this store",
            hint="Name the store that was restored from a backup.",
        )
    term = leader.term + TERMS
    if term >= 10**sequence.TERM_DIGITS:
        raise StoreError(
            f"the store has had {leader.term:,} terms, too many for another"
        )
    tx.replace(leader, replace(leader, term=term))
    views = list(every(tx, kinds.ALL_VIEWS))
    for number, view in enumerate(views, 1):
        tx.replace(view, _raised(view, term, number))
    return len(views)


def _raised(view: View, term: int, number: int) -> View:
    """Return a view whose document is above every earlier one; it has the same events."""
    # A view that is not enabled has no document.
    raised = INCARNATIONS if view.is_enabled else 0
    return replace(
        view,
        epoch=term * sequence.EPOCHS_OF_TERM + number,
        incarnation=view.incarnation + raised,
    )
