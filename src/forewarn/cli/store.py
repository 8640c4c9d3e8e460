"""`store check` and `store backup`: commands for the file, without a service."""

import json
from pathlib import Path

from forewarn.cli.command_table import Call, CommandError, Exit
from forewarn.cli.settings import settings_of
from forewarn.store import backup as backups
from forewarn.store import check as checks
from forewarn.store.open import path_of
from forewarn.store.port import StoreError
from forewarn.store.postgres.url import is_url


def check(call: Call) -> int:
    """Check a file, and print every violation."""
    named = call.text("file")
    file = Path(named) if named else _file_of_settings(call)
    if file.is_dir():
        raise CommandError(Exit.USAGE, f"{file} is a directory; name a file in it")
    if not file.is_file():
        raise CommandError(Exit.USAGE, f"there is no file {file}")
    try:
        violations = checks.check(file)
    except StoreError as error:
        raise CommandError(Exit.FAILED, error.message, hint=error.hint) from error
    if call.flag("json"):
        print(json.dumps({"file": str(file), "violations": violations}, indent=2))
    else:
        for violation in violations:
            print(violation)
        ending = "" if len(violations) == 1 else "s"
        print(f"{file}: {len(violations) or 'no'} violation{ending}")
    return Exit.FAILED if violations else Exit.DONE


def backup(call: Call) -> int:
    """Copy the file in the settings."""
    source, target = _file_of_settings(call), Path(call.text("file"))
    try:
        size = backups.backup(source, target)
    except StoreError as error:
        raise CommandError(Exit.FAILED, error.message, hint=error.hint) from error
    if call.flag("json"):
        told = {"file": str(target), "of": str(source), "bytes": size}
        print(json.dumps(told, indent=2))
    else:
        print(f"{target} is a complete copy of {source}, {size} bytes")
    return Exit.DONE


def _file_of_settings(call: Call) -> Path:
    settings = settings_of(call)
    path = path_of(settings.store.url)
    if path is None:
        origin = settings.origins.get("store.url", "default")
        hint = "Use --config with a file whose [store] url is sqlite:///PATH."
        if is_url(settings.store.url):
            hint = (
                "Back up the database with pg_dump, or with the backup of its server."
            )
        raise CommandError(
            Exit.USAGE,
            f"the store in these settings is not a file ({origin})",
            hint=hint,
        )
    return path
