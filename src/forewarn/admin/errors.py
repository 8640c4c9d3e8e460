"""Errors that only the operator API raises, and the kinds of all errors that it reports."""

import enum
from collections.abc import Sequence

from forewarn.control.transactions.parts import Refused
from forewarn.protocol.errors import ForewarnError
from forewarn.wording import operators


class UnauthorizedError(ForewarnError):
    """The caller has no valid token."""


class ForbiddenError(ForewarnError):
    """The caller's token is valid, but does not have the right."""


class TooManyError(ForewarnError):
    """The caller has reached a limit."""

    def __init__(self, message: str, *, hint: str = "", retry_seconds: int) -> None:
        """Also store the number of seconds to wait."""
        super().__init__(message, hint=hint)
        self.retry_seconds = retry_seconds


class Kind(enum.Enum):
    """The kind of an error: its name in the body, and its HTTP status."""

    BAD_REQUEST = ("bad-request", 400)
    BAD_FLEET = ("bad-fleet", 400)
    BAD_CAMPAIGN = ("bad-campaign", 400)
    UNAUTHORIZED = ("unauthorized", 401)
    FORBIDDEN = ("forbidden", 403)
    NOT_FOUND = ("not-found", 404)
    NOT_ALLOWED = ("method-not-allowed", 405)
    REFUSED = ("refused", 409)
    CONFLICT = ("conflict", 409)
    TOO_LARGE = ("too-large", 413)
    NOT_JSON = ("not-json", 415)
    KEY_REUSED = ("key-reused", 422)
    TOO_MANY = ("too-many", 429)
    INTERNAL = ("internal", 500)
    UNAVAILABLE = ("unavailable", 503)
    FOLLOWS = ("follows", 503)
    """This replica does not lead the cluster."""

    def __init__(self, word: str, status: int) -> None:
        """Store the name and the HTTP status separately."""
        self.word = word
        self.status = status


def refused_report(refused: Sequence[Refused]) -> list[dict[str, str]]:
    """Return the report of the targets that were refused."""
    return [
        {
            "name": refusal.name,
            "error": operators.refusal(refusal.error),
            "hint": refusal.error.hint,
        }
        for refusal in refused
    ]
