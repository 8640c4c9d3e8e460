"""The `Idempotency-Key` of a request, stored with its result."""

from dataclasses import dataclass

from forewarn.instants import Micros


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderKey:
    """One request of a caller with a key."""

    key_id: str
    """SHA-256 of caller and key, in hexadecimal: a fixed length for both."""
    caller: str
    """The caller: the ID of a token, or a name."""
    digest: str
    """SHA-256 of the request, in hexadecimal."""
    result: str
    """The result as JSON: identifiers, not the records themselves."""
    created_at: Micros
    expires_at: Micros
    """When the key can be used for another request."""
    revision: int = 0

    @property
    def key(self) -> str:
        """Return the key of the record."""
        return self.key_id
