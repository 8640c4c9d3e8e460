"""Names that a test gives: one that is unknown is told with those that there are."""

from collections.abc import Collection
from itertools import islice

from forewarn.problems import did_you_mean, quoted
from forewarn.protocol.errors import NotFoundError

NAMES_TOLD = 20
"""Maximum names in one sentence: all of what a test usually has."""


def unknown(what: str, name: str, known: Collection[str]) -> NotFoundError:
    """Return the error for an unknown name: `there is no VM "web_9"; known: web_0`."""
    meant = did_you_mean(name, known)
    told = ", ".join(islice(known, NAMES_TOLD)) or "none"
    more = len(known) - NAMES_TOLD
    rest = f" and {more} more" if more > 0 else ""
    return NotFoundError(
        f"there is no {what} {quoted(name)}{meant}; known: {told}{rest}"
    )
