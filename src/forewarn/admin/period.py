"""Times in a question: since when, until when."""

from forewarn.instants import Micros, parse_duration, parse_instant
from forewarn.protocol.errors import BadRequestError

SINCE_ABOUT = "Only from here on: RFC 3339, or a duration for so long ago."
UNTIL_ABOUT = "Only before: RFC 3339, or a duration for so long ago."
EXAMPLES = ["2026-11-21T10:00:00Z", "24h"]


def instant_of(name: str, text: str, *, now: Micros) -> Micros:
    """Return the instant that a parameter writes; raises BadRequestError."""
    try:
        if text[:1].isdigit() and "T" in text:
            return max(0, parse_instant(text))
        return max(0, now - parse_duration(text))
    except ValueError as error:
        raise BadRequestError(
            f"{name}: {error}", hint="write a time, or a duration for so long ago"
        ) from error


def check_order(since: Micros, until: Micros) -> None:
    """Tell of a period that ends before it begins, which would just be empty."""
    if until <= since:
        raise BadRequestError(
            "until is not after since: there is nothing between them",
            hint="write the earlier time in since, or the longer duration",
        )
