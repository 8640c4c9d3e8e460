"""`fleet validate`: a check without a service and without extra packages."""

import json

from forewarn.cli import files
from forewarn.cli.command_table import Call, CommandError, Exit
from forewarn.fleet.errors import FleetFileError
from forewarn.fleet.file import read_fleet


def validate(call: Call) -> int:
    """Check a fleet file by itself."""
    text, name = files.read_text(call.text("file"))
    try:
        wanted = read_fleet(text, name=name)
    except FleetFileError as error:
        raise CommandError(
            Exit.USAGE,
            "the fleet file cannot be used",
            lines=error.message.splitlines(),
        ) from error
    counts = {
        "tenants": len(wanted.tenants),
        "scopes": len(wanted.scopes),
        "hosts": len(wanted.hosts),
        "vms": len(wanted.vms),
    }
    if call.flag("json"):
        print(json.dumps(counts, indent=2))
    else:
        # Each name is a plural that ends in s.
        shown = ", ".join(
            f"{count} {noun.removesuffix('s') if count == 1 else noun}"
            for noun, count in counts.items()
        )
        print(f"{name} is valid: {shown}")
    return Exit.DONE
