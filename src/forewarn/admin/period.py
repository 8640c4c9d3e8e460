"""The parameters `since` and `until`."""

from forewarn.instants import Micros, parse_duration, parse_instant
from forewarn.protocol.errors import BadRequestError

SINCE_ABOUT = "Only from this time: RFC 3339, or a duration before now."
UNTIL_ABOUT = "Only before this time: RFC 3339, or a duration before now."
EXAMPLES = ["2026-11-21T10:00:00Z", "24h"]


def instant_of(name: str, text: str, *, now: Micros) -> Micros:
    """Return the instant in a parameter; raises BadRequestError."""
    try:
        if text[:1].isdigit() and "T" in text:
            return max(0, parse_instant(text))
        return max(0, now - parse_duration(text))
    except ValueError as error:
        raise BadRequestError(
            f"{name}: {error}",
            hint="Give a time in RFC 3339, or a duration before now.",
        ) from error


def check_order(since: Micros, until: Micros) -> None:
    """Raise BadRequestError for a period that ends before it begins."""
    if until <= since:
        raise BadRequestError(
            "until must be later than since",
            hint="Give the earlier time, or the longer duration, as since.",
        )
