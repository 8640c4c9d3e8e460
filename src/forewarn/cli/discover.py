"""`fleet discover`: a fleet file from an inventory, without a service."""

import shlex
from collections.abc import Sequence

from forewarn.cli import files, times
from forewarn.cli.command_table import Call, CommandError, Exit
from forewarn.clock import SystemClock
from forewarn.drivers.discovery import Discovery
from forewarn.drivers.libvirt import commands
from forewarn.drivers.port import DriverError
from forewarn.fleet.errors import FleetFileError
from forewarn.fleet.inventory import fleet_file, read_inventory
from forewarn.instants import MINUTE, SECOND

PYTHON = "/usr/bin/python3"
"""The Python that has the module libvirt, unless --python says otherwise: that of the
system, for which Debian's python3-libvirt is made."""

TIMEOUT = 2 * MINUTE
"""Maximum time of the program, unless --timeout says otherwise: an API that is asked for
each of 400 hosts answers in less."""


def discover(call: Call) -> int:
    """Write the fleet file of an inventory."""
    limit = times.duration(call, "timeout", is_positive=True) or TIMEOUT
    command = _words(call, seconds=limit / SECOND)
    target = call.text("file")
    if target:
        files.need_writable(target)
    run = Discovery(command, seconds=limit / SECOND, clock=SystemClock())
    name = "libvirt" if call.texts("libvirt") else run.name
    try:
        wanted = read_inventory(run.run(), name=name)
    except DriverError as error:
        raise CommandError(Exit.FAILED, error.message, hint=error.hint) from error
    except FleetFileError as error:
        raise CommandError(
            Exit.USAGE,
            "the inventory cannot be used",
            lines=error.message.splitlines(),
            hint=error.hint,
        ) from error
    if wanted.unknown_hosts:
        # A fleet file without them would remove them when it is applied.
        raise CommandError(
            Exit.FAILED,
            "the inventory is not complete: some hosts could not be read",
            lines=list(wanted.unknown_hosts),
            hint="Try again when they answer, or leave them out. With [inventory], the "
            "service keeps these hosts and merges the others.",
        )
    text = fleet_file(wanted)
    if target:
        files.replace_text(target, text)
    else:
        print(text, end="")
    return Exit.DONE


def _words(call: Call, *, seconds: float) -> tuple[str, ...]:
    """Return the program and its arguments; raises CommandError."""
    command, uris = call.text("command"), call.texts("libvirt")
    if command and uris:
        raise CommandError(
            Exit.USAGE,
            "two sources are given, --libvirt and --command",
            hint="Write a file for each source, and give one of the options.",
        )
    if uris:
        return _libvirt_words(call, uris, seconds=seconds)
    try:
        command_parts = tuple(shlex.split(command))
    except ValueError as error:
        raise CommandError(Exit.USAGE, f"--command: {error}") from error
    if not command_parts:
        raise CommandError(
            Exit.USAGE,
            "no source is given",
            hint="Name a program that prints an inventory, --command PROGRAM, or the "
            "libvirts of hosts, --libvirt URI",
        )
    return command_parts


def _libvirt_words(
    call: Call, uris: Sequence[str], *, seconds: float
) -> tuple[str, ...]:
    """Return the worker that asks libvirt; raises CommandError."""
    for uri in uris:
        if problem := commands.host_uri_problem(uri):
            raise CommandError(Exit.USAGE, f"--libvirt: {problem}")
    python = call.text("python") or PYTHON
    return commands.discovery_words(python, uris, seconds=seconds)
