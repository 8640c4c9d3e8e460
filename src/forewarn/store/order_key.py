"""The `Idempotency-Key` of an order, kept with what the order made."""

from dataclasses import dataclass

from forewarn.instants import Micros


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderKey:
    """One order that a caller gave under a key."""

    key_id: str
    """SHA-256 of caller and key, in hexadecimal: a fixed length, whatever both are."""
    caller: str
    """Who gave the order: the ID of a token, or a name."""
    digest: str
    """SHA-256 of the request, in hexadecimal."""
    result: str
    """What the order made, as JSON: identifiers, not the records themselves."""
    created_at: Micros
    expires_at: Micros
    """From then on the key may name another order."""
    revision: int = 0

    @property
    def key(self) -> str:
        """Return what a store finds it by."""
        return self.key_id
