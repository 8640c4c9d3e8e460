"""Tallies: numbers of records that a decision would otherwise have to count."""

from forewarn.store.port import Reader, Transaction
from forewarn.store.records import Tally


def counted(reader: Reader, name: str) -> int:
    """Return a tally; 0 if it is not stored."""
    found = reader.get(Tally, name)
    return 0 if found is None else found.count


def count(tx: Transaction, name: str, by: int) -> None:
    """Add to a tally."""
    if not by:
        return
    found = tx.get(Tally, name)
    if found is None:
        tx.add(Tally(name=name, count=by))
        return
    left = found.count + by
    if left:
        tx.replace(found, Tally(name=name, count=left, revision=found.revision))
    else:
        tx.remove(found)
