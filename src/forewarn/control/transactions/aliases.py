"""Aliases: the IDs of operations and requests that a tenant sees.

Several tenants can share an operation. If all of them saw its real ID, two tenants could
compare IDs and prove that their VMs share a host. Therefore each tenant has a keyed
permutation of the IDs. It keeps the form of an ID, can be reversed with the key, and
differs from tenant to tenant. All keys are derived from one secret in the store. Pure:
values in, values out.

The permutation is a Feistel network over the bits of an ID, with keyed BLAKE2b as its
round function. The prefix of the ID is an input of the round function.
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
"""The characters of an ID. Version 0.1.0 created IDs of the first length."""

_ID: Final = re.compile(rf"(op|rq|ro)-({_LETTERS})", re.ASCII)

ROUNDS: Final = 10
"""Rounds of the network: the number of NIST SP 800-38G for format-preserving
encryption (FF1)."""

LETTER_BITS: Final = 5
"""Bits per character. IDs have an even number of characters, so that both halves have
the same number of bits."""

ENTRY_DIGITS: Final = 16
"""Hexadecimal digits in the ID of a history entry, or of coming work: 64 bits distinguish
the entries of one second."""


class Aliases:
    """The permutation of one tenant, with a cache."""

    def __init__(self, secret: str, tenant: str) -> None:
        """Derive the key of the tenant from the secret of the store."""
        self._key = hmac.digest(
            secret.encode(), f"tenant aliases:{tenant}".encode(), "sha256"
        )
        self._known: dict[str, str] = {}

    def of(self, name: str) -> str:
        """Return the alias of a real ID; return other text unchanged."""
        alias = self._known.get(name)
        if alias is None:
            alias = self._known[name] = self._permuted(name, range(ROUNDS))
        return alias

    def real(self, alias: str) -> str:
        """Return the real ID of an alias; return other text unchanged."""
        return self._permuted(alias, range(ROUNDS - 1, -1, -1))

    def of_entry(self, entry_id: str) -> str:
        """Return a digest of the ID of a history entry that is unique to this tenant."""
        digest = hmac.digest(self._key, f"entry:{entry_id}".encode(), "sha256")
        return digest.hex()[:ENTRY_DIGITS]

    def of_work(self, vm: str, request: str) -> str:
        """Return a digest that names the work of a request on a VM of the tenant.

        Those of several VMs do not show whether a request has both.
        """
        digest = hmac.digest(self._key, f"work:{vm}/{request}".encode(), "sha256")
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
        # A round swaps the halves. It is its own inverse if the halves are also swapped
        # before and after it.
        is_back = rounds.step < 0
        if is_back:
            left, right = right, left
        for round_number in rounds:
            left, right = right, left ^ self._mixed(prefix, round_number, right, bits)
        if is_back:
            left, right = right, left
        number = left << bits | right
        shifts = range(LETTER_BITS * (len(letters) - 1), -1, -LETTER_BITS)
        return f"{prefix}-{''.join(ALPHABET[number >> n & 31] for n in shifts)}"

    def _mixed(self, prefix: str, number: int, half: int, bits: int) -> int:
        message = b"%s %d %d" % (prefix.encode(), number, half)
        size = (bits + 7) // 8
        digest = hashlib.blake2b(message, key=self._key, digest_size=size).digest()
        return int.from_bytes(digest, "big") & (1 << bits) - 1


def is_id(name: str) -> bool:
    """Return whether a text has the form of an operation or request ID."""
    return _ID.fullmatch(name) is not None
