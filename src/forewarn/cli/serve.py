"""`serve`: run the service with the settings, and return its exit status."""

from pathlib import Path

from forewarn.admin.tokens import TokenFileError
from forewarn.cli.command_table import Call, CommandError, Exit
from forewarn.cli.settings import refused, settings_of
from forewarn.fleet.errors import FleetFileError
from forewarn.protocol.errors import ForewarnError
from forewarn.service.assembly import run
from forewarn.service.settings import SettingsError
from forewarn.supervisor import supervisor_of


def serve(call: Call) -> int:
    """Run the service until a signal stops it."""
    settings = settings_of(call)
    fleet = call.text("fleet")
    try:
        return run(
            settings,
            fleet=Path(fleet) if fleet else None,
            supervisor=supervisor_of(call.environ),
        )
    except (FleetFileError, SettingsError) as error:
        raise refused(error) from error
    except TokenFileError as error:
        raise CommandError(Exit.USAGE, error.message, hint=error.hint) from error
    except ForewarnError as error:
        raise CommandError(Exit.FAILED, error.message, hint=error.hint) from error
