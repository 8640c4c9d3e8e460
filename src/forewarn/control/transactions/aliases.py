"""The ids of operations and requests that a tenant sees: aliases of the real ids.

Several tenants can share an operation. If all of them saw its real id, two of them
could compare ids and prove that their VMs share a host. So each tenant has a keyed
permutation of the ids: it keeps an id's form, can be reversed with the key, and
differs from tenant to tenant. The store keeps one secret, from which all keys are
derived. Pure: values in, values out.

The permutation is a Feistel network over the bits of an id, with keyed BLAKE2b as its
round function. The prefix of the id is part of the key.
"""

import hashlib
import hmac
import re
from typing import Final

from forewarn.ids import ALPHABET, PLACED_LENGTHS, SHORT_LENGTH

_VALUES: Final = {letter: value for value, letter in enumerate(ALPHABET)}

_LETTERS: Final = "|".join(
    f"[{ALPHABET}]{{{length}}}" for length in (SHORT_LENGTH, *PLACED_LENGTHS)
)
"""The characters of an id. 0.1.0 made ids of the first length."""

_ID: Final = re.compile(rf"(op|rq|ro)-({_LETTERS})", re.ASCII)

ROUNDS: Final = 10
"""Rounds of the network: the number of NIST SP 800-38G for format-preserving
encryption (FF1)."""

LETTER_BITS: Final = 5
"""Bits of a character. Ids have an even number of them, so that both halves of an id
have equally many bits."""

ENTRY_DIGITS: Final = 16
"""Hexadecimal digits in the id of a history entry: 64 bits tell apart the entries of
one second."""


class Aliases:
    """The permutation of one tenant; it remembers what it was asked."""

    def __init__(self, secret: str, tenant: str) -> None:
        """Derive the tenant's key from the store's secret."""
        self._key = hmac.digest(
            secret.encode(), f"tenant aliases:{tenant}".encode(), "sha256"
        )
        self._known: dict[str, str] = {}

    def of(self, name: str) -> str:
        """Return the tenant's alias of a real id; another text as it is."""
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = self._permuted(name, range(ROUNDS))
        return found

    def real(self, alias: str) -> str:
        """Return the real id of the tenant's alias; another text as it is."""
        return self._permuted(alias, range(ROUNDS - 1, -1, -1))

    def of_entry(self, entry_id: str) -> str:
        """Return a digest of a history entry's id that is this tenant's only."""
        digest = hmac.digest(self._key, f"entry:{entry_id}".encode(), "sha256")
        return digest.hex()[:ENTRY_DIGITS]

    def _permuted(self, name: str, rounds: range) -> str:
        match = _ID.fullmatch(name)
        if match is None:
            return name
        prefix, letters = match.groups()
        number = 0
        for letter in letters:
            number = number << LETTER_BITS | _VALUES[letter]
        bits = LETTER_BITS * len(letters) // 2
        left, right = number >> bits, number & (1 << bits) - 1
        # Each round is an exchange of the halves, and so its own inverse if the
        # halves change places before and after.
        is_back = rounds.step < 0
        if is_back:
            left, right = right, left
        for each in rounds:
            left, right = right, left ^ self._mixed(prefix, each, right, bits)
        if is_back:
            left, right = right, left
        number = left << bits | right
        shifts = range(LETTER_BITS * (len(letters) - 1), -1, -LETTER_BITS)
        return f"{prefix}-{''.join(ALPHABET[number >> n & 31] for n in shifts)}"

    def _mixed(self, prefix: str, number: int, half: int, bits: int) -> int:
        said = b"%s %d %d" % (prefix.encode(), number, half)
        size = (bits + 7) // 8
        digest = hashlib.blake2b(said, key=self._key, digest_size=size).digest()
        return int.from_bytes(digest, "big") & (1 << bits) - 1


def is_id(name: str) -> bool:
    """Tell whether a text has the form of an operation's or request's id."""
    return _ID.fullmatch(name) is not None
