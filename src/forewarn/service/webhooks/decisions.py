"""What follows from a receiver's answer, as values in and out."""

import email.utils
import enum
from dataclasses import dataclass

from forewarn.instants import SECOND, Micros
from forewarn.service.webhooks import limits

_TAKEN, _REDIRECTS, _GONE = range(200, 300), range(300, 400), 410


class Verdict(enum.Enum):
    """What becomes of a message that was posted."""

    DELIVERED = "delivered"
    RETRY = "retry"
    GONE = "gone"
    """The receiver wants nothing any more: 410."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of a post."""

    status: int = 0
    """Of HTTP; 0: there was no answer, and `error` says why."""
    error: str = ""
    retry_after: str = ""
    """The header of that name."""
    seconds: float = 0.0
    """How long it took."""

    @property
    def verdict(self) -> Verdict:
        """Tell what follows. Redirects are not followed: they are failures."""
        if self.status in _TAKEN:
            return Verdict.DELIVERED
        return Verdict.GONE if self.status == _GONE else Verdict.RETRY

    def sentence(self) -> str:
        """Return what is wrong with it, in a few words."""
        if self.error:
            return self.error[: limits.ERROR_CHARACTERS_MAX]
        if self.status in _REDIRECTS:
            return f"it answered {self.status}; redirects are not followed"
        return f"it answered {self.status}"


def pause(answer: Answer, failures: int, *, share: float, now: Micros) -> float:
    """Return the seconds until the next try after so many failures in a row.

    They double from one to the next; `share`, from 0 to 1, says how much of the
    upper half is taken, so that receivers behind one failure do not come back
    together. A Retry-After that asks for longer is followed, within a bound.
    """
    assert failures > 0
    whole = limits.RETRY_SECONDS_MIN * 2.0 ** min(failures - 1, 30)
    own = min(whole, limits.RETRY_SECONDS_MAX) * (1 + share) / 2
    wanted = retry_after(answer.retry_after, now=now)
    return max(own, min(wanted, limits.RETRY_AFTER_SECONDS_MAX))


def retry_after(text: str, *, now: Micros) -> float:
    """Return the seconds that a Retry-After names; 0 for none, or nonsense."""
    text = text.strip()
    if text.isascii() and text.isdecimal():
        return float(text[:10])
    try:
        until = email.utils.parsedate_to_datetime(text)
        return max(0.0, until.timestamp() - now / SECOND)
    except (ValueError, TypeError, OverflowError):
        return 0.0


def is_stale(at: Micros, *, now: Micros) -> bool:
    """Tell whether a message of the instant `at` is too old to be told."""
    return now - at >= limits.GIVE_UP_AFTER
