"""Settings as flags, and `config show` with the source of each value."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from forewarn.cli.command_table import Call, CommandError, Exit, Option
from forewarn.protocol.errors import ForewarnError
from forewarn.service.option_table import OPTIONS
from forewarn.service.options import environment_name
from forewarn.service.settings import Settings, SettingsError, describe, load_settings
from forewarn.settings import forms
from forewarn.settings.forms import flag_of
from forewarn.texts import printable

USUAL_FILE = Path("forewarn.toml")
"""The settings file without --config, if it exists."""


def options() -> tuple[Option, ...]:
    """Return a flag for every setting."""
    return flags_for(OPTIONS, environment_name)


def flags_for(
    settings: Mapping[str, forms.Option], variable_of: Callable[[str], str]
) -> tuple[Option, ...]:
    """Return a flag for each of these settings; `variable_of` names its variable."""
    return tuple(
        Option(
            name=flag_of(name),
            metavar=setting.form.metavar,
            may_be_empty=True,
            help=f"Setting {name}, or {variable_of(name)}.",
        )
        for name, setting in settings.items()
    )


def given_flags(call: Call, settings: Iterable[str]) -> dict[str, str]:
    """Return the text of each flag that the call has, by the name of its setting."""
    return {
        name: text
        for name in settings
        if (text := getattr(call.arguments, flag_of(name)[2:].replace("-", "_"), None))
        is not None
    }


def settings_of(call: Call) -> Settings:
    """Return the settings in force; raises CommandError."""
    flags = given_flags(call, OPTIONS)
    named = call.text("config")
    file = Path(named) if named else USUAL_FILE
    try:
        return load_settings(
            file=file if named or file.exists() else None,
            environ=call.environ,
            flags=flags,
        )
    except SettingsError as error:
        raise refused(error) from error


def refused(error: ForewarnError) -> CommandError:
    """Return the error for an invalid settings or fleet file."""
    return CommandError(
        Exit.USAGE,
        "nothing was started",
        hint=error.hint,
        lines=error.message.splitlines(),
    )


def check(call: Call) -> int:
    """Check everything that `serve` reads before it opens the store."""
    # Imported here, since `config show` does not need the parts of a service.
    from forewarn.service import checking, secret_files  # noqa: PLC0415

    settings = settings_of(call)
    try:
        checking.check(settings)
    except SettingsError as error:
        raise CommandError(
            Exit.USAGE,
            "`forewarn serve` would not start",
            hint=error.hint,
            lines=error.message.splitlines(),
        ) from error
    for warning in (*settings.warnings, *secret_files.open_files(settings)):
        print(f"forewarn: {printable(warning)}", file=sys.stderr)
    print("the settings and the files that they name are valid")
    return Exit.DONE


def show(call: Call) -> int:
    """Print every setting in force, and its source."""
    settings = settings_of(call)
    rows = describe(settings)
    if call.flag("json"):
        print(
            json.dumps(
                [
                    {"key": row.key, "value": row.value, "origin": row.origin}
                    for row in rows
                ],
                indent=2,
            )
        )
        return Exit.DONE
    widest = max(len(f"{row.key} = {row.value}") for row in rows)
    for row in rows:
        print(f"{f'{row.key} = {row.value}':<{widest}}  # {row.origin}")
    for warning in settings.warnings:
        print(f"forewarn: {printable(warning)}", file=sys.stderr)
    return Exit.DONE
