"""A token of the operator API, as the store keeps it: with a digest, not the secret."""

from dataclasses import dataclass, field

from forewarn.instants import Micros
from forewarn.protocol.actors import Actor


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token with its owner, its tenant and its rights."""

    token_id: str
    """The public ID: it appears in lists and in the token's text, and revokes it."""
    name: str
    """The owner's name, as the history shows it."""
    tenant: str
    """The tenant whose VMs the token can access; empty: an operator, for everything."""
    read_only: bool
    digest: str = field(repr=False)
    """SHA-256 of the secret, in hexadecimal."""
    created_at: Micros
    created_by: Actor
    expires_at: Micros = 0
    """When the token becomes invalid; 0: it does not expire."""
    last_used_at: Micros = 0
    """The hour of the token's last use; 0: never used."""
    is_unauthenticated: bool = False
    """The creator of the token had no token and no credentials."""
    revision: int = 0

    @property
    def key(self) -> str:
        """Return the key of the record."""
        return self.token_id

    def is_expired(self, *, now: Micros) -> bool:
        """Tell whether the token has expired."""
        return self.expires_at != 0 and now >= self.expires_at
