"""One agent at work until it is told to stop, for whoever gave the command."""

from collections.abc import Mapping

from forewarn.agent import assembly
from forewarn.agent.failure import FAILED, USAGE, CommandFailedError
from forewarn.agent.values import Settings
from forewarn.protocol.errors import ForewarnError


def run(settings: Settings, *, environ: Mapping[str, str]) -> int:
    """Return the exit status at the end; raises CommandFailedError.

    Settings that turn out wrong when they are used end it as wrong usage does, with 2;
    a machine on which it cannot start, also since another agent runs there, with 1.
    """
    try:
        return assembly.run(settings, environ=environ)
    except ForewarnError as error:
        # What reads settings is not kept in a running agent.
        from forewarn.agent.settings import AgentSettingsError  # noqa: PLC0415

        status = USAGE if isinstance(error, AgentSettingsError) else FAILED
        raise CommandFailedError(status, error.message, hint=error.hint) from error
