"""Times of a story: since it began, as `2d 00:15:00`."""

import re

from forewarn.instants import DAY, SECOND, Micros, parse_duration
from forewarn.sim.engine import START

_MOMENT = re.compile(r"(?:(\d+)d )?(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?")


def told(instant: Micros) -> str:
    """Return the instant as the time since the story began."""
    days, rest = divmod(instant - START, DAY)
    seconds, fraction = divmod(rest, SECOND)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    if fraction:
        text += f".{fraction:06}".rstrip("0")
    return f"{days}d {text}" if days else text


def meant(text: str, *, now: Micros) -> Micros:
    """Return the instant that `00:15:00`, `1d 00:15:00` or `+15m` stands for.

    Raises ValueError with a sentence.
    """
    if text.startswith("+"):
        return now + parse_duration(text[1:])
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{text!r} is not a time of the story such as 00:15:00 or +15m"
        )
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups()[:4])
    fraction = int((match[5] or "").ljust(6, "0"))
    whole = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return START + whole * SECOND + fraction
