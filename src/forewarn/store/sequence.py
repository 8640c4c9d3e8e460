"""The order of decisions: (term, sequence), independently of the clock.

Each service begins a new term with its first write to the store, in the same
transaction. Within a term, a counter goes up. The keys of audit entries and outbox
messages therefore sort in the order of the decisions, even after a restart or if the
clock was set back.
"""

import hashlib
import re
from dataclasses import replace

from forewarn.ids import new_secret
from forewarn.store.port import Transaction
from forewarn.store.records import LEADER_KEY, Leader

TERM_DIGITS = 6
"""Digits of a term in a key: enough for a restart every minute for two years."""

SEQUENCE_DIGITS = 12
"""Digits of a number within a term: enough for 10,000 a second for three years."""

LEGACY_TERM = 0
"""The term of records from versions without terms, with an old ID after it."""

EPOCHS_OF_TERM = 2**32
"""Maximum epochs of one term: enough for a thousand a second for 49 days, and a store with
a million terms stays below 2**53, up to which every reader of JSON has exact integers."""

_KEY = re.compile(rf"(\d{{{TERM_DIGITS}}})\.(?:\d{{{SEQUENCE_DIGITS}}}|(\d{{17}}\..+))")


def key_of(term: int, number: int) -> str:
    """Return the key of a decision, from its term and its number in it."""
    return f"{term:0{TERM_DIGITS}d}.{number:0{SEQUENCE_DIGITS}d}"


def parts_of(key: str) -> tuple[int, int]:
    """Return the term and the number of a key of `key_of`."""
    term, _, number = key.partition(".")
    return int(term), int(number)


def term_of(key: str) -> int | None:
    """Return the term of a key; None if the key is not valid."""
    matched = _KEY.fullmatch(key)
    if matched is None or (matched[2] is not None) != (int(matched[1]) == LEGACY_TERM):
        return None
    return int(matched[1])


def name_of_store(secret: str) -> str:
    """Return a name of the store with this secret, which others may see; empty without one.

    A new store begins at term 1, so the terms of two stores cannot be compared.
    """
    if not secret:
        return ""
    return hashlib.sha256(f"name of the store {secret}".encode()).hexdigest()[:12]


class Numbers:
    """The numbers that one service gives out; none of them is given twice."""

    def __init__(self) -> None:
        """Begin at 1, in a new term."""
        self._keys = 0
        self._epochs = 0

    def key(self, term: int) -> str:
        """Return the key of the next decision in the term of the service."""
        self._keys += 1
        return key_of(term, self._keys)

    def epoch(self, term: int) -> int:
        """Return an epoch above every one that the store has had, of any view.

        Views that are deleted leave nothing behind, but those who have seen one remember
        it: a view with the same ID must begin above it.
        """
        self._epochs += 1
        return term * EPOCHS_OF_TERM + self._epochs


def raise_term(tx: Transaction) -> int:
    """Begin a new term in the store, and return it.

    The first term also creates the secret of the store.
    """
    leader = tx.get(Leader, LEADER_KEY)
    if leader is None:
        return tx.add(Leader(term=LEGACY_TERM + 1, secret=new_secret())).term
    return tx.replace(leader, replace(leader, term=leader.term + 1)).term
