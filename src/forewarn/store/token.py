"""A token of the operator API, as it is kept: never the secret, only its digest."""

from dataclasses import dataclass, field

from forewarn.instants import Micros
from forewarn.protocol.actors import Actor


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """Who may use the operator API, for whom, and how far."""

    token_id: str
    """Public: it is listed, stands in the token's own text, and revokes it."""
    name: str
    """Who holds it, as the history shows it."""
    tenant: str
    """Whose VMs it is for; empty: an operator's, for everything."""
    read_only: bool
    digest: str = field(repr=False)
    """SHA-256 of the secret, in hexadecimal."""
    created_at: Micros
    created_by: Actor
    expires_at: Micros = 0
    """From then on it is good for nothing; 0: it does not expire."""
    last_used_at: Micros = 0
    """When it was last presented, to the hour; 0: never."""
    is_unauthenticated: bool = False
    """Its maker had presented neither a token nor credentials."""
    revision: int = 0

    @property
    def key(self) -> str:
        """Return what a store finds it by."""
        return self.token_id

    def is_expired(self, *, now: Micros) -> bool:
        """Tell whether its time is over."""
        return self.expires_at != 0 and now >= self.expires_at
