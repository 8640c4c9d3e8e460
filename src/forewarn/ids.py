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

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32 in lower case: no letter is mistaken for a digit."""

SHORT_LENGTH = 10
"""Characters of a short id: 50 bits, so that a clash needs tens of millions."""

_SHARED_EVENT_CHARACTERS = len("C7061BAC-AFDC")
"""Of EventIds, those that all of one order share: twelve digits and a hyphen. The 74
random bits that remain keep apart what one order makes, and all 122 the orders."""

PLACED_LENGTHS = (16, 20)
"""Characters of an id with a place: the second length for places that need it."""

RANDOM_AT_LEAST = 6
"""Random characters behind a place: 30 bits. An order may have a hundred thousand ids,
and a store that was put back makes the same places again with other ids."""

_TERM_DIGITS_MAX = 4
"""Digits of a term in base 32: a million terms."""

SECRET_BYTES = 32
"""Of a secret: as many as there are in its SHA-256."""


def place_of(term: int, number: int) -> str:
    """Return characters that sort as (term, number) do, and behind most other ids.

    Each of the two has its length before it, in one character. That of a term is one
    of the last of the alphabet, so that random ids, as 0.1.0 made them, sort before.
    """
    terms, numbers = _digits(term), _digits(number)
    assert len(terms) <= _TERM_DIGITS_MAX, term
    return (
        f"{ALPHABET[len(ALPHABET) - 1 - _TERM_DIGITS_MAX + len(terms)]}{terms}"
        f"{ALPHABET[len(numbers)]}{numbers}"
    )


def place_in(name: str) -> str:
    """Return the place that an id has; for a random one, a place before all others."""
    _, _, letters = name.partition("-")
    if len(letters) not in PLACED_LENGTHS:
        return place_of(0, 0)
    term_end = ALPHABET.index(letters[0]) - len(ALPHABET) + _TERM_DIGITS_MAX + 2
    return letters[: term_end + 1 + ALPHABET.index(letters[term_end])]


def _digits(number: int) -> str:
    """Return a number in base 32, without zeros before it."""
    found = ""
    while number or not found:
        found = ALPHABET[number & 31] + found
        number >>= 5
    return found


def new_secret() -> str:
    """Return 256 random bits in hexadecimal, always from the system's source.

    A secret is no identifier: no seed may make it again.
    """
    return secrets.token_hex(SECRET_BYTES)


class RandomIds:
    """Identifiers from a source of random bits: the system's, or a seeded one."""

    def __init__(self, seed: int | None = None) -> None:
        """Draw from the system, or from `seed` when a run must be replayable."""
        self._source = secrets.SystemRandom() if seed is None else random.Random(seed)

    def event(self) -> str:
        """Return a new EventId: a random GUID of version 4 in upper case (clause 2.3)."""
        return str(uuid.UUID(int=self._source.getrandbits(128), version=4)).upper()

    def short(self, prefix: str, *, place: str = "") -> str:
        """Return a new id for people to type, such as `t-4h7k2m9xqa`.

        With a place (`place_of`), ids sort by it: `op-w2147h2k9m4x3qa8`.
        """
        count = SHORT_LENGTH
        if place:
            needed = len(place) + RANDOM_AT_LEAST
            count = next(n for n in PLACED_LENGTHS if n >= needed) - len(place)
        bits = self._source.getrandbits(5 * count)
        letters = (ALPHABET[bits >> (5 * n) & 31] for n in range(count))
        return f"{prefix}-{place}{''.join(letters)}"

    def events(self, count: int) -> list[str]:
        """Return so many new EventIds for one tenant's events of an order, sorted.

        They begin alike, so that a store which orders by them has near each other
        what is decided and approved together.
        """
        return _alike(self.event, count, _SHARED_EVENT_CHARACTERS)

    def shorts(self, prefix: str, count: int, *, place: str) -> list[str]:
        """Return so many new ids as of `short` with one place, sorted."""
        shared = len(prefix) + 1 + len(place)
        return _alike(lambda: self.short(prefix, place=place), count, shared)


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
