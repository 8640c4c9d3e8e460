"""Pure decisions about the responses of receivers."""

import email.utils
import enum
from dataclasses import dataclass

from forewarn.instants import SECOND, Micros
from forewarn.service.webhooks import limits

_TAKEN, _REDIRECTS, _GONE = range(200, 300), range(300, 400), 410


class Verdict(enum.Enum):
    """The result of a posted message."""

    DELIVERED = "delivered"
    RETRY = "retry"
    GONE = "gone"
    """The receiver responded with 410 and wants no more messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The response to a post."""

    status: int = 0
    """The HTTP status; 0 if there was no response, and `error` says why."""
    error: str = ""
    retry_after: str = ""
    """The header Retry-After."""
    seconds: float = 0.0
    """The duration of the post."""

    @property
    def verdict(self) -> Verdict:
        """Return the result. Redirects are not followed and count as failures."""
        if self.status in _TAKEN:
            return Verdict.DELIVERED
        return Verdict.GONE if self.status == _GONE else Verdict.RETRY

    def sentence(self) -> str:
        """Return a short description of the failure."""
        if self.error:
            return self.error[: limits.ERROR_CHARACTERS_MAX]
        if self.status in _REDIRECTS:
            return f"HTTP status {self.status}; redirects are not followed"
        return f"HTTP status {self.status}"


def pause(answer: Answer, failures: int, *, share: float, now: Micros) -> float:
    """Return the seconds until the next attempt after `failures` failures in a row.

    The pause doubles with each failure. `share`, from 0 to 1, adds jitter in the upper
    half, so that receivers behind one failure are not retried at the same time. A longer
    Retry-After is respected, up to a limit.
    """
    assert failures > 0
    whole = limits.RETRY_SECONDS_MIN * 2.0 ** min(failures - 1, 30)
    own = min(whole, limits.RETRY_SECONDS_MAX) * (1 + share) / 2
    asked_pause = retry_after(answer.retry_after, now=now)
    return max(own, min(asked_pause, limits.RETRY_AFTER_SECONDS_MAX))


def retry_after(text: str, *, now: Micros) -> float:
    """Return the seconds of a Retry-After header; 0 if it is missing or invalid."""
    text = text.strip()
    if text.isascii() and text.isdecimal():
        return float(text[:10])
    try:
        until = email.utils.parsedate_to_datetime(text)
        return max(0.0, until.timestamp() - now / SECOND)
    except (ValueError, TypeError, OverflowError):
        return 0.0


def is_stale(at: Micros, *, now: Micros) -> bool:
    """Return whether a message from the instant `at` is too old to be sent."""
    return now - at >= limits.GIVE_UP_AFTER
