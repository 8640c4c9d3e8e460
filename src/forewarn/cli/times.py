"""Times and durations as people type them after a command.

The operator API takes only times with an offset. The zone of the person who types is
known here alone, so a local time gets its offset here.
"""

from datetime import datetime, tzinfo

from forewarn.cli.command_table import Call, CommandError, Exit
from forewarn.instants import Micros, parse_duration


def with_offset(text: str, *, zone: tzinfo | None = None) -> str:
    """Return a time with its offset; other texts unchanged, for the service to judge.

    A time without an offset is in `zone`; None: in the zone of this machine. Raises
    CommandError for a local time that occurs twice or never.
    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return text
    if moment.tzinfo is not None:
        return text
    first, second = (_in_zone(moment.replace(fold=fold), zone) for fold in (0, 1))
    if first.utcoffset() == second.utcoffset():
        return first.isoformat()
    offsets = " or ".join(moment_.isoformat()[-6:] for moment_ in (first, second))
    raise CommandError(
        Exit.USAGE,
        f"{text} is in a change of the local time zone: it occurs twice or never",
        hint=f"Add the offset to the time: {offsets}.",
    )


def _in_zone(moment: datetime, zone: tzinfo | None) -> datetime:
    """Return the moment with the offset that the zone has then."""
    return moment.astimezone() if zone is None else moment.replace(tzinfo=zone)


def duration(call: Call, key: str, *, is_positive: bool = False) -> Micros | None:
    """Return the duration of an option; None if it was not given.

    Raises CommandError.
    """
    text = call.text(key)
    if not text:
        return None
    flag = f"--{key.replace('_', '-')}"
    try:
        micros = parse_duration(text)
    except ValueError as error:
        raise CommandError(Exit.USAGE, f"{flag}: {error}") from error
    if is_positive and not micros:
        raise CommandError(Exit.USAGE, f"{flag}: must be more than {text}")
    return micros
