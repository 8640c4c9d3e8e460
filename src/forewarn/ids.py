"""The only module that creates identifiers.

An identifier is created once, with the decision that needs it, and the caller passes it
to the store. A seeded factory repeats its identifiers, so that a failing test can be
replayed.
"""

from __future__ import annotations

import random
import secrets
import uuid
from collections.abc import Callable

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32 in lower case, without letters that look like digits."""

SHORT_LENGTH = 10
"""Characters of a short ID: 50 bits, so a collision needs tens of millions of IDs."""

_SHARED_EVENT_CHARACTERS = len("C7061BAC-AFDC")
"""Characters that the EventIds of one request share: twelve digits and a hyphen. The
other 74 random bits distinguish the events of a request, and all 122 the requests."""

PLACED_LENGTHS = (16, 20)
"""Characters of an ID that contains a place. IDs with a long place have the second
length."""

RANDOM_AT_LEAST = 6
"""Minimum random characters after a place: 30 bits. One request can have 100,000 IDs,
and a store restored from a backup assigns the same places again with other IDs."""

_TERM_DIGITS_MAX = 4
"""Maximum digits of a term in base 32: a million terms."""

SECRET_BYTES = 32
"""Bytes of a secret: as many as a SHA-256 digest has."""


def place_of(term: int, number: int) -> str:
    """Return characters that sort like (term, number) and after most random IDs.

    One character with the length precedes each of the two numbers. The length of the
    term uses the last letters of the alphabet, so that the random IDs of version 0.1.0
    sort before.
    """
    terms, numbers = _digits(term), _digits(number)
    assert len(terms) <= _TERM_DIGITS_MAX, term
    return (
        f"{ALPHABET[len(ALPHABET) - 1 - _TERM_DIGITS_MAX + len(terms)]}{terms}"
        f"{ALPHABET[len(numbers)]}{numbers}"
    )


def place_in(name: str) -> str:
    """Return the place in an ID; for a random ID, the place before all others."""
    _, _, letters = name.partition("-")
    if len(letters) not in PLACED_LENGTHS:
        return place_of(0, 0)
    term_end = ALPHABET.index(letters[0]) - len(ALPHABET) + _TERM_DIGITS_MAX + 2
    return letters[: term_end + 1 + ALPHABET.index(letters[term_end])]


def place_before(name: str) -> str:
    """Return a place whose IDs sort before all IDs with the place of an ID."""
    place = place_in(name)
    terms = ALPHABET.index(place[0]) - len(ALPHABET) + 1 + _TERM_DIGITS_MAX
    term, number = place[1 : 1 + terms], place[2 + terms :]
    return place_of(_number(term), max(0, _number(number) - 1))


def _number(digits: str) -> int:
    """Return the number of digits in base 32."""
    number = 0
    for digit in digits:
        number = number << 5 | ALPHABET.index(digit)
    return number


def _digits(number: int) -> str:
    """Return a number in base 32, without leading zeros."""
    digits = ""
    while number or not digits:
        digits = ALPHABET[number & 31] + digits
        number >>= 5
    return digits


def new_secret() -> str:
    """Return 256 random bits in hexadecimal, always from the operating system.

    A secret is not an identifier: it must not be reproducible from a seed.
    """
    return secrets.token_hex(SECRET_BYTES)


class RandomIds:
    """A factory of identifiers with random bits from the system or from a seed."""

    def __init__(self, seed: int | None = None) -> None:
        """Use the system's randomness, or `seed` if the run must be replayable."""
        self._source = secrets.SystemRandom() if seed is None else random.Random(seed)

    def event(self) -> str:
        """Return a new EventId: a random GUID of version 4 in upper case (clause 2.3)."""
        return str(uuid.UUID(int=self._source.getrandbits(128), version=4)).upper()

    def short(self, prefix: str, *, place: str = "") -> str:
        """Return a new ID that people can type, such as `t-4h7k2m9xqa`.

        IDs with a place (`place_of`) sort by it: `op-w2147h2k9m4x3qa8`.
        """
        count = SHORT_LENGTH
        if place:
            needed = len(place) + RANDOM_AT_LEAST
            count = next(n for n in PLACED_LENGTHS if n >= needed) - len(place)
        bits = self._source.getrandbits(5 * count)
        letters = (ALPHABET[bits >> (5 * n) & 31] for n in range(count))
        return f"{prefix}-{place}{''.join(letters)}"

    def events(self, count: int) -> list[str]:
        """Return `count` new EventIds for one tenant's events of a request, sorted.

        They share a prefix, so that a store that sorts by ID keeps events close
        together that are decided and approved together.
        """
        return _alike(self.event, count, _SHARED_EVENT_CHARACTERS)

    def shorts(self, prefix: str, count: int, *, place: str) -> list[str]:
        """Return `count` new IDs like those of `short` with one place, sorted."""
        shared = len(prefix) + 1 + len(place)
        return _alike(lambda: self.short(prefix, place=place), count, shared)


def _alike(draw: Callable[[], str], count: int, shared: int) -> list[str]:
    """Return `count` different IDs that share their first characters.

    IDs of different requests are as unlikely to collide as two IDs from `draw`.
    """
    names: set[str] = set()
    start = ""
    while len(names) < count:
        drawn = draw()
        start = start or drawn[:shared]
        names.add(start + drawn[shared:])
    return sorted(names)
