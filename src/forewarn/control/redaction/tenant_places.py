"""The place in the history where a page of a tenant begins.

The ID of an entry that a tenant sees begins with its time, cut to a second, so that it
reveals nothing more. Keys are found through this time.
"""

from collections.abc import Callable
from dataclasses import dataclass

from forewarn.instants import (
    SECOND,
    SORTABLE_DIGITS,
    Micros,
    cut_to_second,
    sortable,
)
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.store.records import AuditEntry

END_OF_TIME: Micros = 2**62
"""A time after all others."""

END_OF_KEYS = "~"
"""A text that sorts after every key."""

FIRST_OF_KEYS = " "
"""A text that sorts before every key."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where to read on, and which rows certainly follow the entry seen last."""

    key: str
    """The key to read from; empty: from the beginning, or from the end backwards."""
    is_behind: Callable[[AuditEntry], bool]
    """Whether a row is behind all rows that can be the entry seen last. The rows until
    then count only after that entry."""


def _always(_entry: AuditEntry) -> bool:
    return True


def cursor_at(at: Micros) -> str:
    """Return the cursor of a tenant after which the entries since a time follow."""
    return sortable(at)


def place_after(reader: Reader, after: str) -> Place:
    """Return where the entries after the ID `after` begin, which a tenant has seen."""
    if not after:
        return Place("", _always)
    at = cut_to_second(_instant_of(after))
    exact = reader.audit_keys(at, at + SECOND)
    if exact is not None and len(after) > SORTABLE_DIGITS:
        low, high = exact
        return Place(low, lambda entry: entry.key > high)
    # The entry was deleted meanwhile, or only a time is given.
    later = reader.audit_keys(at, END_OF_TIME)
    return Place(END_OF_KEYS if later is None else later[0], _always)


def place_before(reader: Reader, before: str) -> Place:
    """Return where the entries before an ID begin, the latest of them first."""
    if not before:
        return Place("", _always)
    at = cut_to_second(_instant_of(before))
    exact = reader.audit_keys(at, at + SECOND)
    if exact is not None and len(before) > SORTABLE_DIGITS:
        low, high = exact
        first = _first_since(reader, low, at)
        return Place(f"{high}{END_OF_KEYS}", lambda entry: entry.key < first)
    later = reader.audit_keys(at, END_OF_TIME)
    start = "" if later is None else _first_since(reader, later[0], at)
    return Place(start, _always)


def bounds(reader: Reader, first: Micros, end: Micros) -> tuple[str, str] | None:
    """Return bounds in the form of the IDs that a tenant sees: `Reader.audit_keys`.

    A bound is empty if the clock was set back there: then an entry of the period can
    precede one before it, or follow one after it.
    """
    begin = cut_to_second(first)
    last = min(cut_to_second(end - 1) + SECOND, END_OF_TIME)
    exact = reader.audit_keys(begin, last)
    if exact is None:
        return None
    low, high = exact
    return (
        cursor_at(first) if _is_first(reader, low, begin) else "",
        cursor_at(last) if _is_last(reader, high, last) else "",
    )


def _is_first(reader: Reader, low: str, at: Micros) -> bool:
    """Return whether all entries before a time precede the first one behind a bound."""
    earlier = reader.audit_keys(0, at)
    return earlier is None or _first_since(reader, low, at) > earlier[1]


def _is_last(reader: Reader, key: str, at: Micros) -> bool:
    """Return whether all entries since a time follow the entry with this key."""
    later = reader.audit_keys(at, END_OF_TIME)
    if later is None:
        return True
    return _first_since(reader, later[0], at) > key


def _first_since(reader: Reader, low: str, at: Micros) -> str:
    """Return the key of the first entry since a time, of which `low` is the bound."""
    # The bound sorts before the entry; few other keys are between the two.
    rows = every(reader, kinds.ALL_AUDIT, after=low, page=FEW_ROWS)
    return next(row.key for row in rows if row.at >= at)


FEW_ROWS = 50
"""Rows of one read of which only the first few are needed."""


def _instant_of(shown: str) -> Micros:
    """Return the time in an ID from a tenant; 0: it has none."""
    digits = shown[:SORTABLE_DIGITS]
    return int(digits) if digits.isascii() and digits.isdecimal() else 0
