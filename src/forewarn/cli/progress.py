"""How far a plan, simulation or copy has come, as a part of a line on a terminal."""

from collections.abc import Mapping
from typing import Any

PROGRESS_PATH = "campaigns/progress"
"""The path below which the API tells the progress of a request, by its key."""

BAR_CHARACTERS = 20
"""Width of a bar, in characters: a line with it and a file name fits into 80 columns."""

_PARTS = {
    "waiting": "waiting for its turn",
    "reading": "hosts read",
    "planning": "the fleet is read",
    "playing": "hosts done",
    "copying": "rows copied",
    "verifying": "rows verified",
    "indexing": "the indexes are made",
}


def bar(progress: Mapping[str, Any]) -> str:
    """Return the progress, with a bar if something is counted."""
    part = _PARTS.get(progress["part"], progress["part"])
    done, of = progress["done"], progress["of"]
    if not of:
        return f", {part}"
    filled = min(BAR_CHARACTERS, BAR_CHARACTERS * done // of)
    line = "#" * filled + "." * (BAR_CHARACTERS - filled)
    return f" [{line}] {done:,} of {of:,} {part}"
