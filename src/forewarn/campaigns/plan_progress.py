"""The progress of a plan or simulation of a campaign file, for its waiting caller."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from forewarn.protocol.enumerations import Enumeration


class Part(Enumeration):
    """A part of the work; the value is its name in the API."""

    WAITING = "waiting"
    """Another campaign has its turn."""
    READING = "reading"
    """The fleet is read; its hosts are counted."""
    PLANNING = "planning"
    """The plan is made; nothing is counted."""
    PLAYING = "playing"
    """The campaign is played; its hosts that have ended are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The current part of the work, and its progress."""

    part: Part
    done: int = 0
    of: int = 0
    """0: nothing is counted."""


ReportProgress: TypeAlias = Callable[[Progress], None]
"""Receives progress, as often as there is some."""


def ignore_progress(_progress: Progress) -> None:
    """Ignore it."""
