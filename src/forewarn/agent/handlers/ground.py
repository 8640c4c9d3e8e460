"""What handlers stand on: where they keep things, the environment and the clock."""

from __future__ import annotations

from collections.abc import Mapping

from forewarn.agent.handlers.records import Shelf
from forewarn.clock import Clock
from forewarn.protocol.frozen import frozen_dataclass


@frozen_dataclass
class Ground:
    """What handlers stand on."""

    shelf: Shelf
    environment: Mapping[str, str]
    """The agent's own."""
    clock: Clock
    memos: str = ""
    """The folder of what handlers remember, beside the journal."""
