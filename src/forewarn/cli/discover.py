"""`fleet discover`: a fleet file from an inventory, without a service."""

import shlex

from forewarn.cli import files, times
from forewarn.cli.command_table import Call, CommandError, Exit
from forewarn.clock import SystemClock
from forewarn.drivers.discovery import Discovery
from forewarn.drivers.port import DriverError
from forewarn.fleet.errors import FleetFileError
from forewarn.fleet.inventory import fleet_file, read_inventory
from forewarn.instants import MINUTE, SECOND

TIMEOUT = 2 * MINUTE
"""Maximum time of the program, unless --timeout says otherwise: an API that is asked for
each of 400 hosts answers in less."""


def discover(call: Call) -> int:
    """Write the fleet file of an inventory."""
    words = _words(call)
    limit = times.duration(call, "timeout", is_positive=True) or TIMEOUT
    target = call.text("file")
    if target:
        files.need_writable(target)
    run = Discovery(words, seconds=limit / SECOND, clock=SystemClock())
    try:
        wanted = read_inventory(run.run(), name=run.name)
    except DriverError as error:
        raise CommandError(Exit.FAILED, error.message, hint=error.hint) from error
    except FleetFileError as error:
        raise CommandError(
            Exit.USAGE,
            "the inventory cannot be used",
            lines=error.message.splitlines(),
            hint=error.hint,
        ) from error
    text = fleet_file(wanted)
    if target:
        files.replace_text(target, text)
    else:
        print(text, end="")
    return Exit.DONE


def _words(call: Call) -> tuple[str, ...]:
    """Return the program and its arguments; raises CommandError."""
    given = call.text("command")
    try:
        words = tuple(shlex.split(given))
    except ValueError as error:
        raise CommandError(Exit.USAGE, f"--command: {error}") from error
    if not words:
        raise CommandError(
            Exit.USAGE,
            "no source is given",
            hint="Name a program that prints an inventory: --command PROGRAM",
        )
    return words
