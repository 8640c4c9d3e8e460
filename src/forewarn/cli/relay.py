"""`relay`: run the relay of a host with the settings, and return its exit status."""

from pathlib import Path

from forewarn.cli.command_table import Call, CommandError, Exit, Option
from forewarn.cli.settings import flags_for, given_flags, refused
from forewarn.protocol.errors import ForewarnError
from forewarn.relay.options import OPTIONS
from forewarn.relay.process import run
from forewarn.relay.settings import (
    RelaySettingsError,
    environment_name,
    load_settings,
)
from forewarn.supervisor import supervisor_of

USUAL_FILE = Path("relay.toml")
"""The settings file without --config, if it exists."""


def options() -> tuple[Option, ...]:
    """Return a flag for every setting."""
    return flags_for(OPTIONS, environment_name)


def relay(call: Call) -> int:
    """Run the relay until a signal stops it."""
    flags = given_flags(call, OPTIONS)
    named = call.text("config")
    file = named or (str(USUAL_FILE) if USUAL_FILE.exists() else "")
    try:
        settings = load_settings(file=file, environ=call.environ, flags=flags)
        return run(settings, supervisor=supervisor_of(call.environ))
    except RelaySettingsError as error:
        raise refused(error) from error
    except ForewarnError as error:
        raise CommandError(Exit.FAILED, error.message, hint=error.hint) from error
