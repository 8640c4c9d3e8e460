"""The only maker of identifiers.

Identifiers are born once, when a thing is decided, and are given to the store
by the caller. A seeded factory makes the same ones again, so that a failing
test can be replayed.
"""

import random
import secrets
import uuid
from typing import Protocol

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32 in lower case: no letter is mistaken for a digit."""

_SHORT_LENGTH = 10
"""Characters of a short id: 50 bits, so that a clash needs tens of millions."""

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
        bits = self._source.getrandbits(5 * _SHORT_LENGTH)
        letters = (_ALPHABET[bits >> (5 * n) & 31] for n in range(_SHORT_LENGTH))
        return f"{prefix}-{''.join(letters)}"
