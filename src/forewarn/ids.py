"""The only maker of identifiers.

Identifiers are born once, when a thing is decided, and are given to the store
by the caller. A seeded factory makes the same ones again, so that a failing
test can be replayed.
"""

from __future__ import annotations

import random
import secrets
import uuid
from collections.abc import Callable
from typing import Protocol

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32 in lower case: no letter is mistaken for a digit."""

SHORT_LENGTH = 10
"""Characters of a short id: 50 bits, so that a clash needs tens of millions."""

_SHARED_EVENT_CHARACTERS = len("C7061BAC-AFDC")
"""Of EventIds, those that all of one order share: twelve digits and a hyphen. The 74
random bits that remain keep apart what one order makes, and all 122 the orders."""

_SHARED_SHORT_LETTERS = 4
"""Characters that the short ids of one order share: it may have a hundred thousand,
for which the 30 bits that remain are enough where none is taken twice."""

SECRET_BYTES = 32
"""Of a secret: as many as there are in its SHA-256."""


class Ids(Protocol):
    """Where identifiers come from."""

    def event(self) -> str:
        """Return a new EventId: a GUID in upper case (clause 2.3)."""
        ...

    def short(self, prefix: str) -> str:
        """Return a new id for people to type, such as `op-4h7k2m9xqa`."""
        ...

    def events(self, count: int) -> list[str]:
        """Return so many new EventIds for one tenant's events of an order, sorted.

        They begin alike, so that a store which orders by them has near each other
        what is decided and approved together.
        """
        ...

    def shorts(self, prefix: str, count: int) -> list[str]:
        """Return so many new ids as of `short`, sorted, that begin alike."""
        ...


def new_secret() -> str:
    """Return 256 random bits in hexadecimal, always from the system's source.

    A secret is no identifier: no seed may make it again.
    """
    return secrets.token_hex(SECRET_BYTES)


class _Source(Protocol):
    def getrandbits(self, k: int, /) -> int: ...


class RandomIds:
    """Identifiers from a source of random bits: the system's, or a seeded one."""

    def __init__(self, seed: int | None = None) -> None:
        """Draw from the system, or from `seed` when a run must be replayable."""
        self._source: _Source = (
            secrets.SystemRandom() if seed is None else random.Random(seed)
        )

    def event(self) -> str:
        """Return a random GUID of version 4 in upper case."""
        return str(uuid.UUID(int=self._source.getrandbits(128), version=4)).upper()

    def short(self, prefix: str) -> str:
        """Return `prefix`, a hyphen and ten characters."""
        bits = self._source.getrandbits(5 * SHORT_LENGTH)
        letters = (ALPHABET[bits >> (5 * n) & 31] for n in range(SHORT_LENGTH))
        return f"{prefix}-{''.join(letters)}"

    def events(self, count: int) -> list[str]:
        """Return as `event`, each time with the first one's first digits."""
        return _alike(self.event, count, _SHARED_EVENT_CHARACTERS)

    def shorts(self, prefix: str, count: int) -> list[str]:
        """Return as `short`, each time with the first one's first characters."""
        shared = len(prefix) + 1 + _SHARED_SHORT_LETTERS
        return _alike(lambda: self.short(prefix), count, shared)


def _alike(draw: Callable[[], str], count: int, shared: int) -> list[str]:
    """Return so many different ids with the same first characters.

    Two ids of different orders are as unlikely to be the same as two of `draw`.
    """
    found: set[str] = set()
    start = ""
    while len(found) < count:
        drawn = draw()
        start = start or drawn[:shared]
        found.add(start + drawn[shared:])
    return sorted(found)
