"""What handlers stand on: where they keep things, the environment and the clock."""

from collections.abc import Mapping
from dataclasses import dataclass

from forewarn.agent.handlers.records import Shelf
from forewarn.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What handlers stand on."""

    shelf: Shelf
    environment: Mapping[str, str]
    """The agent's own."""
    clock: Clock
    memos: str = ""
    """The folder of what handlers remember, beside the journal."""
