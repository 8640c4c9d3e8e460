"""Durations in options of commands."""

from forewarn.cli.command_table import Call
from forewarn.cli.failure import CommandError, Exit
from forewarn.instants import Micros, parse_duration


def duration(call: Call, key: str, *, is_positive: bool = False) -> Micros | None:
    """Return the duration of an option; None if it was not given.

    Raises CommandError.
    """
    text = call.text(key)
    if not text:
        return None
    flag = f"--{key.replace('_', '-')}"
    try:
        found = parse_duration(text)
    except ValueError as error:
        raise CommandError(Exit.USAGE, f"{flag}: {error}") from error
    if is_positive and not found:
        raise CommandError(Exit.USAGE, f"{flag}: must be more than {text}")
    return found
