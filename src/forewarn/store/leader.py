"""The row of the store itself: its present term, and its secret."""

from dataclasses import dataclass, field

NAME = "leader"
"""Key of the only row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """Which term of the store is the present one, and the secret of the store."""

    name: str = NAME
    term: int
    secret: str = field(default="", repr=False)
    """256 random bits in hexadecimal, made once. The keys of the tenants' aliases are
    derived from it."""
    revision: int = 0

    @property
    def key(self) -> str:
        """Return the key of the only row."""
        return self.name
