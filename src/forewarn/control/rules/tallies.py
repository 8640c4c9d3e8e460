"""Tallies: numbers of records that a decision would otherwise have to count."""

from forewarn.store.port import Reader, Transaction
from forewarn.store.records import Tally


def counted(reader: Reader, name: str) -> int:
    """Return a tally; 0 if it is not stored."""
    tally = reader.get(Tally, name)
    return 0 if tally is None else tally.count


def count(tx: Transaction, name: str, by: int) -> None:
    """Add to a tally."""
    if not by:
        return
    tally = tx.get(Tally, name)
    if tally is None:
        tx.add(Tally(name=name, count=by))
        return
    left = tally.count + by
    if left:
        tx.replace(tally, Tally(name=name, count=left, revision=tally.revision))
    else:
        tx.remove(tally)
