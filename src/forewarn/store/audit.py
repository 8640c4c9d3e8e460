"""The trail: who did what, when and why, kept in the transaction that did it."""

from dataclasses import dataclass

from forewarn.instants import Micros


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One change, as `history` shows it."""

    entry_id: str
    """Sorts by time: the instant in 17 digits, then a counter."""
    at: Micros
    actor: str
    """Who: `operator`, `vm web_0`, `clock`, `driver`, a token's name."""
    what: str
    """The step in few words, such as `event started`."""
    why: str
    subjects: tuple[str, ...]
    """What it is about, as `vm:web_0`, `operation:op-…`, `event:…`, `host:h1`."""
    detail: str = ""
    """A sentence for people."""
    revision: int = 0

    @property
    def key(self) -> str:
        """Return the entry's id."""
        return self.entry_id
