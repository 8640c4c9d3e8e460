"""The record of the store itself: its current term and its secret."""

from dataclasses import dataclass, field

NAME = "leader"
"""The key of the only record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """The current term and the secret of the store."""

    name: str = NAME
    term: int
    secret: str = field(default="", repr=False)
    """256 random bits in hexadecimal, created once. The keys of the tenants' aliases are
    derived from it."""
    revision: int = 0

    @property
    def key(self) -> str:
        """Return the key of the only record."""
        return self.name
